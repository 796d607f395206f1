"""`holdfast run`: one prompt to an agent in the repository you are in, as you watch."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from enum import IntEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from holdfast.agents.permissions import Decision
from holdfast.cli.answer import DOOR, user
from holdfast.cli.finding import of_agent, with_store
from holdfast.cli.options import JsonOption, StoreOption, settings_for
from holdfast.cli.prompts import answer_from_text, introduced, introduced_set
from holdfast.cli.reach import Sessions, reached
from holdfast.cli.signals import run_in_order
from holdfast.cli.transcript import Transcript
from holdfast.client import Refused
from holdfast.config import Settings
from holdfast.errors import Conflict, HoldfastError, InvalidInput, NotFound
from holdfast.model.question import AlreadySettled, Answer, QuestionKind, QuestionSet
from holdfast.model.status import SessionStatus
from holdfast.model.turn import TurnStatus
from holdfast.questions import open_box
from holdfast.questions.shown import settlement
from holdfast.server.shapes import Changes, Session, Turn

LEAVING_SECONDS = 5.0
"""How long a server may take to end an agent whose turn nobody watches any more."""


class ExitCode(IntEnum):
    """What a turn ended with, for scripts. Documented in docs/agents.md."""

    END_TURN = 0
    FAILED = 1
    MAX_TOKENS = 3
    MAX_TURN_REQUESTS = 4
    REFUSAL = 5
    CANCELLED = 130

    @classmethod
    def of(cls, turn: Turn) -> ExitCode:
        if turn.status is not TurnStatus.COMPLETED:
            return cls.FAILED
        return cls.__members__.get((turn.stop_reason or "").upper(), cls.END_TURN)


def run(
    prompt: Annotated[str, typer.Argument(help="What the agent should do; - reads it from standard input.")],
    agent: Annotated[str | None, typer.Option("--agent", help="An agent of `holdfast agents`.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on in a session that has ended.")
    ] = None,
    permissions: Annotated[
        Decision | None,
        typer.Option(help="What becomes of requests that no rule decides, this time.", show_default="ask"),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one prompt in the current repository, and show what the agent does.

    Ctrl-C cancels the turn, a second time ends the agent, and a third time does not wait for that.
    The session is kept.
    """
    settings = settings_for(store)
    if session is None:
        errand = Errand(settings, _here(), permissions, as_json=as_json)
        raise typer.Exit(errand.run(prompt, errand.creates(agent)))
    session_id, repository = with_store(settings, lambda opened: of_agent(opened, session, agent))
    errand = Errand(settings, repository, permissions, as_json=as_json)
    raise typer.Exit(errand.run(prompt, errand.resumes(session_id)))


Opening = Callable[[Sessions], Awaitable[Session]]
"""How an errand comes to its session."""


