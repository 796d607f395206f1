"""A session's messages in a terminal: the text as it is said, and a line for everything else."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.text import Text

from holdfast.model.content import (
    CompactionContent,
    Content,
    JsonContent,
    PlanContent,
    QuestionContent,
    ResourceContent,
    TextContent,
    ThoughtContent,
    ToolContent,
    decode_content,
)
from holdfast.model.message import Role
from holdfast.questions.shown import decision, harmless, one_line
from holdfast.server.shapes import Changes, Message

MARKS = {"pending": "·", "in_progress": "…", "completed": "✓", "failed": "✗", "interrupted": "✗"}
STEPS = {"completed": "☒", "in_progress": "◐"}


def content_of(message: Message) -> Content:
    """A message's content, typed."""
    return decode_content(msgspec.json.encode(message.content))


class Transcript:
    """What was printed of each message is known, so a message that grows is printed on."""

    def __init__(self, console: Console, *, prompts: bool = True) -> None:
        self._console = console
        self._prompts = prompts
        self._printed: dict[str, int] = {}
        self._revisions: dict[str, int] = {}
        self._styles: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._plan: list[str] = []
        self._mid_line: str | None = None

    def show(self, changes: Changes) -> None:
        for message in sorted(changes.messages, key=lambda message: message.seq):
            self.show_message(message)
            self._revisions[message.id] = message.rev
        for delta in changes.deltas:
            if delta.rev > self._revisions.get(delta.message_id, 0):
                self._revisions[delta.message_id] = delta.rev
                self._say_on(delta.message_id, delta.text)

    def show_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.show_message(message)
        self.end_line()

    def show_message(self, message: Message) -> None:
        match content_of(message):
            case TextContent(text=text) as said if message.role is Role.AGENT:
                self._say(message.id, text, "", final=not said.open)
            case ThoughtContent(text=text) as thought:
                self._say(message.id, text, "dim italic", final=not thought.open)
            case TextContent(text=text) if message.role is Role.USER:
                if self._prompts:
                    self._line(message.id, f"› {harmless(text)}", "bold")
            case TextContent(text=text):
                self._line(message.id, harmless(text), "yellow")
            case ToolContent() as tool:
                mark = MARKS.get(tool.status or "completed", "?")
                self._line(message.id, f"{mark} {one_line(tool.title or tool.tool)}", "cyan")
            case PlanContent(steps=steps):
                self._show_plan(message.id, [_step(step) for step in steps])
            case QuestionContent(kind=kind, question_set_id=set_id) as asked:
                became = decision(asked)
                self._line(
                    message.id,
                    f"? asked ({one_line(kind)} {one_line(set_id[:8])}){became and f': {became}'}",
                    "magenta",
                )
            case ResourceContent(uri=uri):
                self._line(message.id, f"↗ {one_line(uri)}", "cyan")
            case CompactionContent(first_seq=first, last_seq=last, summary=summary):
                folded = f"— messages {first} to {last} are folded —\n{harmless(summary)}"
                self._line(message.id, folded, "dim")
            case JsonContent(json=raw):
                self._line(message.id, one_line(raw.decode())[:200], "dim")

    def _show_plan(self, message_id: str, plan: list[str]) -> None:
        """The steps that are new or have changed since the plan before."""
        changed = [step for step in plan if step not in self._plan]
        self._plan = plan
        if changed:
            self._line(message_id, "\n".join(changed), "blue")

    def end_line(self) -> None:
        if self._mid_line is not None:
            self._console.print()
            self._mid_line = None

    def _say(self, message_id: str, text: str, style: str, *, final: bool) -> None:
        said = text[self._printed.get(message_id, 0) :]
        self._styles[message_id] = style
        self._say_on(message_id, said)
        if final and self._mid_line == message_id:
            self.end_line()

    def _say_on(self, message_id: str, text: str) -> None:
        if not text:
            return
        if self._mid_line != message_id:
            self.end_line()
        self._printed[message_id] = self._printed.get(message_id, 0) + len(text)
        self._console.print(
            Text(harmless(text), style=self._styles.get(message_id, "")), end="", soft_wrap=True
        )
        self._mid_line = message_id

    def _line(self, message_id: str, text: str, style: str) -> None:
        if self._shown.get(message_id) == text:
            return
        self._shown[message_id] = text
        self.end_line()
        self._console.print(Text(text, style=style), soft_wrap=True)


def _step(step: object) -> str:
    if not isinstance(step, dict):
        return f"☐ {one_line(str(step))}"
    return f"{STEPS.get(str(step.get('status')), '☐')} {one_line(str(step.get('content', '')))}"
