"""The inbox as a person meets it: keys go in, and what can be read on the screen comes out."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from holdfast.questions import QuestionBox
from holdfast.tui.app import InboxApp
from tests.questions.sets import Clock
from tests.waiting import until

_PIECE = re.compile(r'<text[^>]* y="([\d.]+)"[^>]*>(.*?)</text>')


class Inbox:
    def __init__(self, app: InboxApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def text(self) -> str:
        """What is on the screen, line by line, with single spaces."""
        lines: dict[str, list[str]] = {}
        for place, piece in _PIECE.findall(self.app.export_screenshot()):
            lines.setdefault(place, []).append(html.unescape(piece))
        return "\n".join(" ".join(" ".join(pieces).split()) for pieces in lines.values())

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def write(self, text: str) -> None:
        await self.pilot.press(*("space" if character == " " else character for character in text))

    async def sees(self, *texts: str) -> None:
        """Wait until all of this can be read."""

        async def can_be_read() -> bool:
            await self.pilot.pause()
            return all(text in self.text for text in texts)

        try:
            await until(can_be_read)
        except TimeoutError:
            raise AssertionError(f"{texts} cannot all be read on the screen:\n{self.text}") from None

    async def no_longer_sees(self, text: str) -> None:
        async def cannot_be_read() -> bool:
            await self.pilot.pause()
            return text not in self.text

        await until(cannot_be_read)

    @property
    def line(self) -> str:
        """The line at which the person is."""
        return next((line for line in self.text.splitlines() if line.startswith("›")), "")


class Desk:
    """A directory of question sets, a place for drafts, and a clock: what several inboxes can share."""

    def __init__(self, path: Path) -> None:
        self.directory = path / "auq" / "sessions"
        self.drafts = path / "data" / "drafts"
        self.clock = Clock()
        self.box = QuestionBox(self.directory, clock=self.clock)
        """That of another process: the inbox has its own."""

    def app(self, box: QuestionBox | None = None, **options: Any) -> InboxApp:
        box = box or QuestionBox(self.directory, clock=self.clock)
        return InboxApp(box, self.drafts, by="ada", clock=self.clock, **options)

    @asynccontextmanager
    async def inbox(self, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Inbox]:
        app = self.app(**options)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Inbox(app, pilot)

    def draft_files(self) -> list[str]:
        return sorted(path.name for path in self.drafts.glob("*")) if self.drafts.exists() else []