class Errand:
    """One prompt to one agent in a repository, which is ended afterwards."""

    def __init__(
        self, settings: Settings, repository: Path, permissions: Decision | None = None, *, as_json: bool
    ) -> None:
        self._settings = settings
        self._repository = repository
        self._permissions = permissions
        self._as_json = as_json
        self._box = open_box(settings.questions)
        self._notes = Console(stderr=True, highlight=False)
        self._transcript = Transcript(Console(highlight=False), prompts=False)
        self._waits = False
        """Whether the server does not answer, and the person was told."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._at_terminal = asyncio.Lock()

    def run(self, prompt: str, opening: Opening) -> ExitCode:
        text = sys.stdin.read() if prompt == "-" else prompt
        if not text.strip():
            raise InvalidInput("The prompt is empty; say what the agent should do.")
        return run_in_order(self._run(text, opening))

    def creates(self, agent: str | None) -> Opening:
        return lambda sessions: sessions.create(self._repository, agent)

    def resumes(self, session_id: str) -> Opening:
        return lambda sessions: sessions.resume(session_id)

    def forks(self, session_id: str) -> Opening:
        return lambda sessions: sessions.fork(session_id)

    async def _run(self, text: str, opening: Opening) -> ExitCode:
        async with reached(self._settings, self._repository, self._permissions) as sessions:
            with self._notes.status("starting the agent"):
                session, turn = await _begun(sessions, opening, text)
            try:
                ended = await self._watched(sessions, session, turn)
            except _Left:
                self._note("Whether the agent has ended is not known.", "yellow")
                self._say_how_to_go_on(session)
                return ExitCode.CANCELLED
            with self._notes.status("ending the agent"), suppress(Conflict, Refused):
                await sessions.complete(session.id)  # unless it has ended by itself
            self._report(await sessions.session(session.id), ended)
        return ExitCode.of(ended)

    async def _watched(self, sessions: Sessions, session: Session, turn: Turn) -> Turn:
        """The turn that has ended. When we go before that, for whatever reason, its session is cancelled: a
        server would keep the agent running for nobody."""
        try:
            with _interrupts(sessions, session.id):
                return await self._watch(sessions, session, turn)
        except BaseException:
            with suppress(HoldfastError, TimeoutError):
                async with asyncio.timeout(LEAVING_SECONDS):
                    await sessions.cancel(session.id)
            raise

    async def _watch(self, sessions: Sessions, session: Session, turn: Turn) -> Turn:
        """Show what happens until the turn has ended."""
        listening = asyncio.create_task(self._put_questions(session.id))
        try:
            async with aclosing(sessions.follow(session.id, session.rev, self._say_it_waits)) as items:
                async for changes in items:
                    self._waits = False
                    self._show(changes)
                    for changed in changes.turns:
                        if changed.id == turn.id and changed.status is not TurnStatus.PENDING:
                            return changed
            raise NotFound("The session is gone, and its turn with it.")
        finally:
            for task in (listening, *self._asking.values()):
                task.cancel()
            await asyncio.gather(listening, *self._asking.values(), return_exceptions=True)
            self._transcript.end_line()

    def _say_it_waits(self) -> None:
        if not self._waits:
            self._waits = True
            self._transcript.end_line()
            self._note("The server does not answer, waiting… (Ctrl-C gives up.)", "yellow")

    async def _put_questions(self, session_id: str) -> None:
        """Put to the person here what is asked in the session, whichever way the agent asks."""
        async with aclosing(self._box.changes()) as items:
            async for changed in items:
                for set_id in sorted(changed - self._asking.keys()):
                    with suppress(HoldfastError):  # it is gone, or another program left it damaged
                        question_set = await self._box.get(set_id)
                        if question_set.session_id == session_id and not question_set.is_settled:
                            self._asking[set_id] = asyncio.create_task(self._put(question_set))

    def _show(self, changes: Changes) -> None:
        if self._as_json:
            typer.echo(msgspec.json.encode(changes).decode())
        else:
            self._transcript.show(changes)

    async def _put(self, question_set: QuestionSet) -> None:
        """Let the person here answer, unless somebody answers elsewhere first."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()) or self._as_json:
            self._note(
                f"The agent asks. To answer: holdfast answer {question_set.short_id}, or holdfast inbox"
            )
            return
        async with self._at_terminal:  # one after the other: there is one person, with one keyboard
            if not (await self._box.get(question_set.id)).is_settled:
                await self._put_here(question_set)

    async def _put_here(self, question_set: QuestionSet) -> None:
        self._transcript.end_line()
        typing = asyncio.create_task(_typed(question_set))
        elsewhere = asyncio.create_task(self._box.until_settled(question_set.id))
        try:
            await asyncio.wait([typing, elsewhere], return_when=asyncio.FIRST_COMPLETED)
            if typing.done():
                await self._answer(question_set, typing.result())
            else:
                self._say_who_settled(elsewhere.result())
        finally:
            for task in (typing, elsewhere):
                task.cancel()
            await asyncio.wait([typing, elsewhere])

    async def _answer(self, question_set: QuestionSet, answers: list[Answer]) -> None:
        try:
            if answers:
                await self._box.answer(question_set.id, answers, by=user(), door=DOOR)
            else:
                await self._box.reject(question_set.id, by=user(), door=DOOR)
        except AlreadySettled as already:
            self._say_who_settled(already.first)

    def _say_who_settled(self, settled: QuestionSet) -> None:
        self._notes.print()  # after the prompt, at which nobody types any more
        self._note(settlement(settled), "dim")

    def _report(self, session: Session, turn: Turn) -> None:
        if self._as_json:
            return
        for error in turn.errors:
            self._note(f"holdfast: {error}", "red")
        if turn.stop_reason != "end_turn" and not turn.errors:
            self._note(f"The turn ended: {turn.stop_reason}.", "yellow")
        self._say_how_to_go_on(session)

    def _say_how_to_go_on(self, session: Session) -> None:
        go_on = "fork" if session.status is SessionStatus.ERROR else "resume"
        self._note(f"It is kept. To go on: holdfast sessions {go_on} {session.id} PROMPT", "dim")

    def _note(self, text: str, style: str = "") -> None:
        self._notes.print(Text(text, style), soft_wrap=True)


