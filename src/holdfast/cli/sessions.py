"""`holdfast sessions`: what was said in them, and what becomes of them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli import archive, compaction, migrate
from holdfast.cli.finding import SHORT, SessionArgument, of_agent, resolved, with_store
from holdfast.cli.options import JsonOption, StoreOption, settings_for
from holdfast.cli.reach import reached
from holdfast.cli.run import Errand
from holdfast.cli.transcript import Transcript
from holdfast.model.session import Session
from holdfast.model.status import LIVE, SessionStatus
from holdfast.questions.shown import age, harmless, one_line
from holdfast.server.export import Format, atomically, exported
from holdfast.server.shapes import Changes, Message, SessionPage
from holdfast.store.options import HistoryOptions, Match, SessionFilter
from holdfast.store.options import SessionPage as Page
from holdfast.store.store import Store

app = typer.Typer(help="List, read, follow, resume, fork, compact and export sessions.", no_args_is_help=True)

PromptArgument = Annotated[
    str, typer.Argument(help="What the agent should do next; - reads it from standard input.")
]


@app.command("list")
def list_(
    status: Annotated[
        list[SessionStatus] | None, typer.Option(help="Only those in this status; may be repeated.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only those of this agent.")] = None,
    search: Annotated[
        str | None, typer.Option(help="Only those with this in the title, or with these words in a message.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions, the one that changed last first."""
    wanted = SessionFilter(
        status=set(status) if status else None, agent_id=agent, text=search or None, limit=limit
    )
    page = with_store(settings_for(store), lambda opened: _listed(opened, wanted))
    if as_json:
        typer.echo(msgspec.json.encode(SessionPage.of(page)).decode())
        return
    if not page.sessions:
        empty = 'There is no session here yet. To begin one: holdfast run --agent demo "hello"'
        typer.echo("No session fits." if status or agent or search else empty)
        return
    now = datetime.now(UTC)
    table = Table(box=None, pad_edge=False)
    for heading in ("SESSION", "AGENT", "STATUS", "CHANGED", "MESSAGES", "TITLE"):
        table.add_column(heading, no_wrap=heading != "TITLE")
    for each in page.sessions:
        state = f"{each.status} ({each.status_reason})" if each.status_reason else each.status.value
        title = Text(one_line(each.title or _chat(each)))
        if match := page.matches.get(each.id):
            title.append("\n" if title else "").append_text(_snippet(match))
        table.add_row(
            each.id[-SHORT:], each.agent, state, age(each.updated_at, now), str(each.message_count), title
        )
    Console().print(table, markup=False)
    if page.total > len(page.sessions):
        typer.echo(f"{len(page.sessions)} of {page.total}; --limit shows more.")
    if not page.is_all:
        typer.echo("The newest that were found; there are more. Give more words to find older ones.")
    if page.unread:
        typer.echo(f"{page.unread:,} messages were not looked at; the log says why.")


@app.command()
def show(session: SessionArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show what was said and done in a session."""

    async def read(opened: Store) -> None:
        session_id = await resolved(opened, session)
        if as_json:
            async for piece in exported(opened, session_id, Format.JSON):
                typer.echo(piece, nl=False)
            return
        transcript = Transcript(Console(highlight=False))
        after = 0
        while page := await opened.get_history(session_id, HistoryOptions(after=after, limit=500)):
            transcript.show_all(map(Message.of, page))
            after = page.messages[-1].seq

    with_store(settings_for(store), read)


@app.command()
def tail(
    session: SessionArgument,
    lines: Annotated[int, typer.Option("--messages", "-n", help="Begin with so many messages.", min=0)] = 10,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a session as it goes on, until it ends or you press Ctrl-C."""

    async def follow(opened: Store) -> None:
        session_id = await resolved(opened, session)
        transcript = Transcript(Console(highlight=False))
        current = await opened.get_session(session_id)
        if lines and not as_json:
            latest = await opened.get_history(session_id, HistoryOptions(limit=lines))
            for message in latest:
                transcript.show_message(Message.of(message))
        if current.status not in LIVE:
            transcript.end_line()
            return
        async with aclosing(opened.follow(session_id, current.rev)) as items:
            async for changes in items:
                if as_json:
                    typer.echo(msgspec.json.encode(Changes.of(changes)).decode())
                else:
                    transcript.show(Changes.of(changes))
                if changes.session.status not in LIVE:
                    break
        transcript.end_line()

    with suppress(KeyboardInterrupt):
        with_store(settings_for(store), follow)


@app.command()
def resume(
    session: SessionArgument, prompt: PromptArgument, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Start the agent of a session again in its repository, and give it a prompt."""
    settings = settings_for(store)
    session_id, repository = with_store(settings, lambda opened: of_agent(opened, session))
    errand = Errand(settings, repository, as_json=as_json)
    raise typer.Exit(errand.run(prompt, errand.resumes(session_id)))


@app.command()
def fork(
    session: SessionArgument, prompt: PromptArgument, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Begin a new session with all that was said in another, also in one that ended in an error."""
    settings = settings_for(store)
    session_id, repository = with_store(settings, lambda opened: of_agent(opened, session))
    errand = Errand(settings, repository, as_json=as_json)
    raise typer.Exit(errand.run(prompt, errand.forks(session_id)))


@app.command()
def cancel(session: SessionArgument, store: StoreOption = None) -> None:
    """End a session."""
    settings = settings_for(store)

    session_id = with_store(settings, lambda opened: resolved(opened, session))

    async def end() -> None:
        async with reached(settings, settings.workspace.root) as sessions:
            await sessions.cancel(session_id)

    asyncio.run(end())
    typer.echo(f"Session {session_id} is cancelled.")


@app.command()
def export(
    session: SessionArgument,
    to: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; standard output if none.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.MARKDOWN,
    store: StoreOption = None,
) -> None:
    """Write a whole session to a file, every word of it."""

    async def write(opened: Store) -> None:
        pieces = exported(opened, await resolved(opened, session), form)
        with atomically(to) if to else nullcontext(sys.stdout) as file:
            async for piece in pieces:
                file.write(piece)

    with_store(settings_for(store), write)
    if to:
        typer.echo(f"{to} holds {to.stat().st_size:,} bytes.", err=True)


async def _listed(opened: Store, wanted: SessionFilter) -> Page:
    """A page; of a search one that has looked at everything, however long it takes the first time."""
    page = await opened.list(wanted)
    with Console(stderr=True).status("") as status:
        while unread := page.unread:
            status.update(f"Reading what was said, once: {unread:,} messages to go")
            page = await opened.list(wanted)
            if page.unread >= unread:
                break  # their words cannot be kept, as on a full disk
    return page


def _snippet(match: Match) -> Text:
    return Text.assemble(*((harmless(piece.text), "bold" if piece.hit else "dim") for piece in match.snippet))


app.command()(compaction.compact)
app.command()(compaction.compactions)
app.command()(compaction.view)
app.command()(compaction.expand)
app.command()(compaction.undo)
app.command()(migrate.migrate)
app.command()(archive.archive)


def _chat(session: Session) -> str:
    """Which chat a session is, by its key; nothing of one whose key is only its id."""
    return "" if session.key.peer_id == session.id else session.key_text
