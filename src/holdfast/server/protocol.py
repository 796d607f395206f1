"""HTTP connections that do not wait for ever.

uvicorn reads a request's head for as long as it takes and however long it is; here it is given a
time and a size, so that neither slow nor endless heads keep connections and memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 32 * 1024


class BoundedProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._deadline is None:
                self._await_head()
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and b"\r\n\r\n" not in data[:MAX_HEAD_BYTES]:
                self._refuse(431)
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._refuse, 408)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: int) -> None:
        """Say why, and hang up; a connection on which nothing was ever said is just closed."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self._head_bytes:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
