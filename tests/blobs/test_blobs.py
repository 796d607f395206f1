"""Blobs in every kind of place: what was put is what one gets, and nobody else does."""

import asyncio
import hashlib
import os
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.blobs import (
    BlobDamaged,
    BlobNotFound,
    Blobs,
    BlobsUnavailable,
    blob_id_of,
    blob_url,
    open_blobs,
)
from holdfast.blobs.address import KEPT, folder_of, key
from holdfast.blobs.media import BINARY, JSON, TEXT, media_type
from holdfast.blobs.packing import unpacked
from holdfast.errors import InvalidInput

HOSTILE = [
    "../../etc",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:\\windows",
    ".",
    "..",
    " ",
    "ACME",
    "acme",
    "ácme",
    "a\u0301cme",
    "x" * 512,
    "🏔" * 512,
    "a\nb",
    "%2e%2e",
    "~root",
    "-rf",
]


@pytest.mark.req("EXE-07")
@pytest.mark.parametrize(
    "data", [b"", b"hello", "ünïcode".encode(), os.urandom(100_000), b"x" * 10_000_000], ids=lambda d: len(d)
)
async def test_what_was_put_is_found_by_its_hash(blobs: Blobs, data: bytes) -> None:
    blob = await blobs.put("acme", data)
    assert blob == hashlib.sha256(data).hexdigest()
    assert await blobs.get("acme", blob) == data


async def test_the_same_bytes_again_are_harmless_however_many_put_them_at_once(blobs: Blobs) -> None:
    ids = await asyncio.gather(*(blobs.put("acme", b"the same") for _ in range(20)))
    assert len(set(ids)) == 1
    assert await blobs.get("acme", ids[0]) == b"the same"
    assert len(await blobs.place.entries(f"{KEPT}/{folder_of('acme')}")) == 1


async def test_another_organization_cannot_tell_that_a_blob_exists(blobs: Blobs) -> None:
    blob = await blobs.put("acme", b"secret")
    with pytest.raises(BlobNotFound) as theirs:
        await blobs.get("other", blob)
    with pytest.raises(BlobNotFound) as nobodys:
        await blobs.get("other", "0" * 64)
    assert str(theirs.value).replace(blob, "") == str(nobodys.value).replace("0" * 64, "")
    with pytest.raises(BlobNotFound):
        await blobs.presigned("other", blob, 60)


async def test_organizations_with_hostile_names_have_folders_of_their_own(blobs: Blobs) -> None:
    blob = ""
    for name in HOSTILE:
        blob = await blobs.put(name, b"the same for all")
    for name in HOSTILE:
        assert await blobs.get(name, blob) == b"the same for all"
    folders = await blobs.place.folders(KEPT)
    assert len(folders) == len(HOSTILE)
    assert len({name.lower() for name in folders}) == len(HOSTILE)


@pytest.mark.parametrize(
    "blob", ["", "..", "../" * 8 + "etc/passwd", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "a\0"]
)
async def test_what_is_no_id_is_not_found(blobs: Blobs, blob: str) -> None:
    with pytest.raises(BlobNotFound):
        await blobs.get("acme", blob)
    with pytest.raises(BlobNotFound):
        await blobs.presigned("acme", blob, 60)


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 30])
async def test_a_damaged_blob_is_never_given_out_and_mended_by_the_next_put(
    blobs: Blobs, damage: bytes
) -> None:
    data = os.urandom(5000)
    blob = await blobs.put("acme", data)
    where = key(KEPT, folder_of("acme"), blob)
    stored = await blobs.place.read(where)
    assert stored is not None
    for bad in (damage, stored[:-100], stored[:2000] + bytes([stored[2000] ^ 1]) + stored[2001:]):
        await blobs.place.write(where, bad, BINARY)
        with pytest.raises(BlobDamaged, match="put the same bytes again"):
            await blobs.get("acme", blob)
    assert await blobs.put("acme", data) == blob
    assert await blobs.get("acme", blob) == data


async def test_a_bucket_gives_an_address_that_anybody_can_read_for_a_while(bucket_url: str) -> None:
    blobs = open_blobs(bucket_url)
    data = b'{"answer": 42}'
    blob = await blobs.put("acme", data)
    url = await blobs.presigned("acme", blob, 60)
    assert url is not None
    assert "Expires=60" in url
    response = await asyncio.to_thread(urlopen, url)
    assert response.headers["Content-Encoding"] == "zstd"
    assert response.headers["Content-Type"] == JSON
    assert unpacked(response.read(), blob) == data


async def test_a_directory_has_no_addresses_of_its_own(local: Blobs) -> None:
    assert await local.presigned("acme", await local.put("acme", b"here"), 60) is None


async def test_a_bucket_that_is_not_there_is_a_sentence(
    bucket_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = open_blobs("s3://no-such-bucket-here")
    with pytest.raises(BlobsUnavailable, match="s3://no-such-bucket-here"):
        await missing.put("acme", b"x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    silent = open_blobs(bucket_url)
    with pytest.raises(BlobsUnavailable) as refusal:
        await silent.get("acme", "0" * 64)
    assert (refusal.value.status, refusal.value.retriable) == (503, True)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["", "blobs", "http://x/y", "file://relative", "file:///", "file:relative", "s3://", "az://only"]
)
def test_an_address_that_names_no_place_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        open_blobs(url)


async def test_a_directory_with_an_odd_name_is_found_by_its_address(tmp_path: Path) -> None:
    odd = tmp_path / "with space%20 and ü"
    await open_blobs(odd.as_uri()).put("acme", b"x")
    assert (odd / KEPT).is_dir()


def test_a_blob_and_its_url_name_each_other() -> None:
    blob = blob_id_of("/api/blobs/" + "a1" * 32)
    assert blob is not None
    assert blob_id_of(blob_url(blob)) == blob


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a" * 64,
        "/api/blobs/",
        "/api/blobs/x",
        "/api/blobs/" + "A" * 64,
        "https://x/api/blobs/" + "a" * 64,
    ],
)
def test_another_url_names_no_blob(url: str) -> None:
    assert blob_id_of(url) is None


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"a": 1}', JSON),
        (b" [1, 2]\n", JSON),
        (b"[x] to do", TEXT),
        (b"{unclosed", TEXT),
        (b"42", TEXT),
        (b"", TEXT),
        (b"<script>alert(1)</script>", TEXT),
        (b"\xff\xfe\x00", BINARY),
    ],
)
def test_the_kind_of_bytes_is_told_from_them(data: bytes, kind: str) -> None:
    assert media_type(data) == kind


@given(data=st.binary(max_size=2000), organization=st.text(min_size=1, max_size=50))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_bytes_of_any_organization_come_back(local: Blobs, data: bytes, organization: str) -> None:
    async def there_and_back() -> bytes:
        return await local.get(organization, await local.put(organization, data))

    assert asyncio.run(there_and_back()) == data


async def test_writing_can_be_tried_and_leaves_nothing(blobs: Blobs) -> None:
    await blobs.place.try_writing()
    assert await blobs.place.folders("tried") == []


async def test_a_place_that_cannot_be_written_says_so(bucket_url: str) -> None:
    with pytest.raises(BlobsUnavailable):
        await open_blobs(f"s3://{'no' * 10}/bucket").place.try_writing()
