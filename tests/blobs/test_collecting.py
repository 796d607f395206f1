"""Collecting blobs: what nothing refers to goes in the end, and what a row refers to never does."""

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import NewSession, NewTurn, Store, TurnAnswer
from holdfast.blobs import BlobNotFound, Blobs, Collection, blob_url, collect_orphans
from holdfast.blobs.address import BlobId
from holdfast.errors import InvalidInput
from holdfast.files import TEMPORARY
from holdfast.model.principal import LOCAL

ORGANIZATION = LOCAL.organization
NOTHING = Collection(0, 0, 0)


async def collect(blobs: Blobs, store: Store, days: int) -> Collection:
    """As it is called that many days from now."""
    return await collect_orphans(blobs, store, now=datetime.now(UTC) + timedelta(days=days))


async def refer(store: Store, blob: BlobId) -> None:
    session = await store.create_session(NewSession())
    new = NewTurn(instruction_summary="x", full_instruction_url=blob_url(blob))
    await store.add_turn(session.id, new)


async def is_there(blobs: Blobs, blob: BlobId) -> bool:
    try:
        return await blobs.get(ORGANIZATION, blob) is not None
    except BlobNotFound:
        return False


async def test_an_orphan_is_set_aside_when_it_is_old_and_deleted_when_it_stays_one(
    blobs: Blobs, store: Store
) -> None:
    blob = await blobs.put(ORGANIZATION, b"nobody's")
    assert await collect(blobs, store, 0) == NOTHING
    assert await collect(blobs, store, 2) == Collection(set_aside=1, put_back=0, deleted=0)
    assert await is_there(blobs, blob)
    assert await collect(blobs, store, 4) == Collection(set_aside=0, put_back=0, deleted=1)
    assert not await is_there(blobs, blob)
    assert await collect(blobs, store, 6) == NOTHING


@pytest.mark.req("EXE-07")
async def test_what_any_column_of_a_turn_refers_to_stays(blobs: Blobs, store: Store) -> None:
    instruction, answer, request, response = [
        await blobs.put(ORGANIZATION, text) for text in (b"instruction", b"answer", b"request", b"response")
    ]
    await store.create_session(NewSession())  # one without turns is no end of the listing
    session = await store.create_session(NewSession())
    turn = await store.add_turn(
        session.id,
        NewTurn(
            instruction_summary="x",
            full_instruction_url=blob_url(instruction),
            openai_request_payload_url=blob_url(request),
        ),
    )
    ended = TurnAnswer(
        agent_answer_summary="x",
        full_agent_answer_url=blob_url(answer),
        openai_response_payload_url=blob_url(response),
    )
    await store.complete_turn(session.id, turn.id, ended)
    for days in (2, 4, 6):
        assert await collect(blobs, store, days) == NOTHING
    for blob in (instruction, answer, request, response):
        assert await is_there(blobs, blob)


async def test_blobs_of_deleted_sessions_go_and_those_of_other_organizations_do_not_protect_them(
    blobs: Blobs, store: Store
) -> None:
    blob = await blobs.put(ORGANIZATION, b"in two organizations")
    await blobs.put("gone", b"in two organizations")
    await refer(store, blob)
    assert await collect(blobs, store, 2) == Collection(set_aside=1, put_back=0, deleted=0)
    for session in (await store.list()).sessions:
        await store.delete(session.id)
    assert await collect(blobs, store, 4) == Collection(set_aside=1, put_back=0, deleted=1)
    assert await is_there(blobs, blob)
    assert await collect(blobs, store, 6) == Collection(set_aside=0, put_back=0, deleted=1)
    assert not await is_there(blobs, blob)


async def test_one_that_is_referred_to_again_is_put_back(blobs: Blobs, store: Store) -> None:
    blob = await blobs.put(ORGANIZATION, b"came back")
    await collect(blobs, store, 2)
    await refer(store, blob)
    assert await collect(blobs, store, 4) == Collection(set_aside=0, put_back=1, deleted=0)
    assert await collect(blobs, store, 6) == NOTHING
    assert await is_there(blobs, blob)


class Interrupted:
    """A place where something happens just before or after one of its steps, once."""

    def __init__(self, place: Any, step: str, when: str, happening: Callable[[], Awaitable[None]]) -> None:
        self._place = place
        self._step = step
        self._when = when
        self._happening: Callable[[], Awaitable[None]] | None = happening

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._place, name)

        async def interrupted(*args: Any) -> Any:
            if name == self._step and self._when == "before":
                await self.happen()
            result = await method(*args)
            if name == self._step and self._when == "after":
                await self.happen()
            return result

        return interrupted

    async def happen(self) -> None:
        """Unless it has happened already."""
        happening, self._happening = self._happening, None
        if happening is not None:
            await happening()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["folders", "entries", "read", "write", "delete"])
@pytest.mark.parametrize("days", [2, 4])
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_row_that_is_committed_while_blobs_are_collected_never_loses_its_blob(
    blobs: Blobs, store: Store, step: str, when: str, days: int
) -> None:
    data = b"put again at the worst moment"
    blob = await blobs.put(ORGANIZATION, data)

    async def put_and_commit() -> None:
        await refer(store, await blobs.put(ORGANIZATION, data))

    for earlier in range(2, days, 2):
        await collect(blobs, store, earlier)
    interrupted = Interrupted(blobs.place, step, when, put_and_commit)
    await collect(Blobs(interrupted), store, days)
    await interrupted.happen()
    for later in range(days, days + 8, 2):
        assert await blobs.get(ORGANIZATION, blob) == data
        await collect(blobs, store, later)
    assert await blobs.get(ORGANIZATION, blob) == data


async def test_putting_the_bytes_again_makes_an_orphan_young(
    local: Blobs, store: Store, directory: Path
) -> None:
    await local.put(ORGANIZATION, b"old")
    (file,) = directory.rglob("*.zst")
    os.utime(file, (1, 1))
    await local.put(ORGANIZATION, b"old")
    assert await collect(local, store, 0) == NOTHING


async def test_what_a_killed_writer_left_is_removed_when_it_is_old(
    local: Blobs, store: Store, directory: Path
) -> None:
    await local.put(ORGANIZATION, b"x")
    (file,) = directory.rglob("*.zst")
    left = file.with_name(f".{file.name}.0{TEMPORARY}")
    left.write_bytes(b"half")
    await collect(local, store, 0)
    assert left.exists()
    await collect(local, store, 2)
    assert not left.exists()


async def test_what_may_still_get_its_row_is_not_collected(local: Blobs, store: Store) -> None:
    with pytest.raises(InvalidInput, match="older than"):
        await collect_orphans(local, store, older_than=timedelta(minutes=5))
