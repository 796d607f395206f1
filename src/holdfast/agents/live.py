"""A session whose agent is running.

Prompts are turns, taken one after the other; a turn ends when the agent answers its prompt,
however late. The agent is ended in one way only, `end`, whoever decides it: a person, the idle
timeout, the shutdown, or the agent itself by ending.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar, cast

import msgspec

from holdfast.agents.primer import Primer
from holdfast.agents.process import LAST_WORDS_SECONDS, AgentProcess
from holdfast.agents.protocol import (
    VERSION,
    Initialized,
    NewlyOpened,
    Opened,
    Prompted,
    client_capabilities,
)
from holdfast.agents.recorder import Recorder
from holdfast.agents.sandbox import Sandbox
from holdfast.agents.services import Services
from holdfast.agents.wire import UNREADABLE, AgentError, ConnectionLost, Wire
from holdfast.errors import Conflict, HoldfastError, StoreError, TurnEnded
from holdfast.model.message import Message
from holdfast.model.session import Session, SessionPatch
from holdfast.model.status import SessionStatus
from holdfast.model.text import readable
from holdfast.model.times import iso
from holdfast.model.turn import NewTurn, Turn, TurnAnswer, TurnFailure, summary
from holdfast.model.usage import TokenUsage
from holdfast.store.ending import until_stored
from holdfast.store.store import Store
from holdfast.telemetry import bound, context_of, failed, span

log = logging.getLogger("holdfast.agents")

T = TypeVar("T")

REPORTED_STDERR = 4000
"""How much of the end of a dead agent's standard error its session keeps."""

