"""One call for the author of a bot: a message goes in, and what becomes of it comes out.

A message is routed to its session, which is made if there is none. When the session's turn is free,
the history is read, the agent's runner answers, and what it says is stored and told as it comes; a
session that has grown long is compacted after that.
Nothing is locked while a runner works. What a message does that comes while another is answered is
the gateway's policy: it waits, it joins the turn that runs, or it interrupts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias
from weakref import WeakValueDictionary

import msgspec

from holdfast.compaction.background import BackgroundCompaction
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.ids import SessionId
from holdfast.model.key import SessionKey, name
from holdfast.model.message import Message
from holdfast.model.session import NewSession, Session, SessionPatch, sent_by
from holdfast.model.status import LIVE, SessionStatus
from holdfast.model.turn import Turn, TurnStatus
from holdfast.routing.answering import Answering, History, Tell, end_abandoned
from holdfast.routing.bindings import Bindings, Decision
from holdfast.routing.events import Outgoing, TurnEnded, TurnJoined
from holdfast.routing.hold import LEASE_SECONDS, Hold, let_go, take_hold
from holdfast.routing.incoming import Incoming
from holdfast.routing.joining import as_joining
from holdfast.routing.line import Line
from holdfast.routing.origin import Origin, origin_of
from holdfast.routing.recent import recent, whole_view
from holdfast.routing.runner import Function, Runner, calling
from holdfast.routing.scope import main_key
from holdfast.store.store import Store

log = logging.getLogger("holdfast.routing")

AfterTurn: TypeAlias = Callable[[SessionId], Awaitable[None]]


class Busy(StrEnum):
    """What a message does that comes while its session answers another."""

    WAIT = "wait"
    JOIN = "join"
    INTERRUPT = "interrupt"


class Arrival(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A message that came in, and all that is known of it by then."""

    decision: Decision
    at: datetime
    runner: Runner
    store: Store
    """The agent's view."""
    message: Message
    """As it is stored."""


