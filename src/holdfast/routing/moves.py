"""Letting sessions follow a changed binding.

A changed binding by itself leaves every session where it is. What would have to move is planned by
deciding again, as if the chat's next message had come; a plan writes nothing, and applying it does
what it says or nothing at all. A session that several channels or people share (`main`, or a peer of
every channel) has no one chat to decide about, and stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.errors import SessionNotFound
from holdfast.model.key import SessionKey
from holdfast.model.records import MoveAction, MoveRecord, MoveStep
from holdfast.model.session import OWN_CHANNEL, Session
from holdfast.model.status import SessionStatus
from holdfast.routing.bindings import AgentSelectionRequired, Bindings
from holdfast.routing.incoming import Incoming, Peer
from holdfast.routing.scope import EVERY, LINK
from holdfast.store.options import SessionFilter, SessionOrder
from holdfast.store.store import Store

PAGE = 1000


async def plan_moves(
    store: Store, bindings: Bindings, *, copy: bool = False, merge: bool = False
) -> list[MoveStep]:
    """What would have to be done for every chat to go on with the agent and the key it has now.

    Conflicts come first.

    With `copy`, old sessions stay and new ones get a copy. With `merge`, a chat that has begun under
    its new key gets what was said under the old one; without, it is a conflict.
    """
    steps: list[MoveStep] = []
    taken: set[str] = set()
    async for session in _chats(store):
        key = _key_now(bindings, session)
        if key is None or key == session.key:
            continue
        exists = str(key) in taken or await _exists(store, key)
        action, reason = MoveAction.COPY if copy else MoveAction.MOVE, None
        if await store.lease_seconds(session.id):
            action, reason = MoveAction.CONFLICT, "a turn of it is running"
        elif exists and merge:
            action = MoveAction.MERGE
        elif exists:
            action, reason = MoveAction.CONFLICT, "its new key has a session already; --merge joins them"
        else:
            taken.add(str(key))
        steps.append(
            MoveStep(
                action=action,
                session_id=session.id,
                from_key=session.key_text,
                to_key=str(key),
                reason=reason,
            )
        )
    return sorted(steps, key=lambda step: step.action is not MoveAction.CONFLICT)


async def apply_moves(store: Store, steps: Sequence[MoveStep]) -> MoveRecord | None:
    """Take the steps that are no conflicts, all together; None when there is nothing to do."""
    possible = [step for step in steps if step.action is not MoveAction.CONFLICT]
    return await store.move_sessions(possible) if possible else None


async def _chats(store: Store) -> AsyncIterator[Session]:
    """The sessions of chats that can be decided about, oldest first among those of a page."""
    before: str | None = None
    while True:
        page = await store.list(SessionFilter(order=SessionOrder.CREATED, limit=PAGE, before=before))
        for session in page:
            key = session.key
            shared = key.channel in (OWN_CHANNEL, EVERY) or key.account_id == EVERY
            if session.status is not SessionStatus.ARCHIVED and not shared and not _is_linked(key):
                yield session
        before = page.next
        if before is None:
            return


def _is_linked(key: SessionKey) -> bool:
    """Whether its peer is a person of several names; any of them could be the one to decide about."""
    return key.peer_id.startswith(LINK) and not key.peer_id.startswith(LINK * 2)


def _key_now(bindings: Bindings, session: Session) -> SessionKey | None:
    """The key that the chat's next message would have; None when nobody would answer it."""
    key = session.key
    origin = session.custom.get("origin", {})
    message = Incoming(
        channel=key.channel,
        account=key.account_id,
        peer=Peer(
            key.peer_kind, key.peer_id.removeprefix(LINK) if key.peer_id[:2] == LINK * 2 else key.peer_id
        ),
        thread=key.thread,
        guild=origin.get("guild"),
        team=origin.get("team"),
        parent=Peer.parse(origin["parent"]) if "parent" in origin else None,
    )
    try:
        return bindings.decide(message).key
    except AgentSelectionRequired:
        return None


async def _exists(store: Store, key: SessionKey) -> bool:
    try:
        await store.get_session(key)
    except SessionNotFound:
        return False
    return True
