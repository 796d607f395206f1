"""What all views of an open store share: the engine, the clock, and the work in the background."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from holdfast.errors import StoreError
from holdfast.model.ids import TurnId
from holdfast.model.message import Message
from holdfast.model.tokens import TokenCounter
from holdfast.store import chunks, messages, sessions
from holdfast.store.engine import Engine
from holdfast.store.feed import Feed
from holdfast.store.pulse import Pulse
from holdfast.store.streams import StreamFlusher
from holdfast.telemetry import event

log = logging.getLogger("holdfast.store")

CATCH_UP_SECONDS = 0.5
"""How long a listing's order may lag behind the last append."""

RECOVERY_SECONDS = 15
"""How soon to look again at the other writers of open messages: they may be gone by then."""

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
        self.catching_up = Pulse(CATCH_UP_SECONDS, self._catch_up)
        self.recovering = Pulse(RECOVERY_SECONDS, self._recover_later)
        self.feed = Feed(engine, self.catching_up.nudge)
        self.streams = StreamFlusher(engine, clock, max_message_bytes, self.catching_up.nudge, counter)

    async def start(self) -> None:
        """Finish what a crash left: fold streams whose writer is gone, bring listings up to date."""
        await self._recover()
        await self._catch_up()

    async def close(self) -> None:
        await self.feed.close()
        await self.recovering.stop()
        await self.streams.close()
        await self.catching_up.close()
        await self.engine.close()

    def prepared(self, new: Sequence[Message], now: int, turn_id: TurnId | None) -> list[messages.Prepared]:
        """Messages ready to be written, counted where this store counts."""
        return messages.prepare(
            new, now, max_bytes=self.max_message_bytes, turn_id=turn_id, counter=self.counter
        )

    def committed(self) -> None:
        """Somebody's write is in the store: it shows in their span, and soon in the listings."""
        event("store.commit")
        self.catching_up.nudge()

    async def _recover(self) -> None:
        others = set(await self.engine.read(chunks.owners)) - {self.engine.owner}
        dead = await self.engine.dead(others)
        if dead:
            folded = await self.engine.write(
                partial(chunks.fold_abandoned, dead=dead, owner=self.engine.owner, now=self.clock())
            )
            log.info("closed %d messages whose writer is gone", folded)
        if others - dead:
            self.recovering.nudge()

    async def _recover_later(self) -> None:
        try:
            await self._recover()
        except StoreError as error:
            log.warning("messages whose writer is gone are not closed yet: %s", error)
            self.recovering.nudge()

    async def _catch_up(self) -> None:
        try:
            await self.engine.write(sessions.catch_up)
            self.feed.numbered()
        except StoreError as error:
            log.warning("listings are not up to date: %s", error)
