"""Callers of a server, in a process of their own: what they cost is not measured with the server.

    python -m benchmarks.http_load get URL TOKEN CONNECTIONS SECONDS
    python -m benchmarks.http_load post URL TOKEN CONNECTIONS COUNT      the body comes on standard input
    python -m benchmarks.http_load listen URL TOKEN COUNT

Each prints one line of JSON when it is done. `listen` first prints `ready`, once every listener has heard
something, and ends when all of them have heard that a turn is completed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from urllib.parse import urlsplit

STAMP = re.compile(rb'"text":"(\d+) ')
"""The oldest of the times in an update: the agent's writing of it, in nanoseconds of the monotonic clock."""


class Caller:
    """One connection that is kept, with one request at a time."""

    def __init__(self, url: str, request: bytes) -> None:
        self._where = urlsplit(url)
        self._request = request
        self.answered = 0
        self.failed = 0
        self.latencies: list[float] = []

    async def run(self, until: float = float("inf"), count: int = sys.maxsize) -> None:
        assert self._where.hostname is not None
        reader, writer = await asyncio.open_connection(self._where.hostname, self._where.port)
        while self.answered < count and (begin := time.monotonic()) < until:
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            self.latencies.append(time.monotonic() - begin)
            self.answered += 1
            self.failed += not head.startswith(b"HTTP/1.1 2")
        writer.close()


class Listener(asyncio.Protocol):
    """Hears a feed, and notes how late each update comes."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self._rest = b""
        self.finished = asyncio.get_running_loop().create_future()
        self.lags: list[float] = []

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if b"event: change" in event:
                self.heard.set()
                if (found := STAMP.search(event)) and b'"deltas":[{' in event:
                    self.lags.append((now - int(found[1])) / 1e6)
                if b'"status":"completed"' in event and not self.finished.done():
                    self.finished.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(error or ConnectionError("the feed ended"))


async def get(url: str, token: str, connections: int, seconds: float) -> dict[str, float]:
    """Ask for the same again and again, for so long."""
    callers = [Caller(url, _request("GET", url, token)) for _ in range(connections)]
    begin = time.monotonic()
    await asyncio.gather(*(caller.run(until=begin + seconds) for caller in callers))
    took = time.monotonic() - begin
    answered = sum(caller.answered for caller in callers)
    return {"rate": answered / took, "failed": sum(caller.failed for caller in callers)}


async def post(urls: str, token: str, connections: int, count: int) -> dict[str, float]:
    """Send the same body so often on each connection, to the addresses in turn."""
    body = sys.stdin.buffer.read()
    addresses = urls.split(",")
    callers = [
        Caller(url, _request("POST", url, token, body))
        for url in (addresses[number % len(addresses)] for number in range(connections))
    ]
    begin = time.monotonic()
    await asyncio.gather(*(caller.run(count=count) for caller in callers))
    took = time.monotonic() - begin
    latencies = sorted(latency for caller in callers for latency in caller.latencies)
    return {
        "rate": len(latencies) / took,
        "failed": sum(caller.failed for caller in callers),
        "p99": latencies[int(len(latencies) * 0.99)],
    }


async def listen(url: str, token: str, count: int) -> dict[str, float]:
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    loop = asyncio.get_running_loop()
    listeners = []
    for _ in range(count):
        transport, listener = await loop.create_connection(Listener, where.hostname, where.port)
        transport.write(_request("GET", url, token))
        await listener.heard.wait()
        listeners.append(listener)
    print("ready", flush=True)
    await asyncio.gather(*(listener.finished for listener in listeners))
    lags = sorted(lag for listener in listeners for lag in listener.lags)
    return {"p50": lags[len(lags) // 2], "p99": lags[int(len(lags) * 0.99)], "updates": len(lags)}


def _request(method: str, url: str, token: str, body: bytes = b"") -> bytes:
    where = urlsplit(url)
    target = where.path + (f"?{where.query}" if where.query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def main(kind: str, url: str, token: str, *numbers: str) -> None:
    match kind:
        case "get":
            found = await get(url, token, int(numbers[0]), float(numbers[1]))
        case "post":
            found = await post(url, token, int(numbers[0]), int(numbers[1]))
        case _:
            found = await listen(url, token, int(numbers[0]))
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
