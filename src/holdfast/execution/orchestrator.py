"""The orchestrator: every instruction becomes a turn, and every turn ends.

It resolves the contexts and the session, opens the turn, and runs it under the session's lease, one
at a time and in order. A turn goes on when its caller has gone: whoever comes back finds it in the
session. Each way a turn can fail ends in a failed turn whose error a person can read; turns that a
process left behind when it died are fetched or failed by the next, and never run again by
themselves, because the model would be paid twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self
from weakref import WeakValueDictionary

from holdfast.blobs import Blobs, blob_id_of, blob_url
from holdfast.compaction.background import BackgroundCompaction
from holdfast.errors import HoldfastError, NotFound, StoreError, TurnEnded
from holdfast.execution.answer import ExecuteResponse, response_of
from holdfast.execution.contexts import AgentContext, ContextSource
from holdfast.execution.errors import ContextWrong, KeyReused, NotAModelSession, ShuttingDown
from holdfast.execution.events import Stage, Tell
from holdfast.execution.input import ActiveFile, ExecutionInput, Mode
from holdfast.execution.recovery import Recovery
from holdfast.execution.repeating import ended_turn, request_hash
from holdfast.execution.reported import report_of, weighed_as_sent
from holdfast.execution.request import Parameters
from holdfast.execution.resolving import new_session, resolved_contexts, search_filter
from holdfast.execution.responses import Provider
from holdfast.execution.running import Execution, ExecutionLimits
from holdfast.model.ids import SessionId, TurnId
from holdfast.model.message import Message
from holdfast.model.records import ExecutionKey
from holdfast.model.session import Session, SessionPatch
from holdfast.model.status import SessionStatus, require_live, require_transition
from holdfast.model.turn import NewTurn, Turn, TurnFailure, TurnStatus, summary
from holdfast.retrieval import Retrieval
from holdfast.routing.hold import Hold, TurnInterrupted, let_go, take_hold
from holdfast.store.copying import forked
from holdfast.store.executions import KeyTaken
from holdfast.store.store import Store
from holdfast.telemetry import bound, span

log = logging.getLogger("holdfast.execution")

SWEEP_SECONDS = 30.0
"""How often turns are looked for that processes which are gone have left."""

SHUTDOWN_SECONDS = 5.0
"""How long a running turn may go on at a shutdown: half of what the whole server takes to stop."""

EARLIER_SECONDS = 15.0
"""How long an earlier turn is waited for before looking whether anybody is at work in its session."""

ReadFile = Callable[[str, str, str], bytes | str]
"""A file's content, by organization, repository and path; or a sentence that says why it cannot be had."""


INTERRUPTED = "interrupted"
"""Why a turn is cancelled, unless it is for a shutdown."""

STOPPED = {
    INTERRUPTED: ("The turn was stopped.", INTERRUPTED),
    "shutdown": ("Holdfast was shut down while the model was at work.", "shutdown"),
}


class Running(NamedTuple):
    """A turn that was opened, and its answer."""

    turn: Turn
    answer: asyncio.Task[ExecuteResponse]


