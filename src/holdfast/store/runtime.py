"""What all views of an open store share: the engine, the clock, and the work in the background."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from holdfast.errors import StoreError
from holdfast.model.ids import TurnId
from holdfast.model.message import Message
from holdfast.model.tokens import TokenCounter
from holdfast.store import chunks, messages, sessions
from holdfast.store.engine import Engine
from holdfast.store.feed import Feed
from holdfast.store.known import KnownSessions
from holdfast.store.pulse import Pulse
from holdfast.store.streams import StreamFlusher
from holdfast.store.word_index import WordIndex
from holdfast.telemetry import event

log = logging.getLogger("holdfast.store")

CATCH_UP_SECONDS = 0.5
"""How long a listing's order may lag behind the last append."""

RECOVERY_SECONDS = 15
"""How often to look at the other writers of open messages: they come and go while we run."""

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The largest message, as large as the longest line an agent may send. Larger payloads are blobs."""


def system_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Runtime:
    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int],
        max_message_bytes: int,
        counter: TokenCounter | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.max_message_bytes = max_message_bytes
        self.counter = counter
        self._closed = False
        self.catching_up = Pulse(CATCH_UP_SECONDS, self._catch_up)
        self.recovering = Pulse(RECOVERY_SECONDS, self._recover_later)
        self.feed = Feed(engine, self.changed)
        self.words = WordIndex(engine)
        self.known = KnownSessions()
        self.streams = StreamFlusher(engine, clock, max_message_bytes, self.changed, counter)

    async def start(self) -> None:
        """Finish what a crash left: fold streams whose writer is gone, bring listings up to date."""
        await self.close_abandoned()
        self.recovering.nudge()
        await self._catch_up()

    async def close(self) -> None:
        """Every part, also when one of them fails or the caller is cancelled."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.engine.close)
            last_first.push_async_callback(self._catch_up_finally)
            last_first.push_async_callback(self.streams.close)
            last_first.push_async_callback(self.words.close)
            last_first.push_async_callback(self.recovering.stop)
            last_first.push_async_callback(self.feed.close)

    def prepared(self, new: Sequence[Message], now: int, turn_id: TurnId | None) -> list[messages.Prepared]:
        """Messages ready to be written, counted where this store counts."""
        return messages.prepare(
            new, now, max_bytes=self.max_message_bytes, turn_id=turn_id, counter=self.counter
        )

    def committed(self) -> None:
        """Somebody's write is in the store: it shows in their span, and soon in the listings."""
        event("store.commit")
        self.changed()

    def changed(self) -> None:
        """Bring the listings up to date soon; what changes while the store is closed, when it is opened."""
        if not self._closed:
            self.catching_up.nudge()

    async def close_abandoned(self) -> None:
        """Close the messages whose writer is gone, with what it had written."""
        others = set(await self.engine.read(chunks.owners)) - {self.engine.owner}
        dead = await self.engine.dead(others) if others else set()
        if dead:
            folded = await self.engine.write(
                partial(chunks.fold_abandoned, dead=dead, owner=self.engine.owner, now=self.clock())
            )
            log.info("closed %d messages whose writer is gone", folded)

    async def _recover_later(self) -> None:
        try:
            await self.close_abandoned()
        except StoreError as error:
            log.warning("messages whose writer is gone are not closed yet: %s", error)
        self.recovering.nudge()

    async def _catch_up_finally(self) -> None:
        self._closed = True
        await self.catching_up.close()

    async def _catch_up(self) -> None:
        try:
            await self.engine.write(sessions.catch_up)
            self.feed.numbered()
            self.words.nudge()
        except StoreError as error:
            log.warning("listings are not up to date: %s", error)
