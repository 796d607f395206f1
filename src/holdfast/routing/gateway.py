"""One call for the author of a bot: a message goes in, and what becomes of it comes out.

A message is routed to its session, which is made if there is none. When the session's turn is free,
the history is read, the agent's runner answers, and what it says is stored and told as it comes.
Nothing is locked while a runner works. What a message does that comes while another is answered is
the gateway's policy: it waits, it joins the turn that runs, or it interrupts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from holdfast.errors import HoldfastError, NotFound
from holdfast.model.ids import SessionId
from holdfast.model.key import SessionKey
from holdfast.model.lease import LeaseLost
from holdfast.model.message import Message, Role
from holdfast.model.session import NewSession, Session, SessionPatch
from holdfast.model.status import LIVE, SessionStatus
from holdfast.model.turn import Turn, TurnFailure, TurnStatus
from holdfast.routing.bindings import Bindings, Decision
from holdfast.routing.ending import to_its_end
from holdfast.routing.events import Outgoing, TurnEnded, TurnJoined, TurnStarted
from holdfast.routing.hold import LEASE_SECONDS, Hold, TurnInterrupted, let_go, take_hold
from holdfast.routing.incoming import Incoming
from holdfast.routing.runner import CHAT, Exchange, Function, Runner, calling
from holdfast.routing.scope import main_key
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

log = logging.getLogger("holdfast.routing")

RECENT = 200
"""How much of a session a runner is given, unless the gateway is told otherwise."""

JOINED = "joined"
"""Marks a message that was said into a running turn."""

History: TypeAlias = Callable[[Store, SessionId], Awaitable[Sequence[Message]]]
AfterTurn: TypeAlias = Callable[[SessionId], Awaitable[None]]


class Busy(StrEnum):
    """What a message does that comes while its session answers another."""

    WAIT = "wait"
    JOIN = "join"
    INTERRUPT = "interrupt"


async def recent(store: Store, session_id: SessionId) -> Sequence[Message]:
    """The latest messages, and no tool call without its result."""
    return (await store.get_history(session_id, HistoryOptions(limit=RECENT, keep_pairs=True))).messages


class Gateway:
    def __init__(
        self,
        store: Store,
        bindings: Bindings,
        runners: Mapping[str, Runner | Function],
        *,
        busy: Busy = Busy.WAIT,
        history: History = recent,
        after_turn: AfterTurn | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`after_turn` is awaited when a turn has ended and the next one may run: to compact, for instance.

        A holder of a turn that is gone is given up after `lease_seconds`.
        """
        self.bindings = bindings
        """Replaced by newer ones, these decide about the messages that come then."""
        self._store = store
        self._runners = {
            agent: runner if isinstance(runner, Runner) else calling(runner)
            for agent, runner in runners.items()
        }
        self._busy = busy
        self._history = history
        self._after_turn = after_turn
        self._lease_seconds = lease_seconds
        self._order: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        """In this process, messages of one chat are answered in the order in which they came."""
        self._holds: dict[SessionId, Hold] = {}

    async def receive(self, incoming: Incoming) -> AsyncGenerator[Outgoing, None]:
        """Answer a message. Close the iterator (`contextlib.aclosing`) to stop the turn before its end."""
        decision = self.bindings.decide(incoming)
        told: asyncio.Queue[Outgoing | None] = asyncio.Queue()
        serving = asyncio.get_running_loop().create_task(self._serve(decision, told.put_nowait))
        serving.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            await serving
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    async def _serve(self, decision: Decision, tell: Callable[[Outgoing], None]) -> None:
        runner = self._runner(decision.agent)
        store = self._store.as_agent(decision.agent)
        message = _said(decision.message)
        if self._busy is Busy.JOIN and runner.joins:
            session = await self._session(store, decision, runner)
            joining = msgspec.structs.replace(message, metadata=message.metadata | {JOINED: True})
            if joined := await store.join_turn(session.id, joining):
                tell(TurnJoined(joined))
                return
        if self._busy is Busy.INTERRUPT:
            session = await self._session(store, decision, runner)
            if await store.interrupt_turn(session.id) and (running := self._holds.get(session.id)):
                running.look()
        async with self._order.setdefault(decision.key, asyncio.Lock()):
            hold, session = await self._take_turn(store, decision, runner)
            self._holds[session.id] = hold
            try:
                await self._answer(hold, decision, runner, session, message, tell)
            finally:
                del self._holds[session.id]
        await self._finish(session.id)

    async def _session(self, store: Store, decision: Decision, runner: Runner) -> Session:
        session = await store.get_or_create(decision.key, _opening(decision, runner.opening))
        if decision.key == main_key(decision.agent):
            await self._note_sender(store, session, decision.message)
        return session

    async def _note_sender(self, store: Store, session: Session, message: Incoming) -> None:
        """Warn when a session that all direct messages share is used by more than one person."""
        sender = f"{message.channel}:{message.said_by}"
        if sender in session.custom.get("senders", {}):
            return
        noted = await store.patch(session.id, SessionPatch(custom={"senders": {sender: True}}))
        senders = list(noted.custom["senders"])
        if len(senders) > 1:
            log.warning("session %s is shared by %s", session.id, ", ".join(senders))
            await store.audit(
                "session.main_shared", "warned", subject=session.id, detail={"senders": senders}
            )

    async def _take_turn(self, store: Store, decision: Decision, runner: Runner) -> tuple[Hold, Session]:
        """The turn of the session that the key has by then, which may have begun afresh meanwhile."""
        while True:
            session = await self._session(store, decision, runner)
            hold = await take_hold(store, session.id, self._lease_seconds)
            try:
                current = await self._session(store, decision, runner)
                if current.id == session.id:
                    if not await self._begins_afresh(hold.store, decision, current):
                        await _end_abandoned(hold.store, current)
                        if current.status not in LIVE:
                            await hold.store.patch(current.id, SessionPatch(status=SessionStatus.ACTIVE))
                        return hold, current
                    await hold.store.retire(current.id)
            except BaseException:
                await asyncio.shield(let_go(hold))
                raise
            await let_go(hold)

    async def _begins_afresh(self, store: Store, decision: Decision, session: Session) -> bool:
        if session.status in (SessionStatus.ERROR, SessionStatus.ARCHIVED):
            return True
        last = await store.last_turn(session.id)
        if last is None:
            return False
        reset = self.bindings.policy.reset_for(decision.message)
        now = datetime.now().astimezone()
        return reset.is_due(started=session.created_at, last_asked=last.created_at, now=now)

    async def _answer(
        self,
        hold: Hold,
        decision: Decision,
        runner: Runner,
        session: Session,
        message: Message,
        tell: Callable[[Outgoing], None],
    ) -> None:
        asked: Sequence[Message] = [message]
        stored = False
        released = False
        answered = hold.last_seq
        try:
            while asked and not released:
                history = await self._history(hold.store, session.id)
                exchange = Exchange(
                    decision=decision,
                    session=session,
                    history=[each for each in history if each.id not in {one.id for one in asked if one.id}],
                    asked=asked,
                    stored=stored,
                    store=hold.store,
                )
                await _run(hold, runner, exchange, tell)
                released = await to_its_end(hold.release())
                if not released:
                    asked, stored = await _joined(hold.store, session.id, answered), True
                    answered = asked[-1].seq if asked else answered
        finally:
            if not released:
                await asyncio.shield(_give_up(hold, session))

    async def _finish(self, session_id: SessionId) -> None:
        if self._after_turn is None:
            return
        try:
            await self._after_turn(session_id)
        except HoldfastError as error:
            log.warning("session %s: what follows its turn failed: %s", session_id, error)

    def _runner(self, agent: str) -> Runner:
        if agent not in self._runners:
            known = ", ".join(sorted(self._runners)) or "none"
            raise NotFound(f"No runner is there for agent {agent!r}; there are: {known}.")
        return self._runners[agent]


