"""Files are replaced whole, reach the disk, and belong to their owner alone."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.files import make_directory
from holdfast.questions.errors import AtomicReadError, AtomicWriteError
from holdfast.questions.files import read_json, write, write_json
from tests.questions.processes import together, worker
from tests.questions.sets import names

texts = st.text(st.characters(exclude_categories=()))  # halves of surrogate pairs included
documents = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
        max_leaves=8,
    ),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "file.json"


@settings(max_examples=40)
@given(content=documents)
def test_what_is_written_is_read(file: Path, content: dict[str, Any]) -> None:
    write_json(file, content)
    assert read_json(file) == content
    assert names(file.parent) == [file.name]


def test_the_bytes_are_those_of_the_auq_programs(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"a": "→ é", "b": [1, {"c": None}], "d": [], "e": {}})
    assert (tmp_path / "file.json").read_text(encoding="utf-8") == (
        '{\n  "a": "→ é",\n  "b": [\n    1,\n    {\n      "c": null\n    }\n  ],\n  "d": [],\n  "e": {}\n}'
    )


@pytest.mark.usefixtures("process")
@pytest.mark.req("ASK-12")
async def test_a_reader_sees_the_old_content_or_the_new_and_never_a_part(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    write_json(file, {"turn": 0, "filling": [0]})
    async with worker("write", path=str(file), size=5_000) as writer:
        writer.go()
        assert await together("read_all", [{"path": str(file), "times": 200}]) == [{"read": 200}]
        await writer.kill()
    left = read_json(file, tries=1)
    assert left is not None
    assert set(left["filling"]) == {left["turn"]}


@pytest.mark.req("ASK-12")
def test_content_that_reads_back_otherwise_never_reaches_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file.json"
    write(file, b"old")
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.pwrite(descriptor, b"?", 0))  # a disk that lies
    with pytest.raises(AtomicWriteError) as failure:
        write(file, b"new")
    assert str(failure.value.cause) == "Data verification failed after write"
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == [file.name]


@pytest.mark.req("ASK-12", "ASK-02")
def test_the_mode_is_the_owners_alone_whatever_the_umask_and_the_old_mode(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_directory(tmp_path / "a" / "b")
        file = tmp_path / "a" / "b" / "file.json"
        file.write_text("{}")
        file.chmod(0o666)
        write_json(file, {})
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (file, *file.parents[:2])] == [0o600, 0o700, 0o700]


@pytest.mark.req("ASK-14")
def test_a_write_that_finds_no_room_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    write(file, b"old")
    with _largest_file(1000), pytest.raises(AtomicWriteError) as failure:
        write(file, b"x" * 5000)
    assert str(failure.value) == f"Atomic write failed: {file}"
    assert (failure.value.path, failure.value.operation) == (file, "write")
    assert isinstance(failure.value.cause, OSError)
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == [file.name]


@pytest.mark.req("ASK-14")
def test_a_rename_that_fails_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "file.json").mkdir()
    with pytest.raises(AtomicWriteError) as failure:
        write_json(tmp_path / "file.json", {})
    assert isinstance(failure.value.cause, IsADirectoryError)
    assert names(tmp_path) == ["file.json"]


def test_what_is_no_json_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(AtomicWriteError):
        write_json(tmp_path / "file.json", {"number": float("inf")})
    assert names(tmp_path) == []


@pytest.mark.req("ASK-15")
def test_a_read_is_tried_three_times_with_growing_pauses(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text('{"half":')
    pauses: list[float] = []
    with pytest.raises(AtomicReadError) as failure:
        read_json(file, pause=pauses.append)
    assert str(failure.value) == f"Atomic read failed: {file}"
    assert (failure.value.path, failure.value.operation) == (file, "read")
    assert isinstance(failure.value.cause, ValueError)
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1]


@pytest.mark.req("ASK-15")
@pytest.mark.parametrize("mended_after", [1, 2])
def test_a_read_succeeds_as_soon_as_the_file_is_whole(tmp_path: Path, mended_after: int) -> None:
    file = tmp_path / "file.json"
    file.mkdir()  # reading a directory fails in the operating system
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == mended_after:
            file.rmdir()
            file.write_text('{"whole": true}')

    assert read_json(file, pause=pause) == {"whole": True}
    assert len(pauses) == mended_after


def test_a_file_that_is_not_there_is_no_error_and_not_tried_again(tmp_path: Path) -> None:
    assert read_json(tmp_path / "file.json", pause=lambda _: pytest.fail("it paused")) is None


@pytest.mark.parametrize("content", ["", "null", "[]", "{", '{"a": NaN}', "\ufeff", "[" * 100_000, "\x00"])
def test_what_is_no_json_object_is_unreadable(tmp_path: Path, content: str) -> None:
    (tmp_path / "file.json").write_text(content, encoding="utf-8")
    with pytest.raises(AtomicReadError):
        read_json(tmp_path / "file.json", tries=1)


def test_invalid_bytes_are_unreadable(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_bytes(json.dumps({"a": "é"}, ensure_ascii=False).encode("latin-1"))
    with pytest.raises(AtomicReadError):
        read_json(tmp_path / "file.json", tries=1)


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """Let writes fail beyond `size` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
