"""Server-sent events: an answer that goes on for as long as the client listens."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.errors import AccessDenied, HoldfastError, NotFound, SessionNotFound
from holdfast.model.ids import SessionId
from holdfast.model.principal import Principal
from holdfast.model.session import Session
from holdfast.server.doorkeeper import Caller, Doorkeeper
from holdfast.server.hub import Channel, Hub, listing_frame, questions_frame, session_frame
from holdfast.server.inbox import Inbox
from holdfast.server.shapes import ChangedEverything, ChangedSessions
from holdfast.store.feed import PAGE
from holdfast.store.options import Changes
from holdfast.store.store import Store

log = logging.getLogger("holdfast.server")

MEDIA_TYPE = "text/event-stream"

PIECE_BYTES = 64 * 1024
"""How much is gathered for a listener before it is sent."""

PAGE_BYTES = 256 * 1024
"""How long a page should be for one who catches up: its rows are chosen after the page before."""

FIRST_ROWS = 8

T = TypeVar("T")

RETRY = b"retry: 1000\n\n"

_HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",  # nginx would gather the events first
}


class EventStream(Response):
    """Sends what `events` yields, until it ends or the client is gone."""

    media_type = MEDIA_TYPE

    def __init__(
        self, events: AsyncGenerator[bytes, None], place: AbstractContextManager[object] | None = None
    ) -> None:
        """`place` is left when the client does not listen any more."""
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._place = place or nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place, suppress(ClientDisconnect):
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await while_listening(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for piece in events:
                for part in _parts(piece):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _parts(piece: bytes) -> Iterator[bytes]:
    """A connection keeps a copy of what it has not sent yet, so it is not given a long piece at once."""
    for begin in range(0, len(piece), PIECE_BYTES):
        yield piece[begin : begin + PIECE_BYTES]


class TooManyListeners(HoldfastError):
    """The connections that this user would take are needed by others."""

    code = "too_many_listeners"
    status = 429
    retriable = True
    retry_after = 1

    def __init__(self, places: int) -> None:
        super().__init__(f"You listen {places} times already; close some, or follow everything on one.")


class _Place:
    """How far a listener is: in the order of what it hears, and among the channel's frames."""

    __slots__ = ("at", "looked_at", "number")

    def __init__(self, at: int, channel: Channel) -> None:
        self.at = at
        self.number = channel.last
        self.looked_at = (-1, -1)
        """The heartbeat and the revocation after which its token was last looked at."""


