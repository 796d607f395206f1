"""Recorded process groups, and who takes over those of a dead server."""

import asyncio
import subprocess
import sys

import pytest

from holdfast import SessionKey, SessionPatch, SessionStatus, Store, open_store


@pytest.mark.usefixtures("process")
async def test_processes_of_a_killed_server_are_claimed_once(store_url: str, key: SessionKey) -> None:
    async with open_store(store_url) as store:
        session = await store.get_or_create(key)
    code = f"""
import asyncio, os, signal
from holdfast import open_store
async def main():
    async with open_store({store_url!r}) as store:
        for group in (11, 12, 13):
            await store.record_process({session.id!r}, group, 5.5)
        await store.forget_process(12)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    async with open_store(store_url) as one, open_store(store_url) as other:
        claims = await asyncio.gather(one.claim_abandoned_processes(), other.claim_abandoned_processes())
        assert sorted(record.process_group for claim in claims for record in claim) == [11, 13]
        assert {(record.session_id, record.started) for claim in claims for record in claim} == {
            (session.id, 5.5)
        }
        assert await one.claim_abandoned_processes() == []


async def test_processes_of_a_running_server_are_left_to_it(
    store: Store, store_url: str, key: SessionKey
) -> None:
    await store.get_or_create(key)
    await store.record_process(key, 11, 1.0)
    async with open_store(store_url) as other:
        assert await other.claim_abandoned_processes() == []


async def test_a_session_seen_as_ended_has_no_process(store: Store, store_url: str, key: SessionKey) -> None:
    """Another server may start an agent in a session the moment it sees its end."""
    await store.get_or_create(key)
    ended = SessionPatch(status=SessionStatus.CANCELLED, status_reason="shutdown")
    async with open_store(store_url) as other:
        for round_ in range(20):
            await store.patch(key, SessionPatch(status=SessionStatus.ACTIVE))
            await store.record_process(key, round_, 1.0)
            await store.record_process(key, 100 + round_, 1.0)
            releasing = asyncio.create_task(store.release(key, ended))
            while (await other.get_session(key)).status is SessionStatus.ACTIVE:
                pass
            assert await other.processes(key) == []
            await releasing


async def test_what_the_agent_offers_is_merged_into_the_session(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    await store.patch(
        key, SessionPatch(agent_session_id="acp-1", agent_state={"mode": "plan", "commands": [1]})
    )
    session = await store.patch(key, SessionPatch(agent_state={"mode": "code"}, custom={"mine": True}))
    assert session.agent_session_id == "acp-1"
    assert session.agent_state == {"mode": "code", "commands": [1]}
    assert session.custom == {"mine": True}
