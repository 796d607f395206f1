"""`kill -9` at random moments under load: what was acknowledged is there, and nothing is there by halves."""

from collections import defaultdict

import msgspec
import pytest

from holdfast import Message, Session, Store, TextContent, TokenUsage, Turn, TurnStatus, open_store
from tests.long_plugin import Trials
from tests.store.faults.contents import history, rows, turns
from tests.store.faults.processes import Report, Worker, worker
from tests.store.faults.worker import answer_of, shared_key

SESSIONS = 3
TASKS = 8


class Acknowledged(msgspec.Struct):
    """What workers were told about one session before they were killed, by id."""

    messages: dict[str, tuple[int, str]] = {}
    turns: dict[str, tuple[int, str]] = {}
    streams: dict[str, tuple[int, str, str]] = {}

    def note(self, report: Report) -> None:
        match report:
            case {"appended": appended}:
                self.messages.update({message_id: (seq, text) for message_id, seq, text in appended})
            case {"turn": turn_id, "sequence": sequence, "status": status}:
                self.turns[turn_id] = (sequence, status)
            case {"stream": message_id, "seq": seq, "text": text, "state": state}:
                self.streams[message_id] = (seq, text, state)


class Stored(msgspec.Struct):
    """What the store has of one session."""

    session: Session
    messages: list[Message]
    turns: list[Turn]


@pytest.mark.req("STO-04")
async def test_everything_acknowledged_survives_many_kills_and_nothing_is_there_by_halves(
    store_url: str, process: None, trials: Trials
) -> None:
    chance = trials.chance()
    known = [Acknowledged() for _ in range(SESSIONS)]
    for kill in range(trials(8, long=40)):
        # None heard but that it opens the store: killed while it does so, and at first creates it.
        patience = 1 if kill == 0 else chance.choice([1, *range(1, 120, 10)])
        for report in await _heard_before_its_death(store_url, patience, trials.seed + kill):
            if "session" in report:
                known[report["session"]].note(report)
        async with open_store(store_url) as store:
            for number, acknowledged in enumerate(known):
                stored = await _stored(store, number)
                _assert_nothing_is_lost(acknowledged, stored)
                _assert_no_turn_is_half(stored)
                _assert_no_message_is_half(stored)
            assert await store.problems() == []
        assert await rows(store_url, "SELECT message_pk FROM chunks") == []
        assert await rows(store_url, "SELECT message_pk FROM open_messages") == []
    assert all(each.messages and each.turns and each.streams for each in known)  # there was much to lose


@pytest.mark.usefixtures("process")
async def test_opening_closes_the_streams_of_the_dead_and_leaves_those_of_the_living_alone(
    store_url: str,
) -> None:
    async with open_store(store_url) as living:
        await living.get_or_create(shared_key(0))
        stream = await living.open_stream(shared_key(0), Message.agent("", partial=True))
        stream.write("still ")
        await stream.drain()
        async with worker("live", store_url, tasks=TASKS, sessions=1, seed=1) as victim:
            while "stream" not in await _next(victim):
                pass
            await victim.kill()
        async with open_store(store_url) as other:
            open_ids = [message.id for message in await history(other, shared_key(0)) if message.open]
            assert open_ids == [stream.message.id]
        stream.write("speaking")
        assert (await stream.end()).text == "still speaking"
        assert await living.problems() == []


async def _heard_before_its_death(url: str, patience: int, seed: int) -> list[Report]:
    async with worker("live", url, tasks=TASKS, sessions=SESSIONS, seed=seed) as victim:
        heard = [await _next(victim) for _ in range(patience)]
        return heard + await victim.kill()


async def _next(victim: Worker) -> Report:
    report = await victim.report()
    assert report is not None, "the worker ended by itself"
    return report


async def _stored(store: Store, number: int) -> Stored:
    session = await store.get_or_create(shared_key(number))
    return Stored(session, await history(store, session.id), await turns(store, session.id))


def _assert_nothing_is_lost(known: Acknowledged, stored: Stored) -> None:
    messages = {str(message.id): message for message in stored.messages}
    for name, (seq, text) in known.messages.items():
        assert (messages[name].seq, messages[name].text) == (seq, text)
    for name, (seq, text, state) in known.streams.items():
        message = messages[name]
        assert message.seq == seq
        assert message.text == text if state == "ended" else message.text.startswith(text)
        assert isinstance(message.content, TextContent)
        assert message.content.partial is False
        interrupted = message.metadata == {"interrupted": True}
        assert interrupted == (state == "open") or state == "ending"
    kept = {str(turn.id): turn for turn in stored.turns}
    for name, (sequence, status) in known.turns.items():
        assert kept[name].sequence_number == sequence
        assert status in (kept[name].status, TurnStatus.PENDING)


def _assert_no_turn_is_half(stored: Stored) -> None:
    for turn in stored.turns:
        completed, failed = turn.status is TurnStatus.COMPLETED, turn.status is TurnStatus.FAILED
        assert turn.agent_answer_summary == (answer_of(turn.instruction_summary) if completed else None)
        assert turn.usage == (TokenUsage(3, 5) if completed else TokenUsage())
        assert turn.errors == ((turn.instruction_summary,) if failed else ())
    assert [turn.sequence_number for turn in stored.turns] == [*range(1, stored.session.turn_count + 1)]
    assert stored.session.token_usage.input == sum(turn.usage.input for turn in stored.turns)


def _assert_no_message_is_half(stored: Stored) -> None:
    assert [message.seq for message in stored.messages] == [*range(1, stored.session.message_count + 1)]
    calls: dict[str, list[str]] = defaultdict(list)
    for message in stored.messages:
        assert not message.open
        if message.role == "user":
            call, part = message.text.split()
            calls[call].append(part)
    for parts in calls.values():
        count = int(parts[0].split("/")[1])
        assert parts == [f"{part}/{count}" for part in range(1, count + 1)]
