"""HTTP connections that do not wait for ever.

uvicorn reads a request's head for as long as it takes and however long it is; here it is given a
time and a size, so that neither slow nor endless heads keep connections and memory. What follows a
body has the same size. And uvicorn waits without end for the rest of a body that nobody reads any
more, and for one who does not take the answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from holdfast.server.problems import problem

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 32 * 1024

STUCK_SECONDS = 60.0
"""How long a client may take nothing of what is there for it, at least, before it is given up."""

MAX_PIPELINED = 16
"""How many requests may wait for an answer to another: each keeps a hundred times its bytes."""

LONG_HEAD = f"The request's head is too long; at most {MAX_HEAD_BYTES:,} bytes are taken."
LONG_TRAILERS = f"What comes with the body is too long; at most {MAX_HEAD_BYTES:,} bytes are taken beside it."
SLOW_HEAD = f"The request's head took longer than {HEAD_SECONDS:g} seconds; send it at once."
FULL = "As many connections are open as the server can have; come back when others have left."
NO_HTTP = "What was sent is no request of HTTP/1.1; was it meant for https? This port speaks http."


class _TooManyPipelined(Exception):
    """Ends the parser's work, and so the connection."""


def bounded(connections: int) -> type[BoundedProtocol]:
    """The protocol of a server that takes so many connections."""
    return type("BoundedProtocol", (BoundedProtocol,), {"max_connections": connections})


class BoundedProtocol(HttpToolsProtocol):
    max_connections: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._end_of_last = b""
        """The last bytes of a head that came so far, in which the blank line after it may begin."""
        self._idle_bytes = 0
        """What came since the last of a body: trailers, and what is said beside its chunks."""
        self._in_head = True
        self._deadline: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        """The request at work; the one that uvicorn would tell of a lost connection came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # So that writing is paused as long as anything is unsent, also when the connection is being closed.
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self.max_connections:
            transport.write(_full())
            transport.close()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            begin = self._end_of_last + data[:MAX_HEAD_BYTES]
            if self._head_bytes > MAX_HEAD_BYTES and b"\r\n\r\n" not in begin:
                self._refuse(431, LONG_HEAD)
                return
            self._end_of_last = begin[-3:]
        self._idle_bytes += len(data)
        super().data_received(data)
        if not self._in_head and self._idle_bytes > MAX_HEAD_BYTES:
            self._refuse(431, LONG_TRAILERS)
        if self._in_head and self._head_bytes and self._deadline is None:  # most heads come whole
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # uvicorn would add trailers to the headers of a request that is being answered
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise _TooManyPipelined
        super().on_headers_complete()
        self._in_head = False
        self._head_bytes = self._idle_bytes = 0
        self._end_of_last = b""
        self._stop_waiting()

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_head and self.cycle.response_complete:
            # With any more of the body, uvicorn forgets how long it would keep an idle connection.
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, NO_HTTP)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._refuse, 408, SLOW_HEAD)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _watch(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._watching = self.loop.call_later(STUCK_SECONDS, self._give_up_unless_below, unsent)

    def _give_up_unless_below(self, unsent: int) -> None:
        if self.transport.get_write_buffer_size() < unsent:
            self._watch()
        else:
            self.transport.abort()

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _refuse(self, status: int, detail: str) -> None:
        """Say why, where that can be understood, and hang up."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self._may_speak():
            self.transport.write(_written(problem(status, detail, headers={"Connection": "close"})))
        self.transport.close()

    def _may_speak(self) -> bool:
        """Whether something was asked, and what is said now does not stand in or after another answer."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._in_head:
            return self._head_bytes > 0 and (cycle is None or cycle.response_complete)
        return cycle is not None and not cycle.response_started and not self.pipeline


def _full() -> bytes:
    headers = {"Connection": "close", "Retry-After": "1"}
    code = "too_many_connections"
    return _written(problem(503, FULL, code=code, headers=headers, retriable=True, retry_after=1))


def _written(response: Response) -> bytes:
    """An answer as it goes over the wire, where no request came that an application could answer."""
    headers = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
    return b"".join([STATUS_LINE[response.status_code], *headers, b"\r\n", bytes(response.body)])