async def _run(hold: Hold, runner: Runner, exchange: Exchange, tell: Callable[[Outgoing], None]) -> None:
    """Have the runner take the turn; an interrupted one has ended, too."""
    started: list[Turn] = []

    async def run() -> None:
        async with aclosing(runner.run(exchange)) as events:
            async for event in events:
                if isinstance(event, TurnStarted):
                    started.append(event.turn)
                tell(event)

    try:
        await hold.during(run())
    except TurnInterrupted:
        for turn in started:
            tell(TurnEnded(await exchange.store.get_turn(exchange.session.id, turn.id)))


async def _joined(store: Store, session_id: SessionId, after: int) -> list[Message]:
    """What was said into the turn that began after that message, and is not answered yet."""
    page = await store.get_history(session_id, HistoryOptions(after=after, limit=1000))
    return [message for message in page if message.role is Role.USER and message.metadata.get(JOINED)]


async def _give_up(hold: Hold, session: Session) -> None:
    """Leave the session as the next holder needs it, unless that one is there already."""
    with suppress(LeaseLost):
        await _end_abandoned(hold.store, session)
    await let_go(hold)


async def _end_abandoned(store: Store, session: Session) -> None:
    """A turn that is pending although the holder of the lease does not run it has nobody to end it."""
    last = await store.last_turn(session.id)
    if last is not None and last.status is TurnStatus.PENDING and last.mode == CHAT:
        gone = TurnFailure(errors=("Whoever ran this turn is gone.",), stop_reason="abandoned")
        await store.fail_turn(session.id, last.id, gone)


def _opening(decision: Decision, opening: NewSession | None) -> NewSession:
    """What a new session is given: where it comes from, by which it can be routed again later."""
    message = decision.message
    given = {
        "guild": message.guild,
        "team": message.team,
        "parent": str(message.parent) if message.parent else None,
    }
    origin: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    base = opening or NewSession()
    return msgspec.structs.replace(base, custom=base.custom | {"origin": origin}) if origin else base


def _said(incoming: Incoming) -> Message:
    about = {"channel": incoming.channel, "sender": incoming.said_by}
    return Message.user(incoming.text, id=incoming.id, metadata=about | incoming.metadata)