class Gateway:
    def __init__(
        self,
        store: Store,
        bindings: Bindings,
        runners: Mapping[str, Runner | Function],
        *,
        busy: Busy = Busy.WAIT,
        compaction: BackgroundCompaction | None = None,
        history: History | None = None,
        after_turn: AfterTurn | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """With `compaction`, sessions are compacted after their turns, and runners are given the view.

        `history` reads something else for them. `after_turn` is awaited when a turn has ended and the next
        one may run. A holder of a turn that is gone is given up after `lease_seconds`.
        """
        self.bindings = bindings
        """Replaced by newer ones, these decide about the messages that come then."""
        self._store = store
        self._runners = {
            name(agent, "agent"): runner if isinstance(runner, Runner) else calling(runner)
            for agent, runner in runners.items()
        }
        if len(self._runners) < len(runners):
            raise InvalidInput(f"Two runners are for one agent: {', '.join(sorted(runners))}.")
        self._busy = busy
        self._compaction = compaction
        self._history = history or (whole_view if compaction else recent)
        self._after_turn = after_turn
        self._lease_seconds = lease_seconds
        self._lines: WeakValueDictionary[SessionKey, Line] = WeakValueDictionary()
        """In this process, messages of one chat are answered in the order in which they came."""
        self._holds: dict[SessionId, Hold] = {}

    @property
    def agents(self) -> Collection[str]:
        """Those that there are runners for."""
        return self._runners.keys()

    async def receive(self, incoming: Incoming) -> AsyncGenerator[Outgoing, None]:
        """Answer a message. Close the iterator (`contextlib.aclosing`) to stop the turn before its end."""
        arrival = self._arrival(self.bindings.decide(incoming))
        told: asyncio.Queue[Outgoing | None] = asyncio.Queue()
        serving = asyncio.get_running_loop().create_task(self._serve(arrival, told.put_nowait))
        serving.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            await serving
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    def _arrival(self, decision: Decision) -> Arrival:
        return Arrival(
            decision=decision,
            at=datetime.now().astimezone(),
            runner=self._runner(decision.agent),
            store=self._store.as_agent(decision.agent),
            message=_said(decision.message),
        )

    async def _serve(self, arrival: Arrival, tell: Tell) -> None:
        line = self._lines.setdefault(arrival.decision.key, Line())
        with line.place(arrival.message) as place:
            earlier = await self._earlier(arrival)
            if earlier is not None and earlier.status is not TurnStatus.PENDING:
                tell(TurnEnded(earlier))
                return
            is_repeated = earlier is not None or place.is_repeated
            if not is_repeated and await self._goes_ahead(arrival, tell):
                return
            await place.first.wait()
            hold, session = await self._take_turn(arrival)
            self._holds[session.id] = hold
            try:
                answering = Answering(hold, arrival.decision, arrival.runner, session, self._history, tell)
                overtaken = self._busy is Busy.INTERRUPT and place.is_overtaken
                await answering.answer(arrival.message, overtaken=overtaken)
            finally:
                del self._holds[session.id]
        await self._finish(session.id)

    async def _earlier(self, arrival: Arrival) -> Turn | None:
        """The turn of an earlier delivery, whoever answered; the end of one that another agent runs."""
        turn = await self._store.turn_of(arrival.message)
        if turn is None or turn.status is not TurnStatus.PENDING:
            return turn
        session = await self._store.get_session(turn.session_id)
        if session.agent == arrival.decision.agent:
            return turn
        hold = await take_hold(self._store, session.id, self._lease_seconds)
        try:
            await end_abandoned(hold.store, await hold.store.last_turn(session.id))
        finally:
            await asyncio.shield(let_go(hold))
        return await self._store.get_turn(session.id, turn.id)

    async def _goes_ahead(self, arrival: Arrival, tell: Tell) -> bool:
        """Do what the gateway does when busy; whether that was all there is to do.

        A delivery that is repeated joins and interrupts nothing: what it says is answered already.
        """
        if self._busy is Busy.WAIT:
            return False
        store = arrival.store
        session = await self._session(arrival)
        if self._busy is Busy.INTERRUPT:
            if await store.interrupt_turn(session.id) and (running := self._holds.get(session.id)):
                running.look()
        elif arrival.runner.joins and (
            joined := await store.join_turn(session.id, as_joining(arrival.message))
        ):
            tell(TurnJoined(joined))
            return True
        return False

    async def _session(self, arrival: Arrival) -> Session:
        decision, store = arrival.decision, arrival.store
        session = await store.get_or_create(decision.key, _opening(decision, arrival.runner.opening))
        origin = origin_of(session)
        if origin is None or origin.roles is None:  # of before, or made by somebody else
            kept = Origin.of(decision.message).kept()
            session = await store.patch(session.id, SessionPatch(custom=kept))
        if decision.key == main_key(decision.agent):
            await self._note_sender(store, session, decision.message)
        return session

    async def _note_sender(self, store: Store, session: Session, message: Incoming) -> None:
        """Warn when a session that all direct messages share is used by more than one person."""
        sender = f"{message.channel}:{message.said_by}"
        if sender in session.senders:
            return
        senders = (await store.patch(session.id, SessionPatch(custom=sent_by([sender])))).senders
        others = {self.bindings.person(each) for each in senders if each != sender}
        if others and self.bindings.person(sender) not in others:
            log.warning("session %s is shared by %s", session.id, ", ".join(senders))
            await store.audit(
                "session.main_shared", "warned", subject=session.id, detail={"senders": senders}
            )

    async def _take_turn(self, arrival: Arrival) -> tuple[Hold, Session]:
        """The turn of the session that the key has by then, which may have begun afresh meanwhile."""
        while True:
            session = await self._session(arrival)
            hold = await take_hold(arrival.store, session.id, self._lease_seconds)
            try:
                current = await self._session(arrival)
                if current.id == session.id:
                    last = await hold.store.last_turn(current.id)
                    await end_abandoned(hold.store, last)
                    if not await self._begins_afresh(arrival, current, last):
                        if current.status not in LIVE:
                            await hold.store.patch(current.id, SessionPatch(status=SessionStatus.ACTIVE))
                        return hold, current
                    await hold.store.retire(current.id)
            except BaseException:
                await asyncio.shield(let_go(hold))
                raise
            await let_go(hold)

    async def _begins_afresh(self, arrival: Arrival, session: Session, last: Turn | None) -> bool:
        if session.status in (SessionStatus.ERROR, SessionStatus.ARCHIVED):
            return True
        if arrival.runner.joins and await arrival.store.joined_count(session.id):
            return False  # who joined is answered where they said it
        if last is None:
            return False
        decision = arrival.decision
        reset = self.bindings.policy.reset_for(decision.key, decision.message.channel)
        quiet_since = max(last.created_at, last.status_at)
        return reset.is_due(started=session.created_at, quiet_since=quiet_since, now=arrival.at)

    async def _finish(self, session_id: SessionId) -> None:
        if self._compaction is not None:
            self._compaction.after_run(session_id)
        if self._after_turn is None:
            return
        try:
            await self._after_turn(session_id)
        except Exception:  # it is anybody's code, and the message was answered
            log.warning("session %s: what follows its turn failed", session_id, exc_info=True)

    def _runner(self, agent: str) -> Runner:
        if agent not in self._runners:
            known = ", ".join(sorted(self._runners)) or "none"
            raise NotFound(f"No runner is there for agent {agent!r}; there are: {known}.")
        return self._runners[agent]


def _opening(decision: Decision, opening: NewSession | None) -> NewSession:
    """What a new session is given: where it comes from, by which it can be routed again later."""
    base = opening or NewSession()
    return msgspec.structs.replace(base, custom=base.custom | Origin.of(decision.message).kept())


def _said(incoming: Incoming) -> Message:
    about = {"channel": incoming.channel, "sender": incoming.said_by}
    return Message.user(incoming.text, id=incoming.id, metadata=about | incoming.metadata)
