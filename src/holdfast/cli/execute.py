"""`holdfast execute`, `replay` and `contexts`: instructions to a model, and what they were made of.

This is the thin client: it reads the files it is told of, sends them along, and prints the answer. A
running server executes; without one, this process does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Container, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from holdfast import git
from holdfast.blobs import open_blobs
from holdfast.cli.finding import resolved, with_store
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.client import Client, Refused
from holdfast.compaction.tokens import default_counter
from holdfast.config import Settings
from holdfast.errors import InvalidInput
from holdfast.execution.answer import AnswerKind, ExecuteResponse
from holdfast.execution.applying import plan
from holdfast.execution.demo import DemoModel
from holdfast.execution.errors import NoCredentials, NoModel
from holdfast.execution.events import ExecutionEvent, Stage, StageReached
from holdfast.execution.input import normalized
from holdfast.execution.journal import recover
from holdfast.execution.opening import context_source, open_orchestrator
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.replay import Replay
from holdfast.execution.replay import replay as replayed
from holdfast.model.ids import SessionId, TurnId
from holdfast.questions.shown import harmless
from holdfast.retrieval import open_retrieval
from holdfast.server.shapes import Contexts
from holdfast.store import open_store
from holdfast.store.store import Store


def execute(
    instruction: Annotated[str, typer.Argument(help="What is wanted; - reads it from standard input.")],
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="A file to send along; may be repeated.")
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Send along the files that git says are changed.")
    ] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on in a session.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Who answers: see contexts.")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="What the work is about.")
    ] = None,
    repo: Annotated[
        str | None, typer.Option("--repo", help="Where to look in the index.", show_default="this repository")
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Ask for changes to files.")] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Show the changes and make them; implies --edit.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the changes without asking.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="A repeated call with the same key gives the same turn.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a model an instruction, and print its answer as it comes.

    What the index knows about it is sent along, and listed as sources.
    """
    settings, root = settings_for(store), _root()
    text = sys.stdin.read() if instruction == "-" else instruction
    touched = git.changed(root) if file or changed else []
    paths = [*(file or []), *(filter(_is_text, touched) if changed else [])]
    request: dict[str, Any] = {
        "clientType": "cli",
        "instruction": text,
        "agentContextId": context,
        "conversationContextId": conversation,
        "sessionId": with_store(settings, lambda opened: resolved(opened, session)) if session else None,
        "mode": "edit" if edit or apply else "ask",
        "repo": repo or root.name or None,
        "activeFiles": _sent(paths, root, {path.resolve() for path in touched}),
    }
    given = {name: value for name, value in request.items() if value is not None}
    answer = asyncio.run(_execute(settings, given, key, as_json=as_json))
    if apply and answer.file_bundle is not None:
        _apply(answer, root, settings.journals, ask=not yes)
    raise typer.Exit(0 if answer.kind is AnswerKind.ANSWER else 1)


