"""Agents and the sessions they serve: started, resumed, forked, limited, ended, and found again.

Every call is made on behalf of somebody: it takes their view of the store, which decides what
they may see. What the agents themselves do is stored in the program's own view.

A session that is started again first lets the agent continue its own session. An agent that
cannot is told the transcript. The stored session is the only history there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from holdfast.agents.asking import Asking
from holdfast.agents.catalogue import AgentEntry, Catalogue
from holdfast.agents.command import Command
from holdfast.agents.live import AgentNotRunning, AgentSilent, AnswerNotUnderstood, Limits, LiveAgent
from holdfast.agents.primer import make_primer
from holdfast.agents.process import KILL_SECONDS, SESSION_MARK, AgentProcess, mark_of, sweep
from holdfast.agents.recorder import Recorder
from holdfast.agents.repositories import Repositories
from holdfast.agents.sandbox import Kind, Place, Sandbox, Sandboxes
from holdfast.agents.services import Services
from holdfast.agents.session_files import kept
from holdfast.agents.terminals import Terminals
from holdfast.agents.wire import AgentError, ConnectionLost
from holdfast.agents.workspace import Workspace
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.policy import DEFAULT_PROVIDER, NOTHING, CompactionPolicy, Policies
from holdfast.errors import Conflict, HoldfastError, InvalidInput, SessionNotFound, TurnEnded
from holdfast.model.ids import RepoId, SessionId
from holdfast.model.message import Message
from holdfast.model.principal import Principal
from holdfast.model.question import QuestionStatus
from holdfast.model.session import NewSession, Session, SessionPatch, SessionRef
from holdfast.model.status import LIVE, SessionStatus, require_live, require_transition
from holdfast.model.turn import Turn, TurnFailure
from holdfast.questions.box import QuestionBox
from holdfast.store.copying import forked
from holdfast.store.ending import to_its_end, until_stored
from holdfast.store.ids import new_id
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.config import ProviderSettings

log = logging.getLogger("holdfast.agents")

MAX_SESSIONS = 5
RETRY_AFTER_SECONDS = 60
SHUTDOWN_SECONDS = 10.0
DEFAULT_AGENT = "gemini"


class TooManySessions(HoldfastError):
    code = "too_many_sessions"
    status = 429
    retriable = True

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} agents are running, which is the limit. End a session, or wait until one has ended "
            f"and try again in {RETRY_AFTER_SECONDS} seconds."
        )
        self.retry_after = RETRY_AFTER_SECONDS


class StartFailed(HoldfastError):
    """The agent was started, and did not come as far as a session. There is none."""

    code = "agent_start_failed"
    status = 502


class StartsNoAgents(HoldfastError):
    """Anybody who reaches this server could start a program: it does not ask who they are."""

    code = "starts_no_agents"
    status = 403

    def __init__(self) -> None:
        super().__init__(
            "This server was started with --no-auth and starts no agents, since an agent could then start "
            "others. Start it without --no-auth."
        )


class ServedElsewhere(Conflict):
    code = "served_elsewhere"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"The agent of session {session_id} is running on another server.")


class OpenQuestionDoor(Protocol):
    """Where the agent of one session asks its person through MCP."""

    @property
    def servers(self) -> list[dict[str, Any]]:
        """The MCP servers that the agent is told of."""

    @property
    def places(self) -> Sequence[Place]:
        """What they need to see in the agent's sandbox."""

    async def close(self) -> None: ...


class QuestionDoor(Protocol):
    async def open(self, session: Session, workspace: Path, mark: str) -> OpenQuestionDoor:
        """`mark` is what the processes of the session's agent are marked with."""


