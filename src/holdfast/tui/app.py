"""The terminal program around the inbox: themes, commands, and the way in and out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from holdfast.questions import QuestionBox
from holdfast.questions.box import system_clock
from holdfast.tui.drafts import Drafts
from holdfast.tui.inbox import InboxScreen
from holdfast.tui.theme import DARK, LIGHT


class InboxApp(App[None]):
    CSS_PATH = "inbox.tcss"
    TITLE = "Holdfast inbox"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+t", "toggle_theme", "Light or dark", show=False)]

    def __init__(
        self,
        box: QuestionBox,
        drafts_directory: Path,
        *,
        by: str,
        bell: bool = True,
        toasts: bool = True,
        light: bool = False,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        """`by` is the name under which this person answers."""
        # The terminal's own colours are what can be left out altogether.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self._inbox = InboxScreen(box, Drafts(drafts_directory), by=by, bell=bell, toasts=toasts, clock=clock)
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = (LIGHT if light else DARK).name

    def get_default_screen(self) -> Screen[None]:
        return self._inbox

    async def action_quit(self) -> None:
        await self._inbox.close()
        self.exit()

    def action_toggle_theme(self) -> None:
        self.theme = (LIGHT if self.current_theme.dark else DARK).name

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        if screen is self._inbox:
            if (here := self._inbox.set_here) is not None:
                yield SystemCommand(
                    "Review and send", "See your answers, then send them", self._inbox.action_review
                )
                yield SystemCommand(
                    "Reject", "Refuse to answer, with a reason if you like", self._inbox.action_reject
                )
                if here.tool is not None:
                    yield SystemCommand("Judge", "See the whole diff or command", self._inbox.action_judge)
            yield SystemCommand("Help", "What the keys do", self._inbox.action_help)
        yield SystemCommand("Light or dark", "Change to the other palette", self.action_toggle_theme)
        yield SystemCommand("Theme", "Choose among all palettes", self.action_change_theme)
        yield SystemCommand("Quit", "Leave the inbox; what you entered is kept", self.action_quit)
