"""Agents keep out of each other's sessions, and every attempt is on record."""

from collections.abc import Awaitable, Callable

import pytest

from holdfast import (
    Message,
    NewCompaction,
    PeerKind,
    Principal,
    SessionFilter,
    SessionKey,
    SessionPatch,
    Store,
)
from holdfast.errors import AccessDenied
from holdfast.model.ids import CompactionId
from holdfast.store.ids import new_id

KEY = SessionKey("alpha", "irc", "bot", PeerKind.GROUP, "#a")
DENIED = f"Session {KEY} belongs to agent 'alpha'; agent 'beta' has no access to it."

Call = Callable[[Store], Awaitable[object]]

CALLS: dict[str, Call] = {
    "get": lambda store: store.get_session(KEY),
    "create": lambda store: store.get_or_create(KEY),
    "history": lambda store: store.get_history(KEY),
    "append": lambda store: store.append_messages(KEY, [Message.user("intruder")]),
    "patch": lambda store: store.patch(KEY, SessionPatch(title="mine")),
    "compact": lambda store: store.commit_compaction(
        KEY, NewCompaction(first_seq=1, last_seq=1, strategy="s", summary="x")
    ),
    "expand": lambda store: store.get_ranges(KEY, [(1, 1)]),
    "compactions": lambda store: store.list_compactions(KEY),
    "view": lambda store: store.compaction_outlines(KEY),
    "undo": lambda store: store.undo_compaction(KEY, CompactionId(new_id())),
    "turns": lambda store: store.list_turns(KEY),
    "changes": lambda store: store.changes(KEY, 0),
    "retire": lambda store: store.retire(KEY),
    "delete": lambda store: store.delete(KEY),
    "take the turn": lambda store: store.take_lease(KEY, 10),
    "interrupt": lambda store: store.interrupt_turn(KEY),
    "join": lambda store: store.join_turn(KEY, Message.user("intruder")),
}


@pytest.mark.req("STO-20")
@pytest.mark.parametrize("name", CALLS)
async def test_another_agent_is_denied_and_the_denial_is_audited(store: Store, name: str) -> None:
    await store.get_or_create(KEY)
    await store.append_messages(KEY, [Message.user("secret")])
    before = await store.get_session(KEY)
    with pytest.raises(AccessDenied) as denial:
        await CALLS[name](store.as_agent("beta"))
    assert str(denial.value) == DENIED
    assert await store.get_session(KEY) == before
    (entry,) = await store.list_audit()
    assert (entry.action, entry.outcome, entry.subject) == ("store.access", "denied", "beta")
    assert entry.detail == {"reason": DENIED}


@pytest.mark.req("STO-23")
async def test_an_agent_that_lists_another_is_refused_and_an_admin_is_not(store: Store) -> None:
    await store.get_or_create(KEY)
    with pytest.raises(AccessDenied):
        await store.as_agent("beta").list(SessionFilter(agent_id="alpha"))
    assert [entry.outcome for entry in await store.list_audit()] == ["denied"]
    assert (await store.as_principal(Principal("local", "ada")).list()).total == 0
    assert [each.agent for each in await store.list()] == ["alpha"]