def replay(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The id of a turn.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a turn's request again from what it refers to, and say whether it is the one that was sent."""
    settings = settings_for(store)
    blobs = open_blobs(settings.blobs_url)

    async def made(opened: Store) -> Replay:
        return await replayed(opened, blobs, await opened.session_of_turn(TurnId(turn)), TurnId(turn))

    result = with_store(settings, made)
    if as_json:
        typer.echo(msgspec.json.encode(result).decode())
    elif result.identical:
        typer.echo(
            f"identical: made again, the request has the hash of the one that was sent, {result.sent_hash}"
        )
    else:
        why = result.problem or f"made again, it has the hash {result.remade_hash}"
        typer.echo(f"not identical: the request that was sent has the hash {result.sent_hash}; {why}")
    raise typer.Exit(0 if result.identical else 1)


def contexts(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List who can answer instructions, and what the work can be about."""
    settings = settings_for(store)
    found = Contexts.of(with_store(settings, context_source(settings).of))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    table = Table(box=None, pad_edge=False)
    for title in ("NAME", "KIND", "MODEL", "REPOSITORY"):
        table.add_column(title)
    for kind, several in (("agent", found.agents), ("conversation", found.conversations)):
        for each in several:
            model = each.model or ("not set: HOLDFAST_MODEL" if kind == "agent" else "")
            table.add_row(each.name, kind, model, each.repository or "")
    Console(highlight=False).print(table)


def demo_model(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any.")] = 4748,
) -> None:
    """A model that answers by rule, on loopback and without an account: to try `holdfast execute` with."""
    try:
        model = DemoModel(port)
    except OSError as error:
        raise InvalidInput(
            f"Cannot listen on port {port}: {error.strerror}. Give another one with --port."
        ) from None
    with model:
        typer.echo("A model that answers by rule. To ask it, in another terminal:\n")
        typer.echo(f"  export OPENAI_BASE_URL={model.url} OPENAI_API_KEY=none HOLDFAST_MODEL=demo")
        typer.echo('  holdfast index . && holdfast execute "where is the path of a file checked?"\n')
        typer.echo("A server executes what it is asked with its own variables: one that runs is stopped, and")
        typer.echo("started again with these.\n")
        with suppress(KeyboardInterrupt):
            model.wait()


SETTLING_SECONDS = 60.0
"""How long this process stays after the answer for the session to be compacted, if that is due."""


class Executing(Protocol):
    def execute(
        self, request: dict[str, Any], *, key: str | None
    ) -> AsyncGenerator[ExecutionEvent | ExecuteResponse, None]: ...


class OwnExecution:
    """Executes in this process."""

    def __init__(self, orchestrator: Orchestrator, store: Store) -> None:
        self._orchestrator = orchestrator
        self._store = store
        self._answered: SessionId | None = None

    async def execute(
        self, request: dict[str, Any], *, key: str | None
    ) -> AsyncGenerator[ExecutionEvent | ExecuteResponse, None]:
        told: asyncio.Queue[ExecutionEvent | None] = asyncio.Queue()
        asked = normalized(request)
        _, running = await self._orchestrator.start(self._store, asked, key=key, tell=told.put_nowait)
        running.add_done_callback(lambda _: told.put_nowait(None))
        while (event := await told.get()) is not None:
            yield event
        answer = await running
        self._answered = answer.session_id
        yield answer

    async def settled(self) -> None:
        """Stay until what the answer called for is done: there is no server that would go on."""
        if self._answered is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLING_SECONDS):
                    await self._orchestrator.settled(self._answered)


@asynccontextmanager
async def _reached(settings: Settings) -> AsyncIterator[Executing]:
    if client := await Client.find(settings.data_dir, settings.store_url):
        async with client:
            try:
                yield client
            except Refused as error:
                if error.problem.code not in (NoModel.code, NoCredentials.code):
                    raise
                raise InvalidInput(
                    f"{error} The server at {client.url} executes it, with what was set when it was started: "
                    "set them there, and start it again."
                ) from None
        return
    blobs = open_blobs(settings.blobs_url)
    counter = default_counter()
    async with open_store(settings.store_url, durability=settings.durability, counter=counter) as store:
        retrieval = await open_retrieval(settings)
        try:
            async with open_orchestrator(settings, store, blobs, retrieval) as orchestrator:
                execution = OwnExecution(orchestrator, store)
                yield execution
                await execution.settled()
        finally:
            await retrieval.close()
    say_store(settings)


async def _execute(
    settings: Settings, request: dict[str, Any], key: str | None, *, as_json: bool
) -> ExecuteResponse:
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    answer: ExecuteResponse | None = None
    async with _reached(settings) as executing:
        with notes.status("looking") as status:
            async with aclosing(executing.execute(request, key=key)) as events:
                async for event in events:
                    if isinstance(event, ExecuteResponse):
                        answer = event
                    elif isinstance(event, StageReached):
                        status.update(_STAGES.get(event.stage, status.status))
                    elif not as_json:
                        status.stop()
                        sys.stdout.write(harmless(event.text))
                        sys.stdout.flush()
        assert answer is not None
        if as_json:
            typer.echo(msgspec.json.encode(answer).decode())
        else:
            _print_rest(answer, notes)
        sys.stdout.flush()
    return answer


_STAGES = {
    Stage.RAG_STARTED: "looking in the index",
    Stage.LLM_STARTED: "waiting for the model",
    Stage.CHAIN_REBUILT: "telling the model again what was said before",
}


def _print_rest(answer: ExecuteResponse, notes: Console) -> None:
    """What belongs to an answer besides its text."""
    if answer.text and not answer.text.endswith("\n"):
        typer.echo()
    for warning in answer.warnings:
        notes.print(f"warning: {warning}", style="yellow", markup=False)
    if answer.kind is AnswerKind.ERROR:
        notes.print(f"holdfast: {answer.error_message}", style="red", markup=False)
    elif answer.sources:
        notes.print("\nSources", style="bold")
        for source in answer.sources:
            place = f"{source.path}:{source.start_line}-{source.end_line}"
            notes.print(f"  {place}  {source.content_hash[:12]}", markup=False)
    notes.print(f"session {answer.session_id}, turn {answer.turn_id}", style="dim")


def _root() -> Path:
    """The repository around the working directory, or that directory."""
    here = Path.cwd()
    top = git.said(here, "rev-parse", "--show-toplevel")
    return Path(top) if top else here


def _sent(paths: Iterable[Path], root: Path, touched: Container[Path]) -> list[dict[str, Any]]:
    """Files as they are sent along: with their content, which the server may not be able to read."""
    sent: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in paths:
        real = path.resolve()
        inside = real.is_relative_to(root.resolve())
        name = (real.relative_to(root.resolve()) if inside else Path(path.name)).as_posix()
        if sent.setdefault(name, (real, {}))[0] != real:
            raise InvalidInput(f"{path} and {sent[name][0]} would both be sent as {name}; send one of them.")
        sent[name] = (real, {"path": name, "content": _text(path), "isTouched": real in touched})
    return [file for _, file in sent.values()]


def _is_text(path: Path) -> bool:
    """Whether a changed file can be sent; if not, the person is told."""
    try:
        _text(path)
    except InvalidInput as error:
        typer.echo(f"holdfast: {error} It is left out.", err=True)
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not text and cannot be sent.") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None


def _apply(answer: ExecuteResponse, root: Path, journals: Path, *, ask: bool) -> None:
    """Show what the answer changes, and change it."""
    assert answer.file_bundle is not None
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    for recovered in recover(journals):
        notes.print(str(recovered), style="yellow", markup=False)
    planned = plan(answer.file_bundle, root)
    for warning in planned.warnings:
        notes.print(f"warning: {warning}", style="yellow", markup=False)
    if not planned.changes:
        notes.print("Nothing is left to change.")
        return
    notes.print(Syntax(planned.diff, "diff", background_color="default"))
    number = len(planned.changes)
    files = "1 file" if number == 1 else f"{number} files"
    if ask and not typer.confirm(f"Change {files} in {root}?", err=True):
        notes.print("Nothing was changed.")
        return
    planned.apply(journals)
    notes.print(f"Changed {files}.")
