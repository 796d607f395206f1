"""The screens that stand before the inbox for a moment: reviewing, rejecting, helping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from holdfast.model.question import Question, QuestionSet
from holdfast.questions.shown import asker, harmless, one_line, shown_title, subject
from holdfast.tui.replies import Draft, Reply
from holdfast.tui.rows import Words
from holdfast.tui.text import shown_label
from holdfast.tui.theme import MUTED

Act = Callable[[], Awaitable[str | None]]
"""Does what the dialog is for. The sentence it gives back says why it could not; None when it could."""


class _Button(Button):
    """One that can be pressed again at once: Textual ignores a press while it still shows the last one."""

    def __init__(self, label: str, **options: Any) -> None:
        super().__init__(label, **options)
        self.active_effect_duration = 0


class ReviewScreen(ModalScreen[int | None]):
    """What will be sent, and what is missing. Its result is a question to go back to, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "back", "Back"),
        Binding("enter", "default", show=False),
        Binding("left,up,shift+tab", "app.focus_previous", show=False),
        Binding("right,down,tab", "app.focus_next", show=False),
    ]

    def __init__(self, question_set: QuestionSet, draft: Draft, send: Act) -> None:
        super().__init__()
        self._question_set = question_set
        self._draft = draft
        self._send = send
        self._unanswered = draft.unanswered(question_set.questions)

    def compose(self) -> ComposeResult:
        questions = self._question_set.questions
        nothing = len(self._unanswered) == len(questions)
        with Vertical(classes="dialog"):
            yield Static(f"Send to {asker(self._question_set)}?", classes="title", markup=False)
            with VerticalScroll(classes="body", can_focus=False):
                for index, question in enumerate(questions):
                    yield Static(_review_entry(question, index, self._draft.reply(index)), classes="entry")
            yield Static(self._warning(), classes="warning")
            yield Static("", classes="problem", markup=False)
            with HorizontalGroup(classes="buttons"):
                yield _Button("Send", id="send", variant="primary", disabled=nothing)
                if self._unanswered:
                    yield _Button(f"Go to question {self._unanswered[0] + 1}", id="missing")
                yield _Button("Back", id="back")

    def on_mount(self) -> None:
        self._default.focus()
        self.query_one(".warning").display = bool(self._unanswered)
        self.query_one(".problem").display = False

    @property
    def _default(self) -> Button:
        return self.query_one("#missing" if self._unanswered else "#send", Button)

    def action_default(self) -> None:
        """What Enter does where nothing has the focus."""
        self._default.press()

    def action_back(self) -> None:
        self.dismiss(None)

    @on(Button.Pressed, "#back")
    def _back(self) -> None:
        self.dismiss(None)

    @on(Button.Pressed, "#missing")
    def _go_to_missing(self) -> None:
        self.dismiss(self._unanswered[0])

    @on(Button.Pressed, "#send")
    async def _do_send(self) -> None:
        await _act(self, self._send)

    def _warning(self) -> Content:
        missing, total = len(self._unanswered), len(self._question_set.questions)
        if missing == total:
            return Content("Nothing is answered yet. Answer something, or reject the set.")
        are = "is" if missing == 1 else "are"
        return Content(f"{missing} of {total} questions {are} unanswered and will be left out.")