class Feeds:
    """What a listener is sent: first what it missed, then what happens."""

    def __init__(self, hub: Hub, inbox: Inbox, doorkeeper: Doorkeeper, *, places: int) -> None:
        """One user listens at most so many times at once."""
        self._hub = hub
        self._inbox = inbox
        self._doorkeeper = doorkeeper
        self._places = places
        self._listening: Counter[Principal] = Counter()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """One of the places of a user who listens; `TooManyListeners` when all are taken."""
        if self._listening[caller.principal] >= self._places:
            raise TooManyListeners(self._places)
        self._listening[caller.principal] += 1
        try:
            yield
        finally:
            self._listening[caller.principal] -= 1
            if not self._listening[caller.principal]:
                del self._listening[caller.principal]

    async def session(
        self, view: Store, caller: Caller, session: Session, since: int
    ) -> AsyncGenerator[bytes, None]:
        yield RETRY
        try:
            async with (
                self._hub.session(session) as channel,
                aclosing(self._heard(channel, view, caller, session.id, since)) as pieces,
            ):
                async for piece in pieces:
                    yield piece
        except (NotFound, AccessDenied) as error:
            yield _gone(error)
        except HoldfastError as error:
            log.warning("a listener of session %s has to come back: %s", session.id, error)

    async def listing(self, view: Store, caller: Caller, since: int | None) -> AsyncGenerator[bytes, None]:
        yield RETRY
        try:
            async with (
                self._hub.listing(caller.principal) as channel,
                aclosing(self._listed(channel, view, caller, since)) as pieces,
            ):
                async for piece in pieces:
                    yield piece
        except HoldfastError as error:
            log.warning("a listener has to come back: %s", error)

    async def wait_for_session(
        self, view: Store, caller: Caller, session: Session, since: int, seconds: float
    ) -> Changes:
        """What changed after a revision, once something has, or when the time is over."""
        async with self._hub.session(session) as channel:
            number = channel.last
            changes = await view.changes(session.id, since, limit=PAGE)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while channel.is_open and changes.rev == since:
                        await channel.news(number)
                        number = channel.last
                        changes = await view.changes(session.id, since, limit=PAGE)
            await self._doorkeeper.readmit(caller)
            return changes

    async def wait_for_everything(
        self, view: Store, caller: Caller, since: int, mark: str | None, seconds: float
    ) -> ChangedEverything:
        """Which sessions changed after a position, and which question sets there are if they changed.

        Once something has, or when the time is over. Without a mark, the sets of now are known and told.
        """
        who = caller.principal
        async with self._hub.listing(who) as channel:
            number = channel.last
            changed = await view.changed_sessions(since, limit=PAGE)
            asked, marked = await self._inbox.now(view, who)
            known = mark or marked
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while channel.is_open and not (changed.sessions or changed.deleted or marked != known):
                        await channel.news(number)
                        number = channel.last
                        changed = await view.changed_sessions(since, limit=PAGE)
                        asked, marked = await self._inbox.now(view, who)
            await self._doorkeeper.readmit(caller)
            return ChangedEverything(
                **msgspec.structs.asdict(ChangedSessions.of(changed)),
                questions=None if marked == mark else asked,
                questions_mark=marked,
            )

    async def _heard(
        self, channel: Channel, view: Store, caller: Caller, session_id: SessionId, since: int
    ) -> AsyncGenerator[bytes, None]:
        place = _Place(since, channel)
        while channel.is_open and await self._doorkeeper.still_admits(caller):
            place.number = channel.last
            rows, more = FIRST_ROWS, True
            while more:
                piece, more = await _missed(view, session_id, place, rows)
                if piece:
                    rows = max(1, min(PAGE, rows * PAGE_BYTES // len(piece)))
                    yield piece
            async with aclosing(self._live(channel, place, caller)) as live:
                async for piece in live:
                    yield piece

    async def _listed(
        self, channel: Channel, view: Store, caller: Caller, since: int | None
    ) -> AsyncGenerator[bytes, None]:
        if since is None:
            async with aclosing(view.follow_all()) as items:
                now = await anext(items)
            since = now.position
            yield listing_frame(now).data
        place = _Place(since, channel)
        while channel.is_open and await self._doorkeeper.still_admits(caller):
            place.number = channel.last
            more = True
            while more:
                changed = await view.changed_sessions(place.at, limit=PAGE)
                more, place.at = changed.more, changed.position
                if changed.sessions or changed.deleted:
                    yield listing_frame(changed).data
            asked, _ = await self._inbox.now(view, caller.principal)
            yield questions_frame(asked).data
            async with aclosing(self._live(channel, place, caller)) as live:
                async for piece in live:
                    yield piece

    async def _live(self, channel: Channel, place: _Place, caller: Caller) -> AsyncGenerator[bytes, None]:
        """The channel's frames from a place on; ends when some were missed, or there are no more."""
        while channel.still_has(place.number):
            now = (channel.beats, self._doorkeeper.revocations)
            if caller.has_expired:
                return
            if now != place.looked_at:
                place.looked_at = now
                if not await self._doorkeeper.still_admits(caller):
                    return
            elif piece := _piece(channel, place, caller):
                yield piece
            elif channel.ended is not None:
                raise channel.ended
            elif channel.closed:
                return
            else:
                await channel.news(place.number)


async def _missed(view: Store, session_id: SessionId, place: _Place, rows: int) -> tuple[bytes, bool]:
    """The next page of what a listener has missed, and whether there is more; the place is then after it."""
    changes = await view.changes(session_id, place.at, limit=rows)
    if changes.rev <= place.at:
        return b"", changes.more
    place.at = changes.rev
    return session_frame(changes).data, changes.more


def _piece(channel: Channel, place: _Place, caller: Caller) -> bytes:
    """What is new for a listener, in one piece that is not long; the place is then after it.

    Of what the channel has for a slow listener, no more than that is kept for it alone.
    """
    new: list[bytes] = []
    size = 0
    for frame in channel.after(place.number):
        place.number = frame.number
        if frame.session is not None and not caller.principal.may_read(frame.session):
            raise SessionNotFound(frame.session.id)
        if frame.at is None or frame.at > place.at:
            place.at = place.at if frame.at is None else frame.at
            new.append(frame.data)
            size += len(frame.data)
            if size >= PIECE_BYTES:
                break
    return new[0] if len(new) == 1 else b"".join(new)


def _gone(error: HoldfastError) -> bytes:
    return frame("gone", msgspec.json.encode({"code": error.code, "detail": str(error)}))


def frame(event: str, data: bytes) -> bytes:
    """An event with JSON in it, which has no line breaks."""
    return b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"


async def while_listening(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives; it is given up when the client leaves, whom nobody can answer then."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return await working
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
