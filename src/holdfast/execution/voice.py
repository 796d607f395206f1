"""The answer as it is said: a streaming message, and its pieces told once they are stored."""

from __future__ import annotations

import asyncio

from holdfast.execution.events import Tell, TextAdded
from holdfast.model.message import Message
from holdfast.model.session import Session
from holdfast.model.turn import Turn
from holdfast.store.store import Store
from holdfast.store.streams import MessageStream


class Voice:
    def __init__(self, store: Store, session: Session, turn: Turn, tell: Tell) -> None:
        self._store = store
        self._session = session
        self._turn = turn
        self._tell = tell
        self._stream: MessageStream | None = None
        self._said: list[str] = []
        self._untold: list[str] = []
        self._telling: asyncio.Task[None] | None = None

    async def add(self, text: str) -> None:
        """Take the next piece. It does not wait until it is stored: a model's stream is not held up."""
        if not text:
            return
        if self._stream is None:
            opened = Message.agent("", partial=True)
            self._stream = await self._store.open_stream(self._session.id, opened, turn_id=self._turn.id)
        self._stream.write(text)
        self._said.append(text)
        self._untold.append(text)
        if self._telling is None or self._telling.done():
            if self._telling is not None:
                self._telling.result()
            self._telling = asyncio.get_running_loop().create_task(self._tell_stored(self._stream))

    async def finish(self, text: str) -> None:
        """Say what is left of the whole answer: of one that was cut off and fetched, not all has come."""
        said = "".join(self._said)
        if text.startswith(said):
            await self.add(text[len(said) :])
        elif text:
            await self.end()
            await self.add(text)
        await self.end()

    async def end(self) -> None:
        """Make the message final. What was not told yet is told then: all of it is stored."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.end()
        if self._telling is not None:
            telling, self._telling = self._telling, None
            await telling

    async def _tell_stored(self, stream: MessageStream) -> None:
        while self._untold:
            texts, self._untold = self._untold, []
            await stream.drain()
            self._tell(TextAdded("".join(texts)))