NEVER_SENT = "The session ended before this prompt was sent to the agent."


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long an agent is waited for, in seconds."""

    answer: float = 60
    """Until it has answered a request that is not a prompt."""
    silence: float = 60
    """Until a turn without a sign of life gets a warning."""
    idle: float = 30 * 60
    """Until a session in which nothing happens, and nobody is asked anything, is completed."""
    cancel: float = 5
    """Until a cancelled turn has ended, before the process is."""
    heartbeat: float = 30
    """Between two looks at the process."""


class AgentSilent(HoldfastError):
    code = "agent_silent"
    status = 504

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"The agent did not answer {method} within {seconds:g} seconds.")


class AnswerNotUnderstood(HoldfastError):
    code = "agent_answer_not_understood"
    status = 502

    def __init__(self, method: str, why: Exception) -> None:
        super().__init__(f"The agent's answer to {method} was not understood: {why}.")


class AgentNotRunning(Conflict):
    code = "agent_not_running"

    def __init__(self, session: Session) -> None:
        remedy = (
            "a model answers there: give it instructions at /api/ai/agent/execute"
            if session.is_with_model
            else "resume it first"
        )
        super().__init__(f"No agent is running in session {session.id}; {remedy}.")
        self.session_status = session.status


class LiveAgent:
    """The agent of one session. The supervisor starts it, opens its session, and then lets it work."""

    def __init__(
        self,
        store: Store,
        session: Session,
        process: AgentProcess,
        sandbox: Sandbox,
        mcp_servers: Sequence[Any],
        recorder: Recorder,
        services: Services,
        limits: Limits,
        opened: AsyncExitStack,
    ) -> None:
        """`opened` is what is closed when the process has ended."""
        loop = asyncio.get_running_loop()
        self.session_id = session.id
        self.name = session.agent
        self.process = process
        self.sandbox = sandbox
        self._mcp_servers = mcp_servers
        self._opened = opened
        self.capabilities = Initialized()
        self.last_heartbeat: float | None = None
        """When the process was last seen alive, by the loop's clock."""
        self._store = store
        self._recorder = recorder
        self._services = services
        self._limits = limits
        self._agent_session = ""
        self._primer: Primer | None = None
        self._used = session.token_usage
        """What the agent's own session had used when its last turn ended."""
        self._turns: deque[tuple[Turn, str]] = deque()
        """Turns that have not ended, the running one first, each with what was said."""
        self._more_turns = asyncio.Event()
        self._running: Turn | None = None
        self._prompted = asyncio.Event()
        """Set once the agent has been sent the prompt of the running turn."""
        self._accepting: set[asyncio.Task[Turn]] = set()
        self._now = loop.time
        self._last_sign = loop.time()
        self._pipe_broke: asyncio.Future[None] = loop.create_future()
        self._ending: asyncio.Task[None] | None = None
        self._tell_ended: Callable[[LiveAgent], None] | None = None
        self._tell_turn_ended: Callable[[LiveAgent], None] | None = None
        self._wire = Wire(process.read, process.write, self)
        # What is read and stored while a turn runs belongs to its span, so both tasks share a context.
        self._context = context_of(session=session.id)
        self._reading = loop.create_task(self._wire.run(), context=self._context)
        self._working: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    # Opening

    async def initialize(self, *, reads: bool) -> None:
        about_us = {"name": "holdfast", "title": "Holdfast", "version": version("holdfast")}
        self.capabilities = await self._ask(
            "initialize",
            {
                "protocolVersion": VERSION,
                "clientCapabilities": client_capabilities(reads=reads),
                "clientInfo": about_us,
            },
            Initialized,
        )

    async def open_new(self, cwd: str, primer: Primer | None) -> None:
        """Open a session with the agent; with a primer, one that goes on where another stopped."""
        opened = await self._ask("session/new", {"cwd": cwd, "mcpServers": self._mcp_servers}, NewlyOpened)
        self._agent_session = opened.session_id
        self._primer = primer
        self._used = TokenUsage()
        self._recorder.replaying = False
        await self._describe(opened)
        await self._set({"openedAt": iso(datetime.now(UTC))})

    async def reopen(self, method: str, agent_session: str, cwd: str, settle: float) -> None:
        """Have the agent `resume` or `load` a session of its own.

        What it then tells of the past is stored already. Some agents go on telling it after they
        have answered, so nothing is asked of them until they have been quiet for `settle` seconds.
        """
        self._recorder.replaying = True
        opened = await self._ask(
            f"session/{method}",
            {"sessionId": agent_session, "cwd": cwd, "mcpServers": self._mcp_servers},
            cast("type[Opened | None]", Opened | None),
        )
        self._agent_session = agent_session
        while (quiet := self._now() - self._last_sign) < settle:  # noqa: ASYNC110  # nothing tells of silence
            await asyncio.sleep(settle - quiet)
        if opened is not None:
            await self._describe(opened)

    def work(
        self, ended: Callable[[LiveAgent], None], turn_ended: Callable[[LiveAgent], None] | None = None
    ) -> None:
        """Take turns from now on, and watch the process; `ended` is told when it is gone."""
        self._tell_ended = ended
        self._tell_turn_ended = turn_ended
        self._last_sign = self._now()
        loop = asyncio.get_running_loop()
        self._working = loop.create_task(self._work(), context=self._context)
        self._watching = loop.create_task(self._watch(), context=self._context)

    async def discard(self) -> None:
        """End an agent that did not come as far as a session."""
        await self._services.close()
        await self._end_process()
        await self._store.forget_process(self.process.pid)

    async def last_words(self) -> str:
        """How the process ended, if it has, and the end of what it wrote to its standard error."""
        await asyncio.wait([self.process.exited], timeout=LAST_WORDS_SECONDS)
        how = _how_it_ended(self.process.exited.result()) if self.process.exited.done() else ""
        return "\n".join(part for part in (how, self._stderr()) if part)

    # While it runs

    async def accept(self, store: Store, text: str) -> Turn:
        """Take a prompt of the view's caller: a pending turn, which runs when those before it have ended.

        Once it is stored it runs, also if the caller is gone by then.
        """
        if self._ending is not None:
            raise AgentNotRunning(await store.get_session(self.session_id))
        accepting = asyncio.get_running_loop().create_task(self._accept(store, text))
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)
        return await asyncio.shield(accepting)

    async def _accept(self, store: Store, text: str) -> Turn:
        new = NewTurn(instruction_summary=summary(text))
        turn = await store.add_turn(self.session_id, new, said=[Message.user(text)])
        self._queue(turn, text)
        self._more_turns.set()
        self._last_sign = self._now()
        return turn

    def _queue(self, turn: Turn, text: str) -> None:
        """By its number: of several that are stored at once, any may be told first."""
        first = 1 if self._turns and self._turns[0][0] is self._running else 0
        place = len(self._turns)
        while place > first and self._turns[place - 1][0].sequence_number > turn.sequence_number:
            place -= 1
        self._turns.insert(place, (turn, text))

    async def cancel_turn(self) -> None:
        """Stop the running turn, if there is one: the agent ends it, and the next begins."""
        if not self._turns:
            return
        with suppress(TimeoutError, ConnectionLost):
            async with asyncio.timeout(self._limits.cancel):  # the agent may not read what it is sent
                await self._prompted.wait()
                # Some agents answer a cancel only when their own requests have been answered.
                self._services.asking.cancel_all()
                await self._wire.notify("session/cancel", {"sessionId": self._agent_session})

    async def set_mode(self, mode: str) -> None:
        await self._ask("session/set_mode", {"sessionId": self._agent_session, "modeId": mode}, Any)
        await self._set({"modes": {"currentModeId": mode}})

    async def set_model(self, model: str) -> None:
        await self._ask("session/set_model", {"sessionId": self._agent_session, "modelId": model}, Any)
        await self._set({"models": {"currentModelId": model}})

    async def set_config(self, option: str, value: Any) -> None:
        changed = await self._ask(
            "session/set_config_option",
            {"sessionId": self._agent_session, "configId": option, "value": value},
            Opened,
        )
        await self._describe(changed)

    @property
    def turns(self) -> int:
        """How many turns have not ended."""
        return len(self._turns)

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        self._last_sign = self._now()
        if method == "session/update":
            await self._recorder.update(params)
        else:
            log.info("session %s: the agent sent %s: %.500s", self.session_id, method, bytes(params))

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        self._last_sign = self._now()
        try:
            return await self._services.answer(method, params)
        finally:
            self._last_sign = self._now()

    # Ending

    async def end(
        self, status: SessionStatus, reason: str | None, said: str, details: dict[str, Any] | None = None
    ) -> None:
        """End the agent, and its session with it. The first call decides how; all wait for the end."""
        if self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.create_task(self._end(status, reason, said, details or {}))
        await asyncio.shield(self._ending)

    @property
    def is_ending(self) -> bool:
        return self._ending is not None

    async def gone(self) -> None:
        """Wait until an end that has begun is stored."""
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _end(
        self, status: SessionStatus, reason: str | None, said: str, details: dict[str, Any]
    ) -> None:
        try:
            await _stopped(self._watching)
            if self._accepting:  # what was accepted until now is dealt with below
                await asyncio.wait(self._accepting)
            if self._turns and self._working is not None and not self._is_lost:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.cancel):
                        await self.cancel_turn()
                        await asyncio.wait([self._working])
            await self._close_services()
            await self._end_process()
            await _stopped(self._working)
            await self._store_end(status, reason, said, details)
        except HoldfastError as error:
            log.error("session %s: its end was not stored: %s", self.session_id, error)
        finally:
            if self._tell_ended is not None:
                self._tell_ended(self)

    async def _close_services(self) -> None:
        try:
            await self._services.close()
        except StoreError as error:  # its commands have ended, and leave the record with the session
            log.warning("session %s: its commands are still on record: %s", self.session_id, error)

    async def _end_process(self) -> None:
        try:
            await self.process.end()
            await asyncio.wait([self._reading], timeout=LAST_WORDS_SECONDS)
            await _stopped(self._reading)
            await self.process.close()
        finally:
            await self._opened.aclose()
        self._wire.lose("The agent was ended.")

    async def _store_end(
        self, status: SessionStatus, reason: str | None, said: str, details: dict[str, Any]
    ) -> None:
        await self._recorder.end_turn()
        # All at once, so that thousands that wait share a few commits: a server has ten seconds to stop.
        await asyncio.gather(*(self._fail_unanswered(turn, reason, said) for turn, _ in self._turns))
        self._turns.clear()
        shown = f"{said}\n{details['stderr']}" if details.get("stderr") else said
        await self._recorder.note(shown, **details)
        ended = SessionPatch(status=status, status_reason=reason)
        await self._stored(lambda: self._store.release(self.session_id, ended))

    async def _fail_unanswered(self, turn: Turn, reason: str | None, said: str) -> None:
        why = said if turn is self._running else NEVER_SENT
        failure = TurnFailure(errors=(why,), stop_reason=reason)
        with suppress(TurnEnded):
            await self._stored(lambda: self._store.fail_turn(self.session_id, turn.id, failure))

    async def _stored(self, write: Callable[[], Awaitable[object]]) -> None:
        await until_stored(write, f"session {self.session_id}")

    # Turns

    async def _work(self) -> None:
        while True:
            while not self._turns:
                if self._is_lost:
                    return
                self._more_turns.clear()
                await self._more_turns.wait()
            turn, text = self._turns[0]
            try:
                with bound(turn=turn.id), span("turn"):
                    await self._run(turn, text)
            except ConnectionLost:
                if not self._pipe_broke.done():
                    self._pipe_broke.set_result(None)
                return  # whoever ends the session also ends its turns
            except HoldfastError as error:
                log.error("session %s: turn %s: %s", self.session_id, turn.id, error)
                await self._fail(turn, str(error))
            self._turns.popleft()
            self._services.asking.forget_granted()
            if self._tell_turn_ended is not None:
                self._tell_turn_ended(self)
            if self._ending is not None:
                return

    async def _run(self, turn: Turn, text: str) -> None:
        self._running = turn
        self._prompted.clear()
        await self._recorder.begin_turn(turn.id, text)
        blocks = [{"type": "text", "text": text}]
        if self._primer is not None:
            blocks.insert(0, {"type": "text", "text": self._primer.text})
        asking = asyncio.create_task(
            self._wire.request("session/prompt", {"sessionId": self._agent_session, "prompt": blocks})
        )
        self._prompted.set()  # whoever waits for it runs after the task has begun, and has written
        try:
            prompted = _understood("session/prompt", await self._patiently(asking), Prompted)
        except (AgentError, AnswerNotUnderstood) as error:
            await self._fail(turn, str(error))
        else:
            self._primer = None
            await self._complete(turn, prompted)
        finally:
            asking.cancel()

    async def _patiently(self, answer: asyncio.Task[msgspec.Raw]) -> msgspec.Raw:
        """The answer, with one warning when there is no sign of life. A late answer is still an answer."""
        began = self._now()
        while not answer.done():
            silent = self._now() - max(began, self._last_sign)
            if self._services.asking.pending:
                await asyncio.wait([answer], timeout=self._limits.silence)
            elif silent < self._limits.silence:
                await asyncio.wait([answer], timeout=self._limits.silence - silent)
            else:
                log.warning("session %s: no answer for %g s", self.session_id, silent)
                await self._recorder.note(
                    f"The agent has not answered for {silent:.0f} seconds. It goes on; its answer will be "
                    "stored when it comes. You can cancel the turn.",
                    warning="timeout",
                )
                break
        return await answer

    async def _complete(self, turn: Turn, prompted: Prompted) -> None:
        text = await self._recorder.end_turn()
        answer = TurnAnswer(
            agent_answer_summary=summary(readable(text)),
            usage=prompted.turn_usage(self._used),
            stop_reason=summary(readable(prompted.stop_reason)),
        )
        self._used = prompted.session_usage or self._used
        await self._stored(lambda: self._store.complete_turn(self.session_id, turn.id, answer))

    async def _fail(self, turn: Turn, why: str) -> None:
        failed(why)
        await self._recorder.end_turn()
        await self._recorder.note(why)
        failure = TurnFailure(errors=(why,), stop_reason="error")
        with suppress(TurnEnded):
            await self._stored(lambda: self._store.fail_turn(self.session_id, turn.id, failure))

    # Watching

    async def _watch(self) -> None:
        signs_of_death: list[asyncio.Future[Any]] = [self.process.exited, self._reading, self._pipe_broke]
        while True:
            if await self._services.asking.waits_for_a_person():
                self._last_sign = self._now()
            idle_left = self._limits.idle - (self._now() - self._last_sign)
            if idle_left <= 0:
                minutes = self._limits.idle / 60
                await self.end(
                    SessionStatus.COMPLETED, "idle_timeout", f"Nothing happened for {minutes:g} minutes."
                )
                return
            timeout = min(self._limits.heartbeat, idle_left)
            await asyncio.wait(signs_of_death, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if self._is_lost:
                if self._ending is None:
                    await self._report_death()
                return
            self.last_heartbeat = self._now()

    @property
    def _is_lost(self) -> bool:
        return self.process.exited.done() or self._reading.done() or self._pipe_broke.done()

    async def _report_death(self) -> None:
        """The agent ended by itself, or broke its pipes; what it still said before is read first."""
        await asyncio.wait([self.process.exited], timeout=LAST_WORDS_SECONDS)
        await asyncio.wait([self._reading], timeout=LAST_WORDS_SECONDS)
        # The last answer of the agent may still be on its way into the store.
        if self._working is not None and self._reading.done():
            self._more_turns.set()
            await asyncio.wait([self._working], timeout=self._limits.cancel)
        code = self.process.exited.result() if self.process.exited.done() else None
        if code == 0 and not self._turns:
            await self.end(SessionStatus.COMPLETED, "agent_exited", "The agent ended by itself.")
            return
        how = "It broke its pipes while it was running." if code is None else _how_it_ended(code)
        log.error("session %s: its agent is lost. %s", self.session_id, how)
        await self.end(
            SessionStatus.ERROR,
            "agent_crashed" if code is not None else "pipe_broken",
            f"The agent is lost. {how}",
            {"exitCode": code, "stderr": self._stderr(), "lastLines": self._wire.last_lines},
        )

    def _stderr(self) -> str:
        """The last lines that the agent wrote to its standard error."""
        tail = self.process.stderr_tail.strip()
        return tail if len(tail) <= REPORTED_STDERR else tail[-REPORTED_STDERR:].partition("\n")[2]

    # Requests of ours

    async def _ask(self, method: str, params: dict[str, Any], kind: type[T]) -> T:
        try:
            async with asyncio.timeout(self._limits.answer):
                answer = await self._wire.request(method, params)
        except TimeoutError:
            raise AgentSilent(method, self._limits.answer) from None
        return _understood(method, answer, kind)

    async def _describe(self, opened: Opened) -> None:
        """Store what the agent offers in its session."""
        offered = {
            "agent": self.capabilities.agent_info,
            "modes": opened.modes,
            "models": opened.models,
            "configOptions": opened.config_options,
        }
        await self._set({name: value for name, value in offered.items() if value is not None})

    async def _set(self, state: dict[str, Any]) -> None:
        await self._store.patch(
            self.session_id, SessionPatch(agent_session_id=self._agent_session, agent_state=state)
        )


def _understood(method: str, answer: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNREADABLE as error:
        raise AnswerNotUnderstood(method, error) from None


async def _stopped(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait until they have ended."""
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"It ended with exit code {code}."
    try:
        return f"It was ended by {signal.Signals(-code).name}."
    except ValueError:
        return f"It was ended by signal {-code}."
