"""What a person moves through in a question: lines to choose, and room for words.

A row carries its own mark (`(•)`, `[x]`) and its own pointer (`›`), so that where you are and what
is chosen can be seen without colour.
"""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

ONE, ONE_CHOSEN = "( )", "(•)"
ANY, ANY_CHOSEN = "[ ]", "[x]"
POINTER = "›"


def glyph(*, several: bool, chosen: bool) -> str:
    if several:
        return ANY_CHOSEN if chosen else ANY
    return ONE_CHOSEN if chosen else ONE


class Mark(Static):
    """The pointer and the mark in front of a row."""

    def __init__(self, several: bool) -> None:
        super().__init__(classes="mark")
        self._several = several
        self._chosen = self._here = False

    def show(self, *, chosen: bool | None = None, here: bool | None = None) -> None:
        self._chosen = self._chosen if chosen is None else chosen
        self._here = self._here if here is None else here
        pointer = POINTER if self._here else " "
        self.update(Content(f"{pointer} {glyph(several=self._several, chosen=self._chosen)} "))

    def on_mount(self) -> None:
        self.show()


class Row(HorizontalGroup, can_focus=True):
    """A line that can be chosen. What choosing means is for whoever hears `Chosen`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "choose", "Choose"),
        Binding("enter", "choose(True)", "Next"),
    ]

    class Chosen(Message):
        def __init__(self, row: Row, go_on: bool) -> None:
            super().__init__()
            self.row = row
            self.go_on = go_on
            """Whether the person wants to see the next question now."""

    def __init__(self, words: Content, *, several: bool) -> None:
        super().__init__()
        self._words = words
        self._mark = Mark(several)

    def compose(self) -> ComposeResult:
        yield self._mark
        yield Static(self._words, classes="words")

    def show(self, *, chosen: bool) -> None:
        self._mark.show(chosen=chosen)
        self.set_class(chosen, "-chosen")

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._mark.show(here=has_focus)

    def action_choose(self, go_on: bool = False) -> None:
        self.post_message(self.Chosen(self, go_on))

    def on_click(self) -> None:
        self.action_choose()


class Words(TextArea):
    """Room for a person's own words: one line that grows. Enter goes on, Ctrl+J begins a new line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_on", "Next"),
        Binding("ctrl+j,shift+enter", "new_line", "New line", key_display="^j"),
        Binding("escape", "leave", "Leave the text"),
    ]

    class Entered(Message):
        """The person is done with the text and wants to go on."""

    class Left(Message):
        """The person moves out of the text: up, down, or back to the rows."""

        def __init__(self, words: Words, step: int) -> None:
            super().__init__()
            self.words = words
            self.step = step

    def __init__(self, text: str, *, placeholder: str) -> None:
        super().__init__(text, placeholder=placeholder, compact=True, highlight_cursor_line=False)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":  # which a text area takes before any binding
            event.stop()
            event.prevent_default()
            self.action_go_on()
        else:
            await super()._on_key(event)

    def action_go_on(self) -> None:
        self.post_message(self.Entered())

    def action_new_line(self) -> None:
        self.insert("\n")

    def action_leave(self) -> None:
        self.post_message(self.Left(self, 0))

    def action_cursor_up(self, select: bool = False) -> None:
        if self.cursor_at_first_line and not select:
            self.post_message(self.Left(self, -1))
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.cursor_at_last_line and not select:
            self.post_message(self.Left(self, 1))
        else:
            super().action_cursor_down(select)


class WordsRow(HorizontalGroup):
    """A text with a mark that says whether it is part of the answer. A click on the mark chooses it."""

    class Marked(Message):
        """The person clicked on the mark."""

    def __init__(self, text: str, *, several: bool, placeholder: str) -> None:
        super().__init__()
        self._mark = Mark(several)
        self.words = Words(text, placeholder=placeholder)

    def compose(self) -> ComposeResult:
        yield self._mark
        yield self.words

    def show(self, *, chosen: bool) -> None:
        self._mark.show(chosen=chosen)
        self.set_class(chosen, "-chosen")

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _point(self) -> None:
        self._mark.show(here=self.words.has_focus)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self._mark:
            self.post_message(self.Marked())
