"""A long session compacted, expanded and undone from the command line."""

import json
from pathlib import Path

import pytest

from holdfast import Message, NewSession, SessionPatch, open_store
from holdfast.compaction.standing import SessionStanding
from holdfast.store.options import HistoryOptions
from tests.cli.command import Cli
from tests.compaction.sessions import conversation, filled
from tests.settings import configure

pytestmark = pytest.mark.usefixtures("process")


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
    shown = json.loads(cli("sessions", "view", session, "--json").stdout)
    assert [message["seq"] for message in shown] == [1, 2, *range(114, 122)]
    assert "messages 2 to 113 are folded" in cli("sessions", "view", session).stdout
    assert "in effect" in cli("sessions", "compactions", session).stdout
    undone = cli("sessions", "undo", session)
    assert "121 messages again" in undone.stdout, undone.stderr
    assert "No compaction" in cli("sessions", "undo", session).stderr
    (listed,) = json.loads(cli("sessions", "compactions", session, "--json").stdout)["compactions"]
    branch = json.loads(cli("sessions", "view", session, "--at", listed["id"][-8:], "--json").stdout)
    assert [message["seq"] for message in branch] == [message["seq"] for message in shown]
    assert (listed["firstSeq"], listed["lastSeq"], listed["undoneAt"] is None) == (2, 113, False)


async def test_a_session_that_was_never_compacted_says_what_to_do(cli: Cli) -> None:
    async with open_store(url(cli)) as store:
        session = await filled(store, conversation(2))
    assert cli("sessions", "compactions", session).stdout.startswith("Nothing is folded.")


async def test_after_repeated_failure_one_by_hand_starts_afresh(cli: Cli) -> None:
    async with open_store(url(cli)) as store:
        session = await filled(store, conversation(30))
        stopped = SessionStanding(token_ratio=1.2, failures=3, stopped="the model is down")
        await store.patch(session, SessionPatch(custom=stopped.custom()))
        said = "the model is down To try it again: holdfast sessions compact"
        assert said in cli("sessions", "compactions", session).stderr
        assert "Compaction" in cli("sessions", "compact", session).stdout
        assert cli("sessions", "compactions", session).stderr == ""
        assert SessionStanding.of(await store.get_session(session)) == SessionStanding(token_ratio=1.2)


async def test_the_context_of_a_session_says_how_it_is_compacted(cli: Cli) -> None:
    configure(
        cli.home,
        '[contexts.reviewer.compaction]\nstrategy = "hard_clear"\n'
        '[agents.reviewer.compaction]\nstrategy = "none"\n',
    )
    async with open_store(url(cli)) as store:
        for agent, context in (("reviewer", "reviewer"), ("helper", "reviewer"), ("reviewer", "0198-stored")):
            opened = await store.create_session(NewSession(agent=agent, agent_context_id=context))
            await store.append_messages(opened.id, conversation(30))
            compacted = cli("sessions", "compact", opened.id, "--json")
            assert json.loads(compacted.stdout)["strategy"] == "hard_clear"


async def test_a_strategy_that_is_not_there_is_named(cli: Cli) -> None:
    async with open_store(url(cli)) as store:
        session = await filled(store, conversation(2))
    refused = cli("sessions", "compact", session, "--strategy", "magic")
    assert (refused.returncode, "no strategy 'magic'" in refused.stderr) == (1, True)
