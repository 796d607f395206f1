"""A session as a document: Markdown to read, JSON for programs, JSON lines for long ones."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TextIO

import msgspec

from holdfast.model.content import (
    PlanContent,
    QuestionContent,
    ResourceContent,
    TextContent,
    ThoughtContent,
    ToolContent,
)
from holdfast.model.ids import SessionId
from holdfast.model.message import Message, Role
from holdfast.model.session import Session
from holdfast.model.times import iso
from holdfast.questions.shown import decision
from holdfast.server import shapes
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

PAGE = 500

SPEAKERS = {Role.USER: "You", Role.SYSTEM: "Holdfast", Role.TOOL: "Tool"}


class Format(StrEnum):
    MARKDOWN = "markdown"
    JSON = "json"
    JSONL = "jsonl"


async def exported(store: Store, session_id: SessionId, form: Format) -> AsyncIterator[str]:
    """The session in pieces, so that none is too long for the memory."""
    session = await store.get_session(session_id)
    about = msgspec.json.encode(shapes.Session.of(session)).decode()
    match form:
        case Format.JSON:
            yield f'{about[:-1]},"messages":'
            async for piece in store.history_json(session_id):
                yield piece.decode()
            yield "}\n"
        case Format.JSONL:
            yield f"{about}\n"
            async for message in _messages(store, session_id):
                yield msgspec.json.encode(shapes.Message.of(message)).decode() + "\n"
        case Format.MARKDOWN:
            yield _heading(session)
            async for message in _messages(store, session_id):
                yield _section(session, message)


@contextmanager
def atomically(path: Path) -> Iterator[TextIO]:
    """A file that replaces `path` when it is complete, and not before."""
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            yield file  # type: ignore[misc]
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


async def _messages(store: Store, session_id: SessionId) -> AsyncIterator[Message]:
    after = 0
    while page := await store.get_history(session_id, HistoryOptions(after=after, limit=PAGE)):
        for message in page:
            yield message
        after = page.messages[-1].seq


def _heading(session: Session) -> str:
    facts = {
        "Session": session.id,
        "Agent": session.agent,
        "Status": f"{session.status} ({session.status_reason})" if session.status_reason else session.status,
        "Created": iso(session.created_at),
        "Tokens": f"{session.token_usage.input:,} in, {session.token_usage.output:,} out",
    }
    return f"# {session.name}\n\n" + "".join(f"- {name}: {value}\n" for name, value in facts.items())


def _section(session: Session, message: Message) -> str:
    speaker = SPEAKERS.get(message.role, session.agent)
    moment = f" · {iso(message.timestamp)}" if message.timestamp else ""
    return f"\n## {speaker}{moment}\n\n{_body(message)}\n"


def _body(message: Message) -> str:
    match message.content:
        case TextContent(text=text):
            return text
        case ThoughtContent(text=text):
            return "".join(f"> {line}\n" for line in text.splitlines())
        case PlanContent(steps=steps):
            return "".join(_step(step) for step in steps)
        case ResourceContent(uri=uri, name=name):
            return f"[{name or uri}]({uri})"
        case ToolContent() as tool:
            return f"{tool.title or tool.tool}: {tool.status or 'completed'}\n\n{_fenced(tool)}"
        case QuestionContent() as asked:
            moment = f" at {asked.answered_at}" if asked.answered_at else ""
            became = f"{decision(asked) or 'no answer'}{moment}"
            return f"Asked ({asked.kind}): {became}\n\n{_fenced(asked.questions)}"
        case other:
            return _fenced(other)


def _step(step: object) -> str:
    if not isinstance(step, dict):
        return f"- {step}\n"
    return f"- [{'x' if step.get('status') == 'completed' else ' '}] {step.get('content')}\n"


def _fenced(content: object) -> str:
    """JSON in a code block whose fence is longer than any inside."""
    raw = getattr(content, "json", None)
    text = msgspec.json.format(raw if raw is not None else msgspec.json.encode(content), indent=2).decode()
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}json\n{text}\n{fence}"
