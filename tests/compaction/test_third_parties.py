"""A strategy is anybody's code: what it does wrong changes no session and ends no process."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from holdfast import Message, NewCompaction, Store
from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import Compactor
from holdfast.compaction.errors import PlanRefused, StrategyFailed, UnreadableCompaction
from holdfast.compaction.plan import Fold, Plan, Replacement
from holdfast.compaction.strategies import SlidingWindow
from holdfast.compaction.view import View
from holdfast.compaction.views import read_view
from tests.compaction.sessions import COUNTER, calling, conversation, filled, result

AMPLE = Budget(window=100_000, target=1_000)

Planning = Callable[[View], Any]


class Brought:
    """A strategy that somebody else wrote."""

    name = "brought"
    version = 1

    def __init__(self, planning: Planning) -> None:
        self._planning = planning

    def plan(self, view: View, budget: Budget, counter: Any) -> Plan | None:
        planned: Plan | None = self._planning(view)
        return planned


def in_place_of_results(content: dict[str, Any], tokens: Any = 1) -> Planning:
    return lambda view: Plan(
        replaced=tuple(
            Replacement(seq=each.item.message.seq, content=content, tokens=tokens) for each in view.results
        )
    )


def folding(**fields: Any) -> Planning:
    wanted: dict[str, Any] = {"ranges": ((2, 9),), "tokens": 50} | fields
    return lambda view: Plan(folds=(Fold(**wanted),))


def rewriting(role: str) -> Planning:
    words = {"type": "text", "text": "ok"}
    return lambda view: Plan(
        replaced=tuple(
            Replacement(seq=item.message.seq, content=words)
            for item in view.items
            if item.message.role == role and not item.fixed and not item.message.tool_calls
        )
    )


def exiting(view: View) -> Any:
    raise SystemExit(3)


def pretending_nothing_is_fixed(view: View) -> Plan:
    view.items[:] = [msgspec.structs.replace(item, fixed=False) for item in view.items]
    return Plan(dropped=((1, 17),))


def popping_items(view: View) -> Plan:
    while len(view.items) > 2:
        view.items.pop(0)
    return Plan(dropped=((1, 17),))


def popping_atoms(view: View) -> Plan:
    while len(view.atoms) > 2:
        view.atoms.pop(0)
    return Plan(dropped=((1, 17),))


def unpinning(view: View) -> Plan:
    for message in view.messages:
        message.metadata.clear()
    return Plan(dropped=((2, 17),))


REFUSED = {
    "longer than it says": (
        in_place_of_results({"type": "text", "text": "lorem " * 2_000}),
        "I7: messages 4, 8, 12, 16, 20, 24 would become longer",
    ),
    "no content": (in_place_of_results({"type": "tool", "nonsense": 1}), "I5: what would be shown"),
    "no text": (in_place_of_results({"type": "text", "text": 7}), "I5: what would be shown"),
    "still open": (in_place_of_results({"type": "text", "text": "", "partial": True}), "I5: what would be"),
    "a person's words": (rewriting("user"), "I5: messages 2, 6, 10, 14, 18 are no results of tools"),
    "the agent's words": (rewriting("agent"), "I5: messages 9, 13, 17, 21 are no results of tools"),
    "unfixed": (pretending_nothing_is_fixed, "I3: messages 1 must stay"),
    "items popped": (popping_items, "I3: messages 1 must stay"),
    "atoms popped": (popping_atoms, "I3: messages 1 must stay"),
    "unpinned": (unpinning, "I3: messages 5 must stay"),
    "backwards": (lambda view: Plan(dropped=((9, 4),)), "I5: its ranges are not in order"),
    "a fold of nothing": (folding(ranges=()), "I7: it does nothing"),
}

FAILED = {
    "a list": (lambda view: [1, 2], "plan\\(\\) gave a list"),
    "negative tokens": (in_place_of_results({"type": "text", "text": ""}, -1_000), "cannot be recorded"),
    "tokens of a float": (in_place_of_results({"type": "text", "text": ""}, 2.5), "cannot be recorded"),
    "a range of floats": (folding(ranges=((2, 6.5),)), "cannot be recorded"),
    "places as texts": (folding(ranges=(("2", "9"),)), "cannot be recorded"),
    "half a level": (folding(level=0.5), "cannot be recorded"),
    "listed instructions": (folding(instructions=["keep ids"]), "cannot be recorded"),
    "no JSON": (in_place_of_results({"type": "text", "text": object()}), "it failed with TypeError"),
    "half a character": (in_place_of_results({"type": "text", "text": "\ud800"}), "UnicodeEncodeError"),
    "an exit": (exiting, "it failed with SystemExit"),
}


async def session_with_a_pin(store: Store) -> Any:
    said = conversation(5)
    said[4] = Message.agent("Never deploy on a Friday.", metadata={"pinned": True})
    return await filled(store, [*said, Message.user("and now?"), calling("z"), result("z")])


@pytest.mark.parametrize("fault", REFUSED)
async def test_what_a_strategy_says_of_a_view_is_not_believed(store: Store, fault: str) -> None:
    planning, said = REFUSED[fault]
    session = await session_with_a_pin(store)
    before = await read_view(store, session, COUNTER)
    with pytest.raises(PlanRefused, match=said):
        await Compactor(store, Brought(planning), counter=COUNTER).compact(session, AMPLE)
    assert (await read_view(store, session, COUNTER)).messages == before.messages


@pytest.mark.parametrize("fault", FAILED)
async def test_a_plan_that_could_not_be_read_again_is_a_failure_of_its_strategy(
    store: Store, fault: str
) -> None:
    planning, said = FAILED[fault]
    session = await session_with_a_pin(store)
    with pytest.raises(StrategyFailed, match=said):
        await Compactor(store, Brought(planning), counter=COUNTER).compact(session, AMPLE)
    assert [*await store.list_compactions(session)] == []


async def test_the_tokens_of_a_shortened_result_are_counted_and_not_taken_over(store: Store) -> None:
    session = await filled(store, conversation(5))
    planning = in_place_of_results({"type": "text", "text": "a dozen words or so, and no more than that"})
    done = await Compactor(store, Brought(planning), counter=COUNTER).compact(session, AMPLE)
    view = await read_view(store, session, COUNTER)
    counted = sum(
        COUNTER.count(item.message.text) + 4 for item in view.items if item.message.tool_call_id is not None
    )
    shown = sum(item.tokens for item in view.items if item.message.tool_call_id is not None)
    assert done is not None
    assert (shown, done.tokens_after) == (counted, view.tokens)


async def test_a_record_that_nobody_can_read_is_named_and_can_be_undone(store: Store) -> None:
    session = await filled(store, conversation(5))
    wrong = NewCompaction(
        first_seq=2, last_seq=9, strategy="brought", summary="", edits={"folds": [{"ranges": "all"}]}
    )
    done = await store.commit_compaction(session, wrong)
    with pytest.raises(UnreadableCompaction, match=f"The compaction {done.id} .* Undo it"):
        await read_view(store, session, COUNTER)
    await store.undo_compaction(session, done.id)
    assert len((await read_view(store, session, COUNTER)).messages) == 21


@dataclass
class Dataclassed:
    keep: int
    name = "kept"
    version = 1

    def plan(self, view: View, budget: Budget, counter: Any) -> Plan | None:
        return SlidingWindow(max_messages=self.keep).plan(view, budget, counter)


class Plain(Dataclassed):
    def __init__(self, keep: int) -> None:
        self.keep = keep


class Opaque(Plain):
    def __init__(self, keep: int) -> None:
        super().__init__(keep)
        self.lock = object()


@pytest.mark.parametrize("kind", [Dataclassed, Plain, Opaque])
async def test_a_strategy_set_up_in_another_way_is_another_one(
    store: Store, kind: Callable[[int], Dataclassed]
) -> None:
    session = await filled(store, conversation(12))
    first = await Compactor(store, kind(24), counter=COUNTER).compact(session, AMPLE)
    second = await Compactor(store, kind(8), counter=COUNTER).compact(session, AMPLE)
    assert first is not None
    assert second is not None
    assert (first.params.get("keep"), second.params.get("keep")) in ((24, 8), (None, None))
    assert await Compactor(store, kind(8), counter=COUNTER).compact(session, AMPLE) is None