class RejectScreen(ModalScreen[None]):
    """Refuse to answer, with a reason or without one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "keep", "Keep"),
        Binding("enter", "default", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
        Binding("tab", "app.focus_next", show=False),
    ]

    def __init__(self, question_set: QuestionSet, reject: Callable[[str], Awaitable[str | None]]) -> None:
        super().__init__()
        self._question_set = question_set
        self._reject = reject

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(f"Reject what {asker(self._question_set)} asks?", classes="title", markup=False)
            yield Static(Content.styled(subject(self._question_set), MUTED), classes="entry")
            yield Words("", placeholder="Why? The agent reads this. (optional)")
            yield Static("", classes="problem", markup=False)
            with HorizontalGroup(classes="buttons"):
                yield _Button("Reject", id="reject", variant="error")
                yield _Button("Keep", id="keep")

    def on_mount(self) -> None:
        self.query_one(".problem").display = False
        self.query_one(Words).focus()

    def action_default(self) -> None:
        """What Enter does where nothing has the focus."""
        self.query_one("#reject", Button).press()

    @on(Button.Pressed, "#keep")
    @on(Words.Left)
    def action_keep(self, event: Button.Pressed | Words.Left | None = None) -> None:
        if isinstance(event, Words.Left) and event.step:
            self.query_one("#reject", Button).focus()
        else:
            self.dismiss(None)

    @on(Button.Pressed, "#reject")
    @on(Words.Entered)
    async def _do_reject(self) -> None:
        reason = self.query_one(Words).text.strip()
        await _act(self, lambda: self._reject(reason))


HELP = {
    "The queue": {
        "↑ ↓": "move",
        "Enter": "open a set",
        "[ ]": "previous, next set",
        "x": "reject, with a reason if you like",
    },
    "A question": {
        "↑ ↓": "move",
        "Space, 1–9": "choose",
        "Enter": "choose and go on; of several: go on",
        "← →, Tab": "other questions of the set",
        "o": "own words (Ctrl+J: a new line)",
        "r": "what is recommended (Ctrl+R: all)",
        "e, p": "ask for more; ask to put it differently",
        "d": "the whole diff or command",
        "Ctrl+S": "review and send",
        "Esc": "back; what you entered is kept",
    },
    "Everywhere": {
        "?": "this help",
        "Ctrl+P": "all commands",
        "Ctrl+T": "light or dark",
        "q, Ctrl+Q": "quit; drafts are kept",
    },
}


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,f1,q,enter", "dismiss", "Back")]

    def compose(self) -> ComposeResult:
        width = max(len(keys) for meanings in HELP.values() for keys in meanings)
        with Vertical(classes="dialog help"):
            yield Static("Keys", classes="title")
            with VerticalScroll(classes="body"):
                for place, meanings in HELP.items():
                    yield Static(place, classes="heading")
                    for keys, meaning in meanings.items():
                        yield Static(Content.assemble((f"{keys:<{width}}   ", "$text-primary"), meaning))
            yield Static("The mouse works, too. Esc closes this.", classes="hint")


async def _act(screen: ModalScreen[int | None] | ModalScreen[None], act: Act) -> None:
    """Do it once, and stay with the reason when it could not be done."""
    buttons = [button for button in screen.query(Button) if not button.disabled]
    # Disabling what has the focus takes it away later, perhaps only after it was given back.
    screen.set_focus(None)
    for button in buttons:
        button.disabled = True
    problem = await act()
    if screen.is_active and problem is not None:
        shown = screen.query_one(".problem", Static)
        shown.update(harmless(problem))
        shown.display = True
        for button in buttons:
            button.disabled = False
        # Once the longer dialog is laid out: a button that is out of sight meanwhile loses the focus.
        screen.call_after_refresh(screen.set_focus, buttons[0])
    elif screen.is_active:
        screen.dismiss(None)


def _review_entry(question: Question, index: int, reply: Reply) -> Content:
    said = reply_lines(question, reply)
    shown = [Content.styled(f"   {line}", "$text-success") for line in said]
    return Content("\n").join(
        [
            Content.assemble(f"{index + 1}. ", (shown_title(question), "bold")),
            *(shown or [Content.styled("   – not answered", "$text-warning")]),
        ]
    )


def reply_lines(question: Question, reply: Reply) -> list[str]:
    """What a reply says, a line for each thing."""
    labels = {option.label: shown_label(option) for option in question.options}
    lines = [f"→ {labels[label]}" for label in reply.chosen]
    if reply.none and not reply.says_own_text:
        lines.append("→ none of these")
    if reply.says_own_text:
        lines.append(f"→ “{one_line(reply.own_text)}”")
    if reply.elaborate:
        about = one_line(reply.guidance)
        lines.append(f"→ asks for more detail: “{about}”" if about else "→ asks for more detail")
    if reply.rephrase:
        lines.append("→ asks to put it differently")
    return lines
