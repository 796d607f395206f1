"""Letting sessions follow a changed binding.

A changed binding by itself leaves every session where it is. What would have to move is planned by
deciding again, as if the chat's next message had come; a plan writes nothing, and applying it does
what it says or nothing at all. A session that several channels or people share (`main`, or a peer of
every channel) has no one chat to decide about, and stays. So does one that no gateway made, and one
whose chat cannot be decided about for certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from holdfast.errors import InvalidInput, SessionNotFound
from holdfast.model.key import EVERY, OWN_CHANNEL, SessionKey
from holdfast.model.records import MoveAction, MoveRecord, MoveStep
from holdfast.model.session import Session
from holdfast.model.status import SessionStatus
from holdfast.routing.bindings import AgentSelectionRequired, Bindings
from holdfast.routing.incoming import Incoming, Peer
from holdfast.routing.origin import Origin, origin_of
from holdfast.routing.scope import LINK, main_key
from holdfast.store.options import SessionFilter, SessionOrder
from holdfast.store.store import Store

PAGE = 1000


async def plan_moves(
    store: Store, bindings: Bindings, *, copy: bool = False, merge: bool = False, share_main: bool = False
) -> list[MoveStep]:
    """What would have to be done for every chat to go on with the agent and the key it has now.

    Conflicts come first.

    With `copy`, old sessions stay and new ones get a copy, once. With `merge`, a chat that has begun under
    its new key gets what was said under the old one; without, it is a conflict. So is a direct message that
    would bring a second person into an agent's `main` session, unless with `share_main`.
    """
    steps: list[MoveStep] = []
    taken: set[str] = set()
    people: dict[str, set[str]] = defaultdict(set)
    for session in await _chats(store):
        key = _key_now(bindings, session)
        if key is None or key == session.key:
            continue
        there = await _at(store, key)
        is_copied = there is not None and session.id in there.copied_from
        if is_copied and not merge:
            continue
        exists = there is not None or str(key) in taken
        sender = _sender(session.key) if key == main_key(key.agent_id) else None
        is_second_person = False
        if sender is not None:
            if there is not None:  # whom nobody noted there is somebody else
                people[str(key)] |= {bindings.person(each) for each in there.senders or [""]}
            is_second_person = bool(people[str(key)] - {bindings.person(sender)})
        action, reason = MoveAction.COPY if copy else MoveAction.MOVE, None
        if await store.lease_seconds(session.id):
            action, reason = MoveAction.CONFLICT, "a turn of it is running"
        elif is_copied:
            action, reason = MoveAction.CONFLICT, "copied to its new key before, it would be there twice"
        elif is_second_person and not share_main:
            action, reason = MoveAction.CONFLICT, "people would share one session; --share-main allows that"
        elif exists and merge:
            action = MoveAction.MERGE
        elif exists:
            action, reason = MoveAction.CONFLICT, "its new key has a session already; --merge joins them"
        else:
            taken.add(str(key))
        if action is not MoveAction.CONFLICT and sender is not None:
            people[str(key)].add(bindings.person(sender))
        steps.append(
            MoveStep(
                action=action,
                session_id=session.id,
                from_key=session.key_text,
                to_key=str(key),
                reason=reason,
                sender=sender,
                is_second_person=is_second_person,
            )
        )
    return sorted(steps, key=lambda step: step.action is not MoveAction.CONFLICT)


async def apply_moves(store: Store, steps: Sequence[MoveStep]) -> MoveRecord | None:
    """Take the steps that are no conflicts, all together; None when there is nothing to do."""
    possible = [step for step in steps if step.action is not MoveAction.CONFLICT]
    return await store.move_sessions(possible) if possible else None


async def _chats(store: Store) -> list[Session]:
    """The sessions of chats that can be decided about, oldest first."""
    chats: list[Session] = []
    before: str | None = None
    while True:
        page = await store.list(SessionFilter(order=SessionOrder.CREATED, limit=PAGE, before=before))
        for session in page:
            key = session.key
            shared = key.channel in (OWN_CHANNEL, EVERY) or key.account_id == EVERY
            if session.status is not SessionStatus.ARCHIVED and not shared and not _is_linked(key):
                chats.append(session)
        before = page.next
        if before is None:
            return chats[::-1]


def _sender(key: SessionKey) -> str:
    """Who writes to the session of a direct message, as the gateway notes it."""
    return f"{key.channel}:{_peer_id(key)}"


def _peer_id(key: SessionKey) -> str:
    return key.peer_id.removeprefix(LINK) if key.peer_id.startswith(LINK * 2) else key.peer_id


def _is_linked(key: SessionKey) -> bool:
    """Whether its peer is a person of several names; any of them could be the one to decide about."""
    return key.peer_id.startswith(LINK) and not key.peer_id.startswith(LINK * 2)


def _key_now(bindings: Bindings, session: Session) -> SessionKey | None:
    """The key that the chat's next message would have; None where that is nobody's, or not known."""
    origin = origin_of(session)
    if origin is None:
        return None
    possible = {_decided(bindings, session.key, origin, roles) for roles in _roles(bindings, origin)}
    return possible.pop() if len(possible) == 1 else None


def _roles(bindings: Bindings, origin: Origin) -> list[tuple[str, ...]]:
    """The roles that the chat's sender has or, where nobody noted them, each that a binding asks for."""
    if origin.roles is not None:
        return [origin.roles]
    asked_for = {role for each in bindings if each.guild == origin.guild for role in each.roles}
    return [(), *((role,) for role in asked_for)]


def _decided(
    bindings: Bindings, key: SessionKey, origin: Origin, roles: tuple[str, ...]
) -> SessionKey | None:
    try:
        message = Incoming(
            channel=key.channel,
            account=key.account_id,
            peer=Peer(key.peer_kind, _peer_id(key)),
            thread=key.thread,
            guild=origin.guild,
            team=origin.team,
            parent=Peer.parse(origin.parent) if origin.parent else None,
            roles=roles,
        )
        return bindings.decide(message).key
    except (AgentSelectionRequired, InvalidInput):
        return None


async def _at(store: Store, key: SessionKey) -> Session | None:
    try:
        return await store.get_session(key)
    except SessionNotFound:
        return None
