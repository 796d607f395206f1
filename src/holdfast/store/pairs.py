"""Pages that part no tool call from its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.message import Message, message_from_row
from holdfast.store.options import HistoryPage
from holdfast.store.standing import as_they_stand, open_floors
from holdfast.store.transaction import Transaction

_PAIR_REACH = 1000
"""How far a page is lengthened in search of the other half of a tool call."""


async def with_pairs(tx: Transaction, session_pk: int, messages: list[Message]) -> HistoryPage:
    """The page lengthened at both ends until no tool call is parted from its result.

    What is added may hold halves of other pairs, so this goes on until nothing is missing within reach.
    """
    earlier: list[Message] = []
    later: list[Message] = []
    back = forth = 0
    missing_calls, missing_results = _unpaired(messages)
    if missing_calls or missing_results:
        earlier = await _reachable(tx, "history_before", session_pk, messages[0].seq)
        later = await _reachable(tx, "history_after", session_pk, messages[-1].seq)
    while missing_calls or missing_results:
        further = (_reach(earlier, missing_calls, _calls), _reach(later, missing_results, _results))
        if further[0] <= back and further[1] <= forth:
            break  # what is still missing is not there, or too far away
        back, forth = max(back, further[0]), max(forth, further[1])
        missing_calls, missing_results = _unpaired([*earlier[:back], *messages, *later[:forth]])
    messages = [*earlier[:back][::-1], *messages, *later[:forth]]
    older = messages[0].seq if messages[0].seq > 1 else None
    more = await tx.one("history_after", session_pk, messages[-1].seq, 1)
    return HistoryPage(messages, older, messages[-1].seq if more else None)


def _calls(message: Message) -> set[str]:
    return {call.id for call in message.tool_calls}


def _results(message: Message) -> set[str]:
    return {message.tool_call_id} if message.tool_call_id else set()


def _unpaired(messages: Sequence[Message]) -> tuple[set[str], set[str]]:
    """The calls that results are of, and the results of calls, that are not among `messages`."""
    calls = {each for message in messages for each in _calls(message)}
    results = {each for message in messages for each in _results(message)}
    return results - calls, calls - results


async def _reachable(tx: Transaction, statement: str, session_pk: int, seq: int) -> list[Message]:
    floors = await open_floors(tx, session_pk)
    rows = await as_they_stand(tx, floors, await tx.all(statement, session_pk, seq, _PAIR_REACH))
    return [message_from_row(seq, rev, body) for _, seq, rev, body in rows]


def _reach(messages: Sequence[Message], wanted: set[str], ids: Callable[[Message], set[str]]) -> int:
    """How many of `messages` hold every id of `wanted` that is among them at all."""
    return max((number for number, message in enumerate(messages, 1) if wanted & ids(message)), default=0)
