"""What a model is shown: well formed, branching, and the same every time."""

import msgspec
import pytest

from holdfast import Message, NewCompaction, Store
from holdfast.compaction.compactor import Compactor
from holdfast.compaction.layout import chain_in_effect
from holdfast.compaction.strategies import strategy_of
from holdfast.compaction.validator import malformed
from holdfast.compaction.view import INTERRUPTED, STILL_RUNNING, Kind, View
from holdfast.compaction.views import expand, read_view
from holdfast.errors import NotFound
from holdfast.model.ids import CompactionId
from holdfast.store.ids import new_id
from holdfast.store.options import HistoryOptions
from tests.compaction.sessions import COUNTER, SMALL, calling, conversation, filled, result, view_of


def texts(view: View) -> list[str]:
    return [message.text for message in view.messages]


def by_hand(last_seq: int, summary: str, parent: CompactionId | None = None) -> NewCompaction:
    return NewCompaction(
        first_seq=2, last_seq=last_seq, strategy="by hand", summary=summary, parent_id=parent
    )


def test_a_call_that_nobody_answered_gets_a_result_that_says_so_once_the_conversation_went_on() -> None:
    view = view_of([Message.user("look"), calling("a", "b"), result("a"), Message.user("well?")])
    assert texts(view) == ["look", "", "found it", INTERRUPTED, "well?"]
    assert not list(malformed(view.messages))


def test_a_call_at_the_end_is_still_awaited_and_may_not_be_folded() -> None:
    view = view_of([Message.user("look"), calling("a"), calling("b"), result("b")])
    assert texts(view) == ["look", "", "", "found it"]
    assert [atom.fixed for atom in view.atoms if atom.items[0].message.tool_calls] == [True, False]


def test_a_call_marked_as_pending_stays_however_the_conversation_goes_on() -> None:
    view = view_of(
        [calling("a", metadata={"pending": True}), Message.user("meanwhile?"), Message.agent("no")]
    )
    assert STILL_RUNNING in texts(view)
    assert view.atoms[0].fixed


def test_a_late_result_stands_with_its_call_and_one_without_a_call_becomes_a_note() -> None:
    view = view_of([calling("a"), Message.user("well?"), result("a", "late"), result("zz", "whose?")])
    assert texts(view)[:3] == ["", "late", "well?"]
    assert view.items[3].kind is Kind.SHORTENED
    assert "zz" in texts(view)[3]
    assert "whose?" in texts(view)[3]
    assert not list(malformed(view.messages))


@pytest.mark.req("STO-18")
async def test_a_summary_stands_in_place_of_what_it_folded_and_the_originals_stay(store: Store) -> None:
    session = await filled(store, conversation(12))
    said = (await store.get_history(session, HistoryOptions(limit=100))).messages
    compactor = Compactor(store, strategy_of({"name": "summarize", "keep_recent_turns": 2}), counter=COUNTER)
    compaction = await compactor.compact(session, SMALL)
    assert compaction is not None
    view = await read_view(store, session, COUNTER)
    assert [item.kind for item in view.items[:3]] == [Kind.STORED, Kind.SUMMARY, Kind.STORED]
    assert "part_3" in compaction.summary
    assert view.messages[0] == said[0]
    assert view.messages[2:] == said[-8:]
    assert await expand(store, session, compaction.id) == said[1:-8]
    assert (await store.get_history(session, HistoryOptions(limit=100))).messages == said
    assert compaction.tokens_after == view.tokens


async def test_undoing_gives_the_view_before_and_takes_what_was_made_on_top_along(store: Store) -> None:
    session = await filled(store, conversation(12))
    whole = await read_view(store, session, COUNTER)
    compactor = Compactor(store, strategy_of({"name": "summarize", "keep_recent_turns": 2}), counter=COUNTER)
    first = await compactor.compact(session, SMALL)
    once = await read_view(store, session, COUNTER)
    await store.append_messages(session, conversation(8)[1:])
    second = await compactor.compact(session, SMALL)
    assert first is not None
    assert second is not None
    assert second.parent_id == first.id
    await store.undo_compaction(session, second.id)
    again = await read_view(store, session, COUNTER)
    assert again.messages[: len(once.messages)] == once.messages
    await store.undo_compaction(session, first.id)
    assert (await read_view(store, session, COUNTER)).messages[: len(whole.messages)] == whole.messages
    assert (await store.get_session(session)).compaction_count == 2


async def test_views_branch_and_any_of_them_can_be_read(store: Store) -> None:
    session = await filled(store, conversation(6))
    one = await store.commit_compaction(session, by_hand(9, "one"))
    two = await store.commit_compaction(session, by_hand(13, "two", one.id))
    await store.undo_compaction(session, two.id)
    other = await store.commit_compaction(session, by_hand(17, "other", one.id))
    assert [each.id for each in chain_in_effect(await store.list_compactions(session))] == [one.id, other.id]
    branches = {
        summary: await read_view(store, session, COUNTER, at=each.id)
        for summary, each in {"one": one, "two": two, "other": other}.items()
    }
    for summary, branch in branches.items():
        (shown,) = [item.message.content for item in branch.items if item.kind is Kind.SUMMARY]
        assert getattr(shown, "summary", None) == summary
    assert [len(branch.items) for branch in branches.values()] == [18, 14, 10]
    with pytest.raises(NotFound, match="no compaction"):
        await read_view(store, session, COUNTER, at=CompactionId(new_id()))


async def test_a_view_is_rendered_to_the_same_bytes_and_grows_only_at_its_end(store: Store) -> None:
    session = await filled(store, conversation(12))
    await Compactor(store, strategy_of("pipeline"), counter=COUNTER).compact(session, SMALL)
    first, again = [await read_view(store, session, COUNTER) for _ in range(2)]
    assert msgspec.json.encode(first.messages) == msgspec.json.encode(again.messages)
    await store.append_messages(session, [Message.agent("more"), Message.agent("and more")])
    grown = await read_view(store, session, COUNTER)
    assert grown.messages[: len(first.messages)] == first.messages


@pytest.mark.req("STO-17")
async def test_compactions_are_counted_dated_and_name_what_they_folded(store: Store) -> None:
    session = await filled(store, conversation(12))
    compactor = Compactor(store, strategy_of("summarize"), counter=COUNTER)
    await compactor.compact(session, SMALL)
    await store.append_messages(session, conversation(12)[1:])
    await compactor.compact(session, SMALL)
    first, second = await store.list_compactions(session)
    assert (await store.get_session(session)).compaction_count == 2
    assert first.created_at <= second.created_at
    assert (first.first_seq, second.first_seq) == (2, 2)
    assert first.last_seq < second.last_seq
    assert (first.strategy, first.tokenizer, first.params["version"]) == ("summarize", "estimate", 1)
