"""The change feed: whoever reads from any revision ends with the whole state."""

import pytest

from holdfast import (
    Compaction,
    HistoryOptions,
    Message,
    NewCompaction,
    NewTurn,
    SessionKey,
    SessionPatch,
    Store,
    ToolContent,
    Turn,
    TurnAnswer,
)
from holdfast.errors import InvalidInput
from holdfast.model.ids import TurnId
from holdfast.store.feed import RevisionAhead
from holdfast.store.streams import MessageStream
from tests.long_plugin import Trials

Row = Message | Turn | Compaction


class Mirror:
    """A client that upserts by id, as every client of the feed does."""

    def __init__(self) -> None:
        self.rev = 0
        self.rows: dict[str, object] = {}
        self.session: object = None

    async def catch_up(self, store: Store, key: SessionKey, limit: int) -> None:
        while True:
            changes = await store.changes(key, self.rev, limit=limit)
            assert changes.rev >= self.rev
            self.session = changes.session
            changed: list[Row] = [*changes.messages, *changes.turns, *changes.compactions]
            self.rows |= {str(row.id): row for row in changed}
            self.rev = changes.rev
            if not changes.more:
                return


async def whole_state(store: Store, key: SessionKey) -> dict[str, object]:
    rows: list[Row] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.get_history(key, HistoryOptions(after=cursor, limit=50))
        rows += page.messages
        cursor = page.newer
    rows += [*await store.list_turns(key, limit=1000), *await store.list_compactions(key)]
    return {str(row.id): row for row in rows}


async def test_nothing_new_is_an_empty_answer_at_the_same_revision(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    changes = await store.changes(key, session.rev)
    assert (changes.messages, changes.turns, changes.rev, changes.more) == ([], [], session.rev, False)
    assert changes.session == session


async def test_each_change_appears_once_after_the_revision_before_it(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    said = await store.append_messages(key, [Message.user("a"), Message.user("b")])
    turn = await store.add_turn(key, NewTurn(instruction_summary="q"))
    changes = await store.changes(key, session.rev)
    assert (list(changes.messages), list(changes.turns)) == (list(said), [turn])
    assert [message.text for message in (await store.changes(key, said[0].rev)).messages] == ["b"]
    assert (await store.changes(key, turn.rev)).turns == []


async def test_a_page_of_changes_says_where_to_go_on(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    await store.append_messages(key, [Message.user(str(number)) for number in range(10)])
    first = await store.changes(key, session.rev, limit=4)
    assert ([message.text for message in first.messages], first.more) == (["0", "1", "2", "3"], True)
    rest = await store.changes(key, first.rev, limit=100)
    assert ([message.text for message in rest.messages], rest.more) == (["4", "5", "6", "7", "8", "9"], False)


async def test_a_streaming_message_comes_as_it_stands_and_again_when_more_was_said(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("one ")
    await stream.drain()
    first = await store.changes(key, 0)
    assert [message.text for message in first.messages] == ["one "]
    assert (await store.changes(key, first.rev)).messages == []
    stream.write("two")
    await stream.drain()
    second = await store.changes(key, first.rev)
    assert [message.text for message in second.messages] == ["one two"]
    final = await stream.end()
    assert (await store.changes(key, second.rev)).messages == [final]
    assert (await store.changes(key, final.rev)).messages == []


@pytest.mark.parametrize("seed", range(6))
async def test_readers_at_any_pace_end_with_the_whole_state(
    store: Store, key: SessionKey, seed: int, trials: Trials
) -> None:
    chance = trials.chance(seed)
    await store.get_or_create(key)
    mirrors = [Mirror() for _ in range(3)]
    streams: list[MessageStream] = []
    tools: list[Message] = []
    pending: list[TurnId] = []
    for step in range(60):
        match chance.randrange(8):
            case 0 | 1:
                count = chance.randrange(1, 6)
                await store.append_messages(key, [Message.user(f"{step}.{n}") for n in range(count)])
            case 2:
                streams.append(await store.open_stream(key, Message.agent("", partial=True)))
            case 3 if streams:
                stream = chance.choice(streams)
                stream.write(f"chunk {step} ")
                await stream.drain()
            case 4 if streams:
                await streams.pop(chance.randrange(len(streams))).end()
            case 5:
                turn = await store.add_turn(key, NewTurn(instruction_summary=str(step)))
                pending.append(turn.id)
            case 6 if pending:
                answer = TurnAnswer(agent_answer_summary=str(step))
                await store.complete_turn(key, pending.pop(0), answer)
            case 7 if tools:
                tool = tools.pop()
                assert tool.id is not None
                await store.revise_message(key, tool.id, ToolContent(tool="t", args={}, status="completed"))
            case _:
                content = ToolContent(tool="t", args={"step": step}, status="pending")
                tools += await store.append_messages(key, [Message.of("system", content)])
                await store.patch(key, SessionPatch(title=str(step)))
                last = (await store.get_session(key)).message_count
                await store.commit_compaction(
                    key, NewCompaction(first_seq=1, last_seq=last, strategy="s", summary=str(step))
                )
        for mirror in mirrors:
            if chance.random() < 0.3:
                await mirror.catch_up(store, key, limit=chance.choice([1, 2, 5, 100]))
    expected = await whole_state(store, key)
    for mirror in mirrors:
        await mirror.catch_up(store, key, limit=3)
        assert mirror.rows == expected
        assert mirror.session == await store.get_session(key)


@pytest.mark.parametrize(("since", "limit"), [(-1, 10), (0, 0), (0, -1)])
async def test_impossible_questions_are_refused(
    store: Store, key: SessionKey, since: int, limit: int
) -> None:
    await store.get_or_create(key)
    with pytest.raises(InvalidInput):
        await store.changes(key, since, limit=limit)


async def test_who_has_seen_more_than_there_is_must_read_afresh(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    await store.append_messages(key, [Message.user(str(number)) for number in range(50)])
    seen = (await store.changes(key, 0)).rev
    await store.delete(key)
    await store.get_or_create(key)
    with pytest.raises(RevisionAhead, match="read afresh"):
        await store.changes(key, seen)
    with pytest.raises(RevisionAhead, match="read afresh"):
        await store.changed_sessions(10_000)
