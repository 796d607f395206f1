"""Full payloads over HTTP: for the organization that they belong to, and harmless in a browser."""

import httpx2
import pytest

from holdfast import NewTurn, Session, Store
from holdfast.blobs import Blobs, blob_url, open_blobs
from holdfast.model.turn import SUMMARY_LENGTH, summary
from tests.server.servers import Organization, Served, problem


@pytest.fixture
def blobs(served: Served) -> Blobs:
    """The server's blobs, opened by another process: this one."""
    return open_blobs((served.data / "blobs").as_uri())


@pytest.mark.req("EXE-07", "EXE-23", "EXE-24")
async def test_a_turn_holds_the_beginning_of_its_text_and_the_url_of_all_of_it(
    org: Organization, store: Store, blobs: Blobs, session: Session
) -> None:
    instruction = "Explain é. " * 1000
    url = blob_url(await blobs.put(org.name, instruction.encode()))
    new = NewTurn(instruction_summary=summary(instruction), full_instruction_url=url)
    added = await store.as_principal(org.ada.principal).add_turn(session.id, new)
    turn = (await org.ada.get(f"/api/sessions/{session.id}/turns/{added.id}")).json()
    assert len(turn["instructionSummary"]) == SUMMARY_LENGTH
    assert instruction.startswith(turn["instructionSummary"][:-1])
    assert (await org.ada.get(turn["fullInstructionUrl"])).text == instruction


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"model": "m"}', "application/json"),
        (b"<script>alert(1)</script>", "text/plain; charset=utf-8"),
        (b"\x00\xff", "application/octet-stream"),
    ],
)
async def test_a_blob_says_what_it_is_and_no_browser_guesses(
    org: Organization, blobs: Blobs, data: bytes, kind: str
) -> None:
    response = await org.ada.get(blob_url(await blobs.put(org.name, data)))
    assert response.content == data
    assert response.headers["content-type"] == kind
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "private, max-age=31536000, immutable"


async def test_whoever_has_a_blob_is_not_sent_it_again(org: Organization, blobs: Blobs) -> None:
    url = blob_url(await blobs.put(org.name, b"once"))
    etag = (await org.ada.get(url)).headers["etag"]
    again = await org.ada.get(url, headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)


async def test_another_organization_and_nobody_get_nothing(
    served: Served, org: Organization, other: Organization, blobs: Blobs
) -> None:
    blob = await blobs.put(org.name, b"secret")
    for stranger in (other.admin, other.ada):
        response = await stranger.get(blob_url(blob), headers={"If-None-Match": f'"{blob}"'})
        assert problem(response)["code"] == "blob_not_found"
    async with httpx2.AsyncClient(base_url=served.url) as nobody:
        assert (await nobody.get(blob_url(blob))).status_code == 401
    assert (await org.bob.get(blob_url(blob))).status_code == 200


async def test_a_damaged_blob_is_a_problem_and_not_an_answer(
    served: Served, org: Organization, blobs: Blobs
) -> None:
    blob = await blobs.put(org.name, b"will be damaged")
    (file,) = (served.data / "blobs").rglob(f"{blob}.zst")
    file.write_bytes(b"damaged")
    refused = problem(await org.ada.get(blob_url(blob)))
    assert (refused["status"], refused["code"]) == (500, "blob_damaged")


@pytest.mark.parametrize("name", ["x", "A" * 64, "0" * 65, "%00", "..%2f..%2fholdfast.db"])
async def test_what_is_no_id_is_refused(org: Organization, name: str) -> None:
    assert problem(await org.ada.get(f"/api/blobs/{name}"))["status"] in (400, 403, 404)
