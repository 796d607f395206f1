"""What the inbox says by itself: that nothing waits, that something cannot be read or answered any more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from holdfast.model.question import QuestionSet, QuestionSetId
from holdfast.questions.format import answers_text
from holdfast.questions.shown import asker, shown_title, subject
from holdfast.tui.dialogs import reply_lines
from holdfast.tui.replies import Draft
from holdfast.tui.text import plain, tilde
from holdfast.tui.theme import MUTED


class Empty(Vertical):
    """Nothing waits: how a question gets here."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def compose(self) -> ComposeResult:
        yield Static("No questions are waiting.", classes="title")
        yield Static(
            Content.assemble(
                "Agents ask through Holdfast’s MCP server:\n",
                ("  holdfast mcp", "$text-primary"),
                "\n\nTo see one now, ask yourself in another terminal:\n",
                ('  holdfast ask --simple "Ship it?" yes no', "$text-primary"),
                "\n\nNew questions appear here by themselves.\n",
                (f"Watching {tilde(self._directory)}", MUTED),
            )
        )


class Problem(Static):
    """What cannot be read, in sentences; nothing when everything can."""

    def __init__(self, directory: Path) -> None:
        super().__init__(markup=False)
        self.display = False
        self._directory = directory

    def show(self, trouble: str | None, unreadable: Mapping[QuestionSetId, str]) -> None:
        """`trouble` is with the directory, and each of the unreadable sets has a reason."""
        sentences = (
            [] if trouble is None else [f"The questions in {self._directory} cannot be read: {trouble}."]
        )
        if unreadable:
            set_id, reason = next(iter(unreadable.items()))
            others = f" Nor can {len(unreadable) - 1} more." if len(unreadable) > 1 else ""
            sentences.append(f"The set {set_id[:8]} cannot be read: {reason}.{others}")
        self.update("\n".join(sentences))
        self.display = bool(sentences)


class Withdrawn(VerticalScroll):
    """The set that was open has been settled elsewhere. This stands in its place until the person goes
    back to the queue, so that no key or click that was meant for the set does anything else."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Back to the queue")]

    class Closed(Message):
        def __init__(self, question_set: QuestionSet) -> None:
            super().__init__()
            self.question_set = question_set

    def __init__(
        self, question_set: QuestionSet, draft: Draft, why: str, settled: QuestionSet | None
    ) -> None:
        super().__init__()
        self.question_set = question_set
        self._draft = draft
        self._why = why
        self._settled = settled

    def compose(self) -> ComposeResult:
        yield Static(self._why, classes="title", markup=False)
        yield Static(
            Content.assemble((asker(self.question_set), "bold"), f" asked: {subject(self.question_set)}")
        )
        if self._settled is not None and self._settled.answers:
            # Without its first sentence, which is for agents.
            said = answers_text(self._settled.questions, self._settled.answers).partition("\n\n")[2]
            yield Static(plain(said), classes="said")
        if self._settled is not None and self._settled.rejection_reason:
            yield Static(plain(f"Reason: {self._settled.rejection_reason}"), classes="said")
        if not self._draft.is_empty:
            yield Static("What you had entered was not sent:", classes="heading")
            yield Static(_draft_words(self.question_set, self._draft), classes="said")
        yield Static("Esc goes back to the queue.", classes="hint")

    def action_close(self) -> None:
        self.post_message(self.Closed(self.question_set))


def _draft_words(question_set: QuestionSet, draft: Draft) -> Content:
    return plain(
        "\n".join(
            line
            for index, question in enumerate(question_set.questions)
            if (said := reply_lines(question, draft.reply(index)))
            for line in (shown_title(question), *said)
        )
    )