class Orchestrator:
    """Use it as a context: it ends what an earlier process left, and its own turns when it closes."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        contexts: ContextSource,
        providers: Mapping[str, Provider],
        *,
        retrieval: Retrieval | None = None,
        compaction: BackgroundCompaction | None = None,
        limits: ExecutionLimits | None = None,
        read_file: ReadFile | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`read_file` gives a file of a repository, named by a client that did not send its content."""
        self.contexts = contexts
        self._store = store.as_system()
        self._blobs = blobs
        self._providers = providers
        self._retrieval = retrieval
        self._compaction = compaction
        self._limits = limits or ExecutionLimits()
        self._read_file = read_file
        self._clock = clock
        self._recovery = Recovery(self._store, blobs, providers, self._limits.kept_for, clock)
        self._order: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()
        self._opening: set[asyncio.Task[Running]] = set()
        self._running: dict[TurnId, asyncio.Task[ExecuteResponse]] = {}
        self._holds: dict[SessionId, Hold] = {}
        self._unended: dict[tuple[SessionId, TurnId], TurnFailure] = {}
        """How turns failed that the store could not take then."""
        self._sweeping: asyncio.Task[None] | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        await self._recovery.recover()
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Instructions

    async def execute(
        self, view: Store, asked: ExecutionInput, *, key: str | None = None, tell: Tell | None = None
    ) -> ExecuteResponse:
        """Open a turn for an instruction, and give its answer."""
        return await asyncio.shield((await self.start(view, asked, key=key, tell=tell)).answer)

    async def start(
        self,
        view: Store,
        asked: ExecutionInput,
        *,
        key: str | None = None,
        tell: Tell | None = None,
        said: Sequence[Message] = (),
        leased: bool = False,
    ) -> Running:
        """Open a turn for an instruction. It runs on, whether or not anybody waits for the answer.

        A call that is repeated with its key gives the same turn. `said` is what the instruction is in
        the session, where that is more than its text; a `leased` view has the session's turn already.
        """
        wanted = None if key is None else ExecutionKey(key, request_hash(asked))
        if wanted is not None and (earlier := await self._earlier(view, wanted)):
            return earlier
        if self._closing:
            raise ShuttingDown()
        # A task of its own: a turn that is stored is run, also when its caller has gone by then.
        opening = asyncio.get_running_loop().create_task(
            self._opened(view, asked, wanted, tell or (lambda event: None), said, leased=leased)
        )
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if leased:  # the session's turn is given up with its caller, so this one ends first
                await asyncio.shield(_stopped(opening))
            raise

    async def rerun(
        self,
        view: Store,
        session_id: SessionId,
        turn_id: TurnId,
        *,
        instruction: str | None = None,
        active_files: tuple[ActiveFile, ...] | None = None,
    ) -> ExecuteResponse:
        """A new turn with the instruction of an earlier one, which stays as it was.

        Files and chunks are looked up afresh; without files given, the earlier turn's are read again.
        """
        session = await view.get_session(session_id, writing=True)
        turn = await view.get_turn(session.id, turn_id)
        if session.agent_context_id is None:
            raise NotAModelSession(session.id, session.agent)
        if active_files is None:
            active_files = tuple(
                ActiveFile(path=ref.path, is_touched=ref.is_touched) for ref in turn.active_file_refs
            )
        asked = ExecutionInput(
            instruction=instruction or await self.instruction_of(session, turn),
            session_id=session.id,
            mode=Mode(turn.mode),
            active_files=active_files,
        )
        return await self.execute(view, asked)

    async def instruction_of(self, session: Session, turn: Turn) -> str:
        """The whole instruction of a turn."""
        blob = blob_id_of(turn.full_instruction_url) if turn.full_instruction_url else None
        if blob is None:
            return turn.instruction_summary
        return (await self._blobs.get(session.organization, blob)).decode()

    async def cancel_turn(self, view: Store, session_id: SessionId) -> Session:
        """Stop the turn that runs in a session; whichever process runs it."""
        session = await view.get_session(session_id)
        if await view.interrupt_turn(session.id) and (hold := self._holds.get(session.id)):
            hold.look()
        return session

    async def resume(self, view: Store, session_id: SessionId) -> Session:
        """Let a session that has ended take instructions again. There is no process to start."""
        session = await view.get_session(session_id)
        require_transition(session.status, SessionStatus.ACTIVE, archived_from=session.archived_from)
        return await view.patch(session.id, SessionPatch(status=SessionStatus.ACTIVE, status_reason=None))

    async def fork(self, view: Store, session_id: SessionId) -> Session:
        """A new session with the same model, which knows what was said in the first."""
        return await forked(self._store, view, await view.get_session(session_id))

    async def settled(self, session_id: SessionId) -> None:
        """Wait until the session is compacted, where its last turn called for that."""
        if self._compaction is not None:
            await self._compaction.settled(session_id)

    async def close(self) -> None:
        """Give running turns a moment to end, then fail them."""
        self._closing = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        if self._opening:
            await asyncio.wait(self._opening)
        running = list(self._running.values())
        if running and (late := (await asyncio.wait(running, timeout=SHUTDOWN_SECONDS))[1]):
            for task in late:
                task.cancel()
            await asyncio.wait(late)
        for provider in self._providers.values():
            await provider.close()

    # Parts of the above

    async def _opened(
        self,
        view: Store,
        asked: ExecutionInput,
        key: ExecutionKey | None,
        tell: Tell,
        said: Sequence[Message],
        *,
        leased: bool,
    ) -> Running:
        """A turn that runs; the one of the same call, where that came a moment earlier."""
        try:
            execution = await self._begin(view, asked, key, tell, said)
        except KeyTaken:
            assert key is not None
            earlier = await self._earlier(view, key)
            assert earlier is not None
            return earlier
        turn = execution.turn
        running = asyncio.get_running_loop().create_task(self._run(execution, leased=leased))
        self._running[turn.id] = running
        running.add_done_callback(lambda _: self._running.pop(turn.id, None))
        await asyncio.sleep(0)  # a task that is cancelled before its first step does not even fail its turn
        return Running(turn, running)

    async def _begin(
        self,
        view: Store,
        asked: ExecutionInput,
        key: ExecutionKey | None,
        tell: Tell,
        said: Sequence[Message],
    ) -> Execution:
        """A turn that is open, and everything that it takes to run it."""
        contexts = await self.contexts.of(view)
        session = None if asked.session_id is None else await self._existing(view, asked.session_id)
        agent, conversation = resolved_contexts(contexts, asked, session)
        provider = self._provider(agent)
        provider.fingerprint(agent.model or "")  # or there is no turn: nobody could answer it
        created = session is None
        if session is None:
            session = await view.create_session(new_session(asked, agent, conversation))
        try:
            turn = await self._open_turn(view, session, asked, key, said)
        except BaseException:
            if created:
                await asyncio.shield(self._store.delete(session.id))
            raise
        execution = Execution(
            store=view,
            blobs=self._blobs,
            retrieval=self._retrieval,
            provider=provider,
            limits=self._limits,
            clock=self._clock,
            asked=asked,
            session=session,
            turn=turn,
            parameters=Parameters.of(agent, conversation, asked.mode, chains=provider.chains),
            wanted=search_filter(asked, agent, conversation, session),
            read=self._reader(session.organization, asked.repository or session.repo_name),
            tell=tell,
        )
        if created:
            execution.reached(Stage.SESSION_STARTED)
        execution.reached(Stage.TURN_CREATED)
        return execution

    async def _existing(self, view: Store, session_id: SessionId) -> Session:
        session = await view.get_session(session_id)
        if not session.is_with_model:
            raise NotAModelSession(session.id, session.agent)
        require_live(session.status)
        return session

    async def _open_turn(
        self,
        view: Store,
        session: Session,
        asked: ExecutionInput,
        key: ExecutionKey | None,
        said: Sequence[Message],
    ) -> Turn:
        """The pending turn. Its instruction is a blob before there is a row that names it."""
        blob = await self._blobs.put(session.organization, asked.instruction.encode())
        new = NewTurn(
            instruction_summary=summary(asked.instruction),
            full_instruction_url=blob_url(blob),
            mode=asked.mode,
        )
        said = said or [Message.user(asked.instruction)]
        return await view.add_turn(session.id, new, said=said, owned=True, key=key)

    async def _run(self, execution: Execution, *, leased: bool) -> ExecuteResponse:
        """Run a turn to its end, whatever that is."""
        session, turn = execution.session, execution.turn
        with bound(session=session.id, turn=turn.id), span("execution.turn"):
            text: str | None = None
            try:
                ended, text = await (execution.run() if leased else self._in_its_turn(execution))
            except TurnInterrupted:
                ended = await self._fail(execution, *STOPPED[INTERRUPTED])
            except asyncio.CancelledError as stopped:
                why = STOPPED[INTERRUPTED if stopped.args == (INTERRUPTED,) else "shutdown"]
                ended = await asyncio.shield(self._fail(execution, *why))
            except HoldfastError as error:
                log.warning("the turn failed: %s", error)
                ended = await self._fail(execution, str(error), error.code)
            except Exception as error:  # whatever it was, the person who asked is told
                log.exception("the turn failed unexpectedly")
                ended = await self._fail(execution, f"{type(error).__name__}: {error}", "error")
            await self._after(execution, ended)
            return await response_of(self._blobs, session, ended, text)

    async def _in_its_turn(self, execution: Execution) -> tuple[Turn, str]:
        """Run it when those before it have ended, here and elsewhere."""
        session_id = execution.session.id
        async with self._order.setdefault(session_id, asyncio.Lock()):
            await self._wait_for_the_one_before(execution)
            hold = await take_hold(execution.store, session_id)
            self._holds[session_id] = hold
            try:
                execution.store = hold.store
                return await hold.during(execution.run())
            finally:
                del self._holds[session_id]
                await asyncio.shield(let_go(hold))

    async def _wait_for_the_one_before(self, execution: Execution) -> None:
        """Let the turn before it end, where another process has it: what it says belongs before this one.

        One that nobody is at work on is not waited for without end.
        """
        store, turn = execution.store, execution.turn
        for before in await store.list_turns(turn.session_id, after=turn.sequence_number - 2, limit=1):
            while before.status is TurnStatus.PENDING and before.id not in self._running:
                try:
                    async with asyncio.timeout(EARLIER_SECONDS):
                        before = await ended_turn(store, turn.session_id, before.id, since=before.rev)
                except TimeoutError:
                    if not await store.lease_seconds(turn.session_id):
                        return

    async def _fail(self, execution: Execution, why: str, code: str) -> Turn:
        """End a turn as failed; as it has ended already, where somebody else was earlier."""
        session_id, turn_id = execution.session.id, execution.turn.id
        failure = TurnFailure(errors=(why,), stop_reason=code)
        try:
            return await self._store.fail_turn(session_id, turn_id, failure)
        except TurnEnded:
            return await self._store.get_turn(session_id, turn_id)
        except StoreError:
            self._unended[session_id, turn_id] = failure
            raise

    async def _after(self, execution: Execution, ended: Turn) -> None:
        completed = ended.status is TurnStatus.COMPLETED
        execution.turn = ended
        execution.reached(Stage.TURN_COMPLETED if completed else Stage.TURN_FAILED)
        session = execution.session
        if completed and session.last_model != ended.openai_model:
            await self._store.patch(session.id, SessionPatch(last_model=ended.openai_model))
        if completed and self._compaction is not None:
            self._compaction.after_run(
                session.id,
                report_of(self._blobs, session, ended),
                weighed_as_sent(self._store, self._blobs, session),
            )

    async def _earlier(self, view: Store, wanted: ExecutionKey) -> Running | None:
        """The same call, made before; its answer is waited for while its turn is pending."""
        keyed = await view.keyed_turn(wanted.key)
        if keyed is None:
            return None
        if keyed.request_hash != wanted.request_hash:
            raise KeyReused(wanted.key)
        session = await view.get_session(keyed.session_id)
        turn = await view.get_turn(session.id, keyed.turn_id)

        async def answer() -> ExecuteResponse:
            ended = await ended_turn(view, session.id, turn.id)
            return await response_of(self._blobs, session, ended)

        return Running(turn, asyncio.get_running_loop().create_task(answer()))

    def _provider(self, agent: AgentContext) -> Provider:
        if agent.provider not in self._providers:
            known = ", ".join(sorted(self._providers))
            raise ContextWrong(
                f"The context {agent.name!r} names the provider {agent.provider!r}; there are: {known}."
            )
        return self._providers[agent.provider]

    def _reader(self, organization: str, repository: str | None) -> Callable[[str], bytes | str]:
        read = self._read_file
        if read is None or repository is None:
            return lambda path: f"{path} was not sent: its content did not come with the request."
        return partial(read, organization, repository)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                for (session_id, turn_id), failure in list(self._unended.items()):
                    with suppress(TurnEnded, NotFound):
                        await self._store.fail_turn(session_id, turn_id, failure)
                    del self._unended[session_id, turn_id]
                await self._recovery.recover()
            except StoreError as error:
                log.warning("turns that were left behind cannot be ended yet: %s", error)


async def _stopped(opening: asyncio.Task[Running]) -> None:
    """Stop a turn as soon as it is open."""
    with suppress(HoldfastError):
        running = (await opening).answer
        running.cancel(INTERRUPTED)
        await asyncio.wait([running])