async def _begun(sessions: Sessions, opening: Opening, text: str) -> tuple[Session, Turn]:
    """The session, and the turn in it. Interrupted meanwhile, it is ended as soon as it is there: a server
    would keep its agent running for nobody."""
    opened = asyncio.ensure_future(opening(sessions))
    try:
        session = await asyncio.shield(opened)
        return session, await sessions.prompt(session.id, text)
    except asyncio.CancelledError:
        await sessions.cancel((await opened).id)
        raise


class _Left(Exception):
    """The person does not wait for the turn's end any more."""


class _interrupts:  # noqa: N801  # used as a function
    """While inside, the first Ctrl-C cancels the turn, and the next one the session. When that fails, or
    with one more, the work inside is left."""

    def __init__(self, sessions: Sessions, session_id: str) -> None:
        self._calls = [lambda: sessions.cancel_turn(session_id), lambda: sessions.cancel(session_id)]
        self._running: list[asyncio.Task[Session]] = []
        self._inside = asyncio.current_task()
        self._left = False

    def __enter__(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        for task in self._running:
            task.cancel()
        if self._left and self._inside is not None:
            self._inside.uncancel()
            if kind is asyncio.CancelledError:
                raise _Left

    def _interrupt(self) -> None:
        if not self._calls:
            self._leave()
            return
        calling = asyncio.ensure_future(self._calls.pop(0)())
        calling.add_done_callback(self._called)
        self._running.append(calling)

    def _called(self, calling: asyncio.Task[Session]) -> None:
        failure = None if calling.cancelled() else calling.exception()
        if failure is not None and not isinstance(failure, Conflict | Refused):  # which say that it has ended
            self._leave()

    def _leave(self) -> None:
        if not self._left and self._inside is not None:
            self._left = True
            self._inside.cancel()


def _here() -> Path:
    """The root of the repository that the working directory is in."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (directory / ".git").exists():
            return directory
    raise InvalidInput(f"{here} is not in a git repository; run this in one, or make one with: git init")


async def _typed(question_set: QuestionSet) -> list[Answer]:
    """What the person types; an empty list when they pass over everything."""
    typer.echo(introduced_set(question_set), err=True)
    answers = []
    for index, question in enumerate(question_set.questions):
        typer.echo(introduced(index, question, question_set.kind), err=True)
        while True:
            # What was typed before the question was there is no answer to it.
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            typer.echo("  > ", nl=False, err=True)
            try:
                answer = answer_from_text(index, question, await _line(), question_set.kind)
            except InvalidInput as error:
                typer.echo(f"   {error}", err=True)
                continue
            if answer is not None:
                answers.append(answer)
            elif question_set.kind is QuestionKind.PERMISSION:
                typer.echo("   Nothing is decided yet.", err=True)
                continue
            break
    return answers


async def _line() -> str:
    """A line from the terminal, waited for without a thread, so that the wait can be given up."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    ready: asyncio.Future[None] = loop.create_future()

    def note_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, note_ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 65536).decode(errors="replace")
