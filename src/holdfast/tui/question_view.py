"""One question: its prompt, its options, room for own words, and requests to the asker."""

from __future__ import annotations

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

from holdfast.model.question import Option, Question, QuestionKind
from holdfast.questions.shown import harmless
from holdfast.tui.replies import Reply
from holdfast.tui.rows import Row, Words, WordsRow
from holdfast.tui.text import is_recommended, plain, shown_label
from holdfast.tui.theme import MUTED


class QuestionView(VerticalScroll, can_focus=False, inherit_bindings=False):
    """It has no keys of its own: up and down move through the rows, and do not scroll."""

    class Replied(Message):
        """The person has entered something."""

        def __init__(self, index: int, reply: Reply) -> None:
            super().__init__()
            self.index = index
            self.reply = reply

    class Done(Message):
        """The person wants to see the next question."""

    def __init__(self, question: Question, index: int, reply: Reply, kind: QuestionKind) -> None:
        super().__init__()
        # An agent's protocol has no place for a request in a form, nor for own words in a permission.
        self._has_own_words = kind is not QuestionKind.PERMISSION or not question.options
        self._has_requests = kind is QuestionKind.QUESTION
        self._question = question
        self._index = index
        self._reply = reply
        several = question.multi_select
        self._options = [Row(_option_words(option), several=several) for option in question.options]
        self._none = Row(Content("None of these"), several=True)
        self._own = WordsRow(reply.own_text, several=several, placeholder="In your own words …")
        self._elaborate = Row(Content("Ask for more detail"), several=True)
        self._guidance = Words(reply.guidance, placeholder="About what? (optional)")
        self._rephrase = Row(Content("Ask to put it differently"), several=True)

    def compose(self) -> ComposeResult:
        yield Static(plain(self._question.prompt), classes="prompt")
        if self._question.options:
            yield Static("Choose any number" if self._question.multi_select else "Choose one", classes="hint")
        yield from self._options
        if self._question.multi_select:
            yield self._none
        if self._has_own_words:
            yield self._own
        if self._has_requests:
            yield Static("Or ask back", classes="hint")
            yield self._elaborate
            yield self._guidance
            yield self._rephrase

    def on_mount(self) -> None:
        self._show()

    def begin(self) -> None:
        """Go to what is chosen, or to the first row. The prompt stays in sight: it is read first."""
        labels = [option.label for option in self._question.options]
        chosen = [self._options[labels.index(label)] for label in self._reply.chosen]
        (chosen or self._stops())[0].focus(scroll_visible=False)

    def move(self, step: int) -> None:
        """Go up or down, and past the last row to the end of what can be read."""
        stops = self._stops()
        here = next((number for number, stop in enumerate(stops) if stop.has_focus), None)
        if here is None:
            self.begin()
        elif not self._is_in_sight(stops[here]):
            stops[here].scroll_visible(animate=False)
        elif 0 <= here + step < len(stops):
            stops[here + step].focus()
        elif step < 0:
            self.scroll_home(animate=False)
        else:
            self.scroll_end(animate=False)

    def choose_option(self, number: int) -> None:
        if number < len(self._options):
            self._options[number].focus()
            self._reply_with(self._reply.choose(self._question, self._question.options[number].label))

    def choose_recommended(self) -> None:
        self._reply_with(with_recommended(self._question, self._reply))

    def take(self) -> Reply:
        """The reply with the last key that was pressed, whether or not it has been told of yet."""
        if self._own.words.text != self._reply.own_text:
            self._reply = self._reply.write(self._question, self._own.words.text)
        self._reply = msgspec.structs.replace(self._reply, guidance=self._guidance.text)
        return self._reply

    def show(self, reply: Reply) -> None:
        self._reply = reply
        self._show()

    def write(self) -> None:
        if self._has_own_words:
            self._own.words.focus()

    def toggle_elaborate(self) -> None:
        if not self._has_requests:
            return
        self._reply_with(msgspec.structs.replace(self._reply, elaborate=not self._reply.elaborate))
        if self._reply.elaborate:
            self._guidance.focus()

    def toggle_rephrase(self) -> None:
        if self._has_requests:
            self._reply_with(msgspec.structs.replace(self._reply, rephrase=not self._reply.rephrase))

    @on(Row.Chosen)
    def _choose(self, event: Row.Chosen) -> None:
        event.stop()
        if not self._is_in_sight(event.row):  # nobody means to choose what they do not see
            event.row.scroll_visible(animate=False)
        elif event.row is self._elaborate:
            self.toggle_elaborate()
        elif event.row is self._rephrase:
            self.toggle_rephrase()
        elif event.go_on and self._question.multi_select:
            self.post_message(self.Done())
        else:
            if event.row is self._none:
                self._reply_with(self._reply.choose_none())
            else:
                self.choose_option(self._options.index(event.row))
            if event.go_on:
                self.post_message(self.Done())

    @on(WordsRow.Marked)
    def _choose_own_text(self, event: WordsRow.Marked) -> None:
        event.stop()
        self._reply_with(self._reply.choose_own_text(self._question))

    @on(TextArea.Changed)
    def _write(self, event: TextArea.Changed) -> None:
        event.stop()
        if event.text_area is self._guidance:
            self._reply_with(msgspec.structs.replace(self._reply, guidance=self._guidance.text))
        elif self._own.words.text != self._reply.own_text:
            self._reply_with(self._reply.write(self._question, self._own.words.text))

    @on(Words.Left)
    def _leave_text(self, event: Words.Left) -> None:
        event.stop()
        if event.step:
            self.move(event.step)
        elif (first := self._stops()[0]) is event.words:
            self.screen.set_focus(None)  # there is no row above; another Esc goes back to the queue
        else:
            first.focus()

    @on(Words.Entered)
    def _go_on(self, event: Words.Entered) -> None:
        event.stop()
        self.post_message(self.Done())

    def _reply_with(self, reply: Reply) -> None:
        if reply != self._reply:
            self.show(reply)
            self.post_message(self.Replied(self._index, reply))

    def _show(self) -> None:
        for row, option in zip(self._options, self._question.options, strict=True):
            row.show(chosen=option.label in self._reply.chosen)
        self._none.show(chosen=self._reply.none)
        self._own.show(chosen=self._reply.says_own_text)
        self._elaborate.show(chosen=self._reply.elaborate)
        self._guidance.display = self._reply.elaborate
        self._rephrase.show(chosen=self._reply.rephrase)

    def _stops(self) -> list[Widget]:
        rows = [*self._options, self._none, self._own.words, self._elaborate, self._guidance, self._rephrase]
        return [row for row in rows if row.is_mounted and row.display]

    def _is_in_sight(self, row: Widget) -> bool:
        return self.region.overlaps(row.region)


def with_recommended(question: Question, reply: Reply) -> Reply:
    """The reply that the asker recommends; the same one when nothing is recommended."""
    labels = [option.label for option in question.options if is_recommended(option)]
    if not labels:
        return reply
    chosen = tuple(labels) if question.multi_select else (labels[0],)
    return msgspec.structs.replace(reply, chosen=chosen, none=False, own_chosen=False)


def _option_words(option: Option) -> Content:
    words = [Content(shown_label(option))]
    if is_recommended(option):
        words.append(Content.styled("  ★ recommended", "$text-accent"))
    if option.description:
        words.append(Content.styled(f"\n{harmless(option.description)}", MUTED))
    return Content("").join(words)
