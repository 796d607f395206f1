"""The live feed for many: one read and one encoding for all who listen to the same thing.

A channel follows a session, or all sessions of a principal, and keeps its last frames. A listener
first catches up by a read of its own, then sends the frames it has not sent; one that is so slow
that its next frame is gone catches up again. So nobody is waited for, and what is kept does not
grow with the number of listeners or with their slowness.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.ids import SessionId
from holdfast.model.principal import Principal
from holdfast.model.session import Session
from holdfast.server import shapes
from holdfast.server.inbox import Inbox
from holdfast.store.options import ChangedSessions, Changes
from holdfast.store.store import Store

log = logging.getLogger("holdfast.server")

KEPT_FRAMES = 256
KEPT_BYTES = 4 * 1024 * 1024

HEARTBEAT_SECONDS = 15.0
"""How often something is sent although nothing may have happened."""

HEARTBEAT = b": still here\n\n"

FEED_HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
"""An event and no comment: browsers keep comments to themselves, and the page has to notice a silence."""

PACE_SECONDS = 0.0001
"""The pause after a frame, for each listener: many share longer frames instead of waiting for short ones."""

MAX_PAUSE_SECONDS = 0.1


K = TypeVar("K")


class Closing(HoldfastError):
    """The server is about to stop."""

    code = "closing"
    status = 503
    retriable = True

    def __init__(self) -> None:
        super().__init__("The server is stopping; try again when it is back.")


class Frame(msgspec.Struct, frozen=True):
    """One event of the feed, encoded."""

    number: int
    """Its place in the channel."""
    at: int | None
    """The revision or position it leads to; none where the event has no part in that order."""
    data: bytes
    session: Session | None = None


class Channel:
    """What one source has to say, in frames. It runs while somebody listens."""

    def __init__(self, *sources: Callable[[], AsyncGenerator[Frame, None]]) -> None:
        self._sources = sources
        self._frames: list[Frame] = []
        self._bytes = 0
        self._listeners = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.last = 0
        """The number of the last frame."""
        self.beats = 0
        """How many frames were heartbeats: at each, a listener's token is looked at again."""
        self.ended: HoldfastError | None = None
        """Why there will be no more, once that is so."""
        self.closed = False

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        self._listeners += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-channel")
        try:
            yield
        finally:
            self._listeners -= 1
            if not self._listeners:
                await self.close()

    @property
    def listeners(self) -> int:
        return self._listeners

    @property
    def is_open(self) -> bool:
        """Whether there may be more."""
        return self.ended is None and not self.closed

    def still_has(self, number: int) -> bool:
        """Whether all frames after one that was sent are there."""
        return self.last - number <= len(self._frames)

    def after(self, number: int) -> Sequence[Frame]:
        """The frames after one that was sent."""
        return self._frames[len(self._frames) - (self.last - number) :]

    async def news(self, number: int) -> None:
        """Wait until there is a frame after `number`, or there will be none."""
        while self.last <= number and self.is_open:
            await self._changed.wait()

    async def close(self) -> None:
        self.closed = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(self._beat())
                async with asyncio.TaskGroup() as sources:
                    for source in self._sources:
                        sources.create_task(self._forward(source()))
                beating.cancel()
        except* HoldfastError as errors:
            self.ended = _first(errors)
        except* Exception:
            log.exception("a change feed broke; its listeners will come back")
        finally:
            self.closed = True
            self._changed.set()

    async def _forward(self, frames: AsyncGenerator[Frame, None]) -> None:
        async with aclosing(frames):
            async for frame in frames:
                self._publish(frame)
                await asyncio.sleep(min(MAX_PAUSE_SECONDS, PACE_SECONDS * self._listeners))

    async def _beat(self) -> None:
        """One clock for all listeners: of a thousand, each with its own, most of the work would be timers."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self.beats += 1
            self._publish(Frame(0, None, FEED_HEARTBEAT))

    def _publish(self, frame: Frame) -> None:
        self.last += 1
        frame = msgspec.structs.replace(frame, number=self.last)
        self._frames.append(frame)
        self._bytes += len(frame.data)
        while len(self._frames) > KEPT_FRAMES or (self._bytes > KEPT_BYTES and len(self._frames) > 1):
            self._bytes -= len(self._frames.pop(0).data)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Hub:
    def __init__(
        self, store: Store, inbox: Inbox, published: Callable[[Changes], None] = lambda changes: None
    ) -> None:
        """`published` is told of every change that goes out to the listeners of a session."""
        self._published = published
        self._store = store
        self._inbox = inbox
        self._sessions: dict[SessionId, Channel] = {}
        self._listings: dict[Principal, Channel] = {}
        self.closed = False

    @property
    def listeners(self) -> int:
        channels = [*self._sessions.values(), *self._listings.values()]
        return sum(channel.listeners for channel in channels)

    @asynccontextmanager
    async def session(self, session: Session) -> AsyncIterator[Channel]:
        """The channel of a session, from now on."""
        follow = self._store.as_system().follow
        channel = _open(self._sessions, session.id) or Channel(
            lambda: _session_frames(follow(session.id, session.rev), self._published)
        )
        async with self._joined(self._sessions, session.id, channel):
            yield channel

    @asynccontextmanager
    async def listing(self, principal: Principal) -> AsyncIterator[Channel]:
        """The channel of everything a principal may see, from now on."""
        view = self._store.as_principal(principal)
        position = await view.position()
        channel = _open(self._listings, principal) or Channel(
            lambda: _listing_frames(view.follow_all(position)),
            lambda: _question_frames(self._inbox.changes(view, principal)),
        )
        async with self._joined(self._listings, principal, channel):
            yield channel

    @asynccontextmanager
    async def _joined(self, channels: dict[K, Channel], key: K, channel: Channel) -> AsyncIterator[None]:
        if self.closed:
            raise Closing
        channels[key] = channel
        try:
            async with channel.listening():
                yield
        finally:
            if channel.closed and channels.get(key) is channel:
                del channels[key]

    async def close(self) -> None:
        """End every listener's wait."""
        self.closed = True
        for channel in [*self._sessions.values(), *self._listings.values()]:
            await channel.close()


