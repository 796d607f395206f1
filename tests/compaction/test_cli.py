"""A long session compacted, expanded and undone from the command line."""

import json
from pathlib import Path

import pytest

from holdfast import Message, open_store
from holdfast.store.options import HistoryOptions
from tests.cli.command import Cli
from tests.compaction.sessions import conversation, filled


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "data").mkdir()
    return Cli(tmp_path)


def url(cli: Cli) -> str:
    return f"sqlite:///{cli.home / 'data' / 'holdfast.db'}"


async def said(cli: Cli, session: str) -> list[Message]:
    async with open_store(url(cli)) as store:
        return (await store.get_history(session, HistoryOptions(limit=1000))).messages


@pytest.mark.req("STO-17", "STO-18")
async def test_a_long_session_is_compacted_expanded_and_undone_with_the_exact_originals_back(
    cli: Cli,
) -> None:
    async with open_store(url(cli)) as store:
        session = await filled(store, conversation(30))
    before = await said(cli, session)
    arguments = ("compact", session[-8:], "--strategy", "summarize", "--param", "keep_recent_turns=2")
    planned = json.loads(cli("sessions", *arguments, "--plan", "--json").stdout)
    assert planned["tokensAfter"] < planned["tokensBefore"]
    done = cli("sessions", *arguments)
    assert "Compaction" in done.stdout, done.stderr
    assert "src/part_3.py" in done.stdout
    assert await said(cli, session) == before
    expanded = json.loads(cli("sessions", "expand", session, "--json").stdout)
    folded = [message.seq for message in before if 2 <= message.seq <= 113]
    assert [message["seq"] for message in expanded] == folded
    assert [message["id"] for message in expanded] == [before[seq - 1].id for seq in folded]
    undone = cli("sessions", "undo", session)
    assert "121 messages again" in undone.stdout, undone.stderr
    assert "No compaction" in cli("sessions", "undo", session).stderr


async def test_a_strategy_that_is_not_there_is_named(cli: Cli) -> None:
    async with open_store(url(cli)) as store:
        session = await filled(store, conversation(2))
    refused = cli("sessions", "compact", session, "--strategy", "magic")
    assert (refused.returncode, "no strategy 'magic'" in refused.stderr) == (1, True)