class Supervisor:
    """Use it as a context: it finds what an earlier server left, and ends its agents when it closes."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        repositories: Repositories,
        *,
        box: QuestionBox | None = None,
        starts_agents: bool = True,
        limit: int = MAX_SESSIONS,
        limits: Limits | None = None,
        asks: QuestionDoor | None = None,
        sandboxes: Sandboxes | None = None,
        providers: Mapping[str, ProviderSettings] = NOTHING,
    ) -> None:
        self.catalogue = catalogue
        self.repositories = repositories
        self.limit = limit
        self._starts_agents = starts_agents
        self._store = store.as_system()
        self._box = box
        self._limits = limits or Limits()
        self._sandboxes = sandboxes
        self._asks = asks
        self._compaction = BackgroundCompaction(self._store, _policies(catalogue, providers))
        self._agents: dict[SessionId, LiveAgent] = {}
        self._starting: set[asyncio.Event] = set()
        """One for each agent that is being started; it tells when that is over."""
        self._unopened: set[LiveAgent] = set()
        """Agents that have not opened their session yet."""
        self._opening: dict[SessionId, asyncio.Event] = {}
        """Sessions in which an agent is being started; the event tells when that is over."""
        self._closing = False

    async def __aenter__(self) -> Self:
        await self.reconcile()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def agents(self) -> Mapping[SessionId, LiveAgent]:
        """The agents that are running, by session."""
        return self._agents

    # Sessions

    async def create(
        self, store: Store, repo_id: RepoId, *, agent: str | None = None, title: str | None = None
    ) -> Session:
        """Start an agent in a repository, and open a session with it. If it does not start, there is none."""
        name = agent or DEFAULT_AGENT
        entry = self.catalogue[name]
        with self._place():
            _, path = await self.repositories.resolve(store, repo_id)
            entry.command_line(path)
            session_id = SessionId(new_id())
            new = NewSession(id=session_id, agent=name, repo_id=repo_id, title=title)
            try:
                session = await to_its_end(store.create_session(new))
                with self._opened(session_id):
                    return await self._serve(store, session, entry, path)
            except BaseException:
                with suppress(SessionNotFound):  # when it is the session itself that could not be made
                    await asyncio.shield(self._store.delete(session_id))
                raise

    async def fork(self, store: Store, ref: SessionRef) -> Session:
        """A new session with the same agent in the same repository, which knows what was said in the first.

        What ended in an error can go on this way.
        """
        original = await store.get_session(ref)
        name, repo_id = original.agent, _repo_of(original)
        entry = self.catalogue[name]
        with self._place():
            _, path = await self.repositories.resolve(store, repo_id)
            entry.command_line(path)
            session = await forked(self._store, store, original)
            try:
                with self._opened(session.id):
                    return await self._serve(store, session, entry, path)
            except BaseException:
                await asyncio.shield(self._store.delete(session.id))
                raise

    async def resume(self, store: Store, ref: SessionRef) -> Session:
        """Start the agent of a session again, in the same session."""
        session = await self._settled(store, ref)
        if agent := self._agents.get(session.id):
            if not agent.is_ending:
                return session
            await agent.gone()
            return await self.resume(store, session.id)
        # Its commit would take the revision by which the session is claimed below.
        await self._compaction.cancel(session.id)
        session = await self._settled(store, session.id)
        if session.id in self._agents:  # somebody else has started it meanwhile
            return await self.resume(store, session.id)
        require_transition(session.status, SessionStatus.ACTIVE, archived_from=session.archived_from)
        entry = self.catalogue[session.agent]
        with self._place(), self._opened(session.id):
            _, path = await self.repositories.resolve(store, _repo_of(session))
            entry.command_line(path)
            if await self._store.processes(session.id):
                raise ServedElsewhere(session.id)
            # Whoever changes the status first starts the agent: a second caller's revision is old then.
            claim = SessionPatch(status=SessionStatus.ACTIVE, status_reason=None)
            await store.patch(session.id, claim, expected_revision=session.rev)
            try:
                return await self._serve(store, session, entry, path)
            except BaseException:
                back = SessionPatch(status=_ended_status(session), status_reason=session.status_reason)
                await asyncio.shield(self._store.patch(session.id, back))
                raise

    async def prompt(self, store: Store, ref: SessionRef, text: str) -> Turn:
        """Take an instruction: stored at once, sent to the agent when those before it have been answered."""
        if not text.strip():
            raise InvalidInput("The prompt is empty; say what the agent should do.")
        session, agent = await self._live(store, ref)
        turn = await agent.accept(store, text)
        if session.title is None:
            await store.patch(session.id, SessionPatch(title=_title(text)))
        return turn

    async def cancel_turn(self, store: Store, ref: SessionRef) -> Session:
        """Stop the running turn; the session stays active."""
        session, agent = await self._live(store, ref)
        await agent.cancel_turn()
        return await store.get_session(session.id)

    async def cancel(self, store: Store, ref: SessionRef) -> Session:
        return await self._end(store, ref, SessionStatus.CANCELLED, "The session was cancelled")

    async def complete(self, store: Store, ref: SessionRef) -> Session:
        return await self._end(store, ref, SessionStatus.COMPLETED, "The session was completed")

    async def set_mode(self, store: Store, ref: SessionRef, mode: str) -> Session:
        session, agent = await self._live(store, ref)
        await agent.set_mode(mode)
        return await store.get_session(session.id)

    async def set_model(self, store: Store, ref: SessionRef, model: str) -> Session:
        session, agent = await self._live(store, ref)
        await agent.set_model(model)
        return await store.get_session(session.id)

    async def set_config(self, store: Store, ref: SessionRef, option: str, value: Any) -> Session:
        session, agent = await self._live(store, ref)
        await agent.set_config(option, value)
        return await store.get_session(session.id)

    # Servers come and go

    async def reconcile(self) -> None:
        """Put right what servers that died have left: processes, turns, sessions, open questions."""
        left = await self._store.claim_abandoned_processes()
        if left:
            log.warning("ending what a server that died has left: %d groups of processes", len(left))
        interrupted = {record.session_id for record in left}
        ended = await asyncio.gather(
            *(
                sweep(record.process_group, record.started, mark_of(record.session_id, record.owner))
                for record in left
                if record.is_here
            )
        )
        if any(ended):
            log.warning("%d agents of a server that died were still running, and were ended", sum(ended))
        for turn in await self._store.pending_turns():
            if turn.session_id in interrupted:
                await self._fail(turn, "The server stopped while the agent was at work.")
        for session_id in interrupted:
            await self._mark_interrupted(session_id)
        await self._withdraw_questions(interrupted)
        for record in left:
            await self._store.forget_process(record.process_group)
        if self._sandboxes is not None:
            await self._sandboxes.tidy()

    async def close(self) -> None:
        """End every agent, all at once. Whatever is left after ten seconds is killed.

        An agent that is still being started has nothing to lose, and is killed at once.
        """
        self._closing = True
        for agent in self._unopened:
            agent.process.kill()
        agents = list(self._agents.values())
        endings: list[asyncio.Task[Any]] = [
            asyncio.create_task(agent.end(SessionStatus.CANCELLED, "shutdown", "The server was shut down."))
            for agent in agents
        ]
        endings += [asyncio.create_task(over.wait()) for over in self._starting]
        if endings and (late := (await asyncio.wait(endings, timeout=SHUTDOWN_SECONDS))[1]):
            log.error("%d agents did not end within %g seconds and are killed", len(late), SHUTDOWN_SECONDS)
            for agent in agents:
                agent.process.kill()
            await asyncio.wait(late, timeout=KILL_SECONDS)
        await self._compaction.close()

    # Starting

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among the running agents, while one is being started."""
        if not self._starts_agents:
            raise StartsNoAgents
        self._require_open()
        if len(self._agents) + len(self._starting) >= self.limit:
            log.warning("all %d places for agents are taken", self.limit)
            raise TooManySessions(self.limit)
        over = asyncio.Event()
        self._starting.add(over)
        try:
            yield
        finally:
            self._starting.remove(over)
            over.set()

    def _require_open(self) -> None:
        if self._closing:
            raise Conflict("The server is shutting down and starts no more agents.")

    @contextmanager
    def _opened(self, session_id: SessionId) -> Iterator[None]:
        """While an agent is being started in a session, whoever wants something of it waits."""
        over = self._opening[session_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._opening[session_id]
            over.set()

    async def _serve(self, store: Store, session: Session, entry: AgentEntry, path: Path) -> Session:
        """Start the agent, open its part of the session, and let it work."""
        log.info("session %s: starting %s in %s", session.id, session.agent, path)
        agent = await self._start(session, entry, path)
        self._unopened.add(agent)
        try:
            self._require_open()
            await agent.initialize(reads=entry.reads_through_us)
            await self._open(agent, session, entry, path)
            held = SessionPatch(agent_state={"sandbox": agent.sandbox.description})
            await self._store.patch(session.id, held)
            self._require_open()
        except (AgentError, AgentSilent, AnswerNotUnderstood, ConnectionLost, InvalidInput) as error:
            await to_its_end(agent.discard())
            self._require_open()
            words = await agent.last_words()
            raise StartFailed(
                f"The agent {session.agent!r} did not start: {error} {words}".strip()
            ) from error
        except BaseException:
            await to_its_end(agent.discard())
            raise
        finally:
            self._unopened.remove(agent)
        self._agents[session.id] = agent
        agent.work(self._forget, self._turn_ended)
        log.info("%d of %d agents are running", len(self._agents), self.limit)
        return await store.get_session(session.id)

    async def _start(self, session: Session, entry: AgentEntry, path: Path) -> LiveAgent:
        async with AsyncExitStack() as opened:
            mark = self._mark_of(session)
            asks = await self._asks.open(session, path, mark) if self._asks is not None else None
            if asks is not None:
                opened.push_async_callback(asks.close)
            try:
                sandbox = await self._sandbox(session, entry, path, asks)
                opened.push_async_callback(sandbox.close)
                confined = sandbox.kind is not Kind.NONE
                process = await AgentProcess.start(entry.command_line(path, confined=confined), path, sandbox)
            except OSError as error:
                raise StartFailed(f"The agent {session.agent!r} cannot be started: {error}.") from error
            try:
                await self._store.record_process(session.id, process.pid, process.started)
            except BaseException:
                await asyncio.shield(process.end())
                await process.close()
                raise
            recorder, services = self._parts(session, entry, Workspace(path), sandbox)
            servers = asks.servers if asks is not None else []
            return LiveAgent(
                self._store,
                session,
                process,
                sandbox,
                servers,
                recorder,
                services,
                self._limits,
                opened.pop_all(),
            )

    def _mark_of(self, session: Session) -> str:
        return mark_of(session.id, self._store.incarnation)

    async def _sandbox(
        self, session: Session, entry: AgentEntry, path: Path, asks: OpenQuestionDoor | None
    ) -> Sandbox:
        """The sandbox of an agent and its commands, with the mark by which all that they start is found."""
        environment = entry.environment() | {SESSION_MARK: self._mark_of(session)}
        if self._sandboxes is None:
            return Sandbox.none(environment)
        owner = (session.organization, session.owner, session.agent)
        also = asks.places if asks is not None else ()
        return await self._sandboxes.open(entry, path, environment, owner=owner, also=also)

    def _parts(
        self, session: Session, entry: AgentEntry, workspace: Workspace, sandbox: Sandbox
    ) -> tuple[Recorder, Services]:
        recorder = Recorder(self._store, session.id)
        owner = self._store.as_principal(Principal(session.organization, session.owner)).through("agent")

        async def audit(action: str, outcome: str, detail: dict[str, Any]) -> None:
            await owner.audit(action, outcome, subject=session.id, detail=detail)

        async def started(group: int, at: float) -> None:
            await self._store.record_process(session.id, group, at)

        asking = Asking(
            self._box,
            agent=session.agent,
            session_id=session.id,
            workspace=workspace,
            policy=entry.policy,
            audit=audit,
            noted=recorder.question,
            told=recorder.note,
            known=recorder.known,
        )

        async def exited(command: Command, code: int) -> None:
            await until_stored(lambda: asking.exited(command, code), f"session {session.id}")

        terminals = Terminals(
            workspace,
            sandbox,
            decided=asking.command,
            exited=exited,
            started=started,
            ended=self._store.forget_process,
        )
        return recorder, Services(workspace, sandbox, terminals, asking, recorder, audit)

    async def _open(self, agent: LiveAgent, session: Session, entry: AgentEntry, path: Path) -> None:
        """Continue the agent's own session where that works, else open a new one with the transcript."""
        for method in _ways_back(agent, session, entry):
            assert session.agent_session_id is not None
            try:
                async with kept(agent.sandbox.home, entry.session_files, session.agent_session_id):
                    await agent.reopen(method, session.agent_session_id, str(path), entry.replay_seconds)
                return
            except (AgentError, AnswerNotUnderstood) as error:
                log.warning("session %s: the agent cannot %s it: %s", session.id, method, error)
        primer = await make_primer(self._store, session.id)
        await agent.open_new(str(path), primer)
        if primer is not None:
            await self._store.append_messages(
                session.id,
                [
                    Message.system(
                        "The agent starts without its own memory of this session; the transcript goes with "
                        "the next prompt.",
                        metadata={"primer": primer.origin},
                    )
                ],
            )

    def _forget(self, agent: LiveAgent) -> None:
        self._agents.pop(agent.session_id, None)
        log.info("%d of %d agents are running", len(self._agents), self.limit)

    def _turn_ended(self, agent: LiveAgent) -> None:
        if self.catalogue[agent.name].compaction is not None:
            self._compaction.after_run(agent.session_id)

    # Parts of the above

    async def _live(self, store: Store, ref: SessionRef) -> tuple[Session, LiveAgent]:
        session = await self._settled(store, ref)
        require_live(session.status)
        agent = self._agents.get(session.id)
        if agent is None:
            raise AgentNotRunning(session)
        return session, agent

    async def _settled(self, store: Store, ref: SessionRef) -> Session:
        """A session as it is when no agent is being started in it, for those who may lead its agent."""
        session = await store.get_session(ref, writing=True)
        while over := self._opening.get(session.id):
            await over.wait()
            session = await store.get_session(session.id, writing=True)
        return session

    async def _end(self, store: Store, ref: SessionRef, status: SessionStatus, said: str) -> Session:
        session = await self._settled(store, ref)
        require_transition(session.status, status, archived_from=session.archived_from)
        said = f"{said} by {store.user}."
        if agent := self._agents.get(session.id):
            await agent.end(status, None, said)
        elif await self._store.processes(session.id):
            raise ServedElsewhere(session.id)
        elif session.status is not status:
            await store.append_messages(session.id, [Message.system(said)])
            await store.patch(session.id, SessionPatch(status=status, status_reason=None))
            await store.interrupt_turn(session.id)  # of a model, in whichever process
        return await store.get_session(session.id)

    async def _mark_interrupted(self, session_id: SessionId) -> None:
        session = await self._store.get_session(session_id)
        if session.status in LIVE:
            said = "The server stopped while this session was open. It can be resumed."
            await self._store.append_messages(session_id, [Message.system(said)])
            patch = SessionPatch(status=SessionStatus.CANCELLED, status_reason="server_restart")
            await self._store.patch(session_id, patch)

    async def _withdraw_questions(self, sessions: set[SessionId]) -> None:
        if self._box is None or not sessions:
            return
        for question_set in await self._box.list({QuestionStatus.PENDING}):
            if question_set.session_id in sessions:
                try:
                    await self._box.abandon(question_set.id)
                except HoldfastError as error:  # which must not keep the server from starting
                    log.warning("The question set %s could not be withdrawn: %s", question_set.id, error)

    async def _fail(self, turn: Turn, why: str) -> None:
        try:
            await self._store.fail_turn(
                turn.session_id, turn.id, TurnFailure(errors=(why,), stop_reason="server_restart")
            )
        except TurnEnded:
            log.debug("turn %s has ended meanwhile", turn.id)


def _ways_back(agent: LiveAgent, session: Session, entry: AgentEntry) -> list[str]:
    """How the agent may continue its own session, the best first."""
    if session.agent_session_id is None:
        return []
    ways = [method for method in ("resume", "load") if agent.capabilities.can(method)]
    opened = str(session.agent_state.get("openedAt", ""))
    if not entry.loads_in_first_minute and opened.startswith(f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"):
        ways = [method for method in ways if method != "load"]
    return ways


def _policies(catalogue: Catalogue, providers: Mapping[str, ProviderSettings]) -> Policies:
    def policy(session: Session) -> CompactionPolicy | None:
        own = catalogue[session.agent].compaction
        return own.at(providers, DEFAULT_PROVIDER) if own else None

    return policy


def _repo_of(session: Session) -> RepoId:
    if session.repo_id is None:
        raise InvalidInput(
            f"Session {session.id} is not bound to a repository; no agent can be started in it."
        )
    return session.repo_id


def _ended_status(session: Session) -> SessionStatus:
    return SessionStatus.CANCELLED if session.status in LIVE else session.status


def _title(prompt: str) -> str:
    first = prompt.strip().splitlines()[0]
    return first if len(first) <= 80 else f"{first[:79]}…"