def session_frame(changes: Changes) -> Frame:
    return _frame("change", shapes.Changes.of(changes), changes.rev, changes.session)


def listing_frame(changed: ChangedSessions) -> Frame:
    return _frame("sessions", shapes.ChangedSessions.of(changed), changed.position)


def questions_frame(changed: shapes.ChangedQuestions) -> Frame:
    return _frame("questions", changed, None)


def _frame(event: str, shape: msgspec.Struct, at: int | None, session: Session | None = None) -> Frame:
    place = "" if at is None else f"id: {at}\n"
    head = f"event: {event}\n{place}data: ".encode()
    # Between the values of a JSON text that was stored as it came there may be line breaks.
    data = msgspec.json.encode(shape).replace(b"\r", b" ").replace(b"\n", b"\ndata: ")
    return Frame(0, at, head + data + b"\n\n", session)


async def _session_frames(
    items: AsyncGenerator[Changes, None], published: Callable[[Changes], None]
) -> AsyncGenerator[Frame, None]:
    async with aclosing(items):
        async for changes in items:
            yield session_frame(changes)
            published(changes)


async def _listing_frames(items: AsyncGenerator[ChangedSessions, None]) -> AsyncGenerator[Frame, None]:
    async with aclosing(items):
        async for changed in items:
            yield listing_frame(changed)


async def _question_frames(
    items: AsyncGenerator[shapes.ChangedQuestions, None],
) -> AsyncGenerator[Frame, None]:
    async with aclosing(items):
        async for changed in items:
            yield questions_frame(changed)


def _open(channels: dict[K, Channel], key: K) -> Channel | None:
    channel = channels.get(key)
    return channel if channel is not None and channel.is_open else None


def _first(errors: BaseExceptionGroup[HoldfastError]) -> HoldfastError:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HoldfastError)
    return error
