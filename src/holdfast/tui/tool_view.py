"""The diff or command of a permission request, on the screen: beside its question, or by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Footer, Static

from holdfast.questions.shown import harmless, one_line
from holdfast.questions.tool import Line, Part, Sign, parts
from holdfast.tui.text import plain

TAB_CELLS = 4


class ToolView(VerticalScroll):
    """Everything there is to judge. It scrolls."""

    def __init__(self, tool: Mapping[str, Any]) -> None:
        super().__init__()
        self._tool = tool

    def on_mount(self) -> None:
        self.run_worker(self._fill())

    async def _fill(self) -> None:
        # On a thread: comparing two long files takes its time.
        for part in await asyncio.to_thread(parts, self._tool):
            if part.heading:
                await self.mount(Static(part.heading, classes="heading", markup=False))
            await self.mount(_body(part))
        self.add_class("-filled")


class DiffLines(Widget):
    """The lines of a diff, each with its number and its sign. Only those in sight are drawn, and a
    line that is too long goes on below itself, so that nothing lies out of sight at the side."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"number", *(sign.name.lower() for sign in Sign)}

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__(classes="body")
        self._lines = lines
        self._digits = max((len(str(line.number)) for line in lines if line.number), default=0)
        self._folded: list[tuple[Line, str, bool]] = []
        self._folded_width = 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._fold(width))

    def render_line(self, y: int) -> Strip:
        folded = self._fold(self.size.width)
        if y >= len(folded):
            return Strip.blank(self.size.width, self.rich_style)
        line, text, is_first = folded[y]
        number = str(line.number) if line.number and is_first else ""
        style = self.get_component_rich_style(line.sign.name.lower())
        gutter = Segment(
            f"{number:>{self._digits}} ", style + self.get_component_rich_style("number", partial=True)
        )
        words = Segment(f"{line.sign if is_first else ' '} {text}", style)
        return Strip([gutter, words]).adjust_cell_length(self.size.width, style)

    def _fold(self, width: int) -> list[tuple[Line, str, bool]]:
        """The lines as they fit into `width`: each with its text, and whether it is a line's first."""
        if width != self._folded_width:
            room = max(width - self._digits - 3, 2)
            self._folded = [
                (line, piece.plain, number == 0)
                for line in self._lines
                for number, piece in enumerate(Content(harmless(line.text).expandtabs(TAB_CELLS)).fold(room))
            ]
            self._folded_width = width
        return self._folded


class ToolScreen(ModalScreen[None]):
    """The same on the whole screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,d,q,enter", "dismiss", "Back")]

    def __init__(self, tool: Mapping[str, Any], title: str) -> None:
        super().__init__()
        self._tool = tool
        self._title = title

    def compose(self) -> ComposeResult:
        yield Static(one_line(self._title), classes="title", markup=False)
        yield ToolView(self._tool)
        yield Footer(show_command_palette=False)


def _body(part: Part) -> Widget:
    if isinstance(part.body, str):
        return Static(plain(part.body), classes="body")
    if not part.body:
        return Static("Nothing changes.", classes="body")
    return DiffLines(part.body)
