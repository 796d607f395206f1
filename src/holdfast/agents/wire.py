"""JSON-RPC 2.0 as agents speak it: one JSON object per line, over a pipe each way.

Written by hand because an agent's output is not to be trusted: a line that is no JSON, no
object, too long, or an answer nobody asked for is reported with its raw text and survived.
Lines are taken in order, one at a time, and the next is read only when the last one was dealt
with, so what an agent says is stored in the order it said it, and a full store slows the agent
instead of filling the memory. Only requests of the agent run beside the reading, because some
wait for a person; when too many are open, the reading waits for one of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from holdfast.agents.lines import MAX_DEPTH, depth, mended
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.agents")

MAX_LINE = 32 * 1024 * 1024
"""The longest line that is read; a longer one is skipped."""

MAX_REQUESTS = 64
"""How many requests of an agent are worked on at a time."""

READ_SIZE = 256 * 1024

KEPT_LINES = 20
"""How many of the last lines are kept for the report of a crash."""

SHOWN = 500
"""How much of a line a log entry shows."""


class AgentError(HoldfastError):
    """The agent answered a request with an error."""

    code = "agent_error"
    status = 502

    def __init__(self, method: str, error: RpcError) -> None:
        super().__init__(f"The agent refused {method}: {error.message}{_detail(error.data)}")
        self.error = error


class ConnectionLost(HoldfastError):
    """The agent ended, or closed its pipes, before it answered."""

    code = "agent_lost"
    status = 502


class RpcError(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: Any = None


class Handler(Protocol):
    """What an agent's lines are handed to."""

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        """A notification. The next line waits until this returns."""

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        """A request: the result, or `Refusal`. Runs beside the reading."""


class Refusal(Exception):
    """Answers a request of the agent with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32002
REQUEST_CANCELLED = -32800

CANCEL_REQUEST = "$/cancel_request"

UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What comes of decoding something that an agent wrote, and that is not what it should be."""

_WITHDRAWN = "withdrawn by the agent"


class _Line(msgspec.Struct):
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Withdrawal(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_error = msgspec.json.Decoder(RpcError).decode
_decode_withdrawal = msgspec.json.Decoder(_Withdrawal).decode
_encode = msgspec.json.Encoder().encode


class Wire:
    """One connection. `run` reads until the agent closes its side."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
        handler: Handler,
        *,
        max_line: int = MAX_LINE,
    ) -> None:
        self.oddities = 0
        """How many lines were survived rather than understood."""
        self._read = read
        self._write = write
        self._handler = handler
        self._max_line = max_line
        self._last_lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._next_id = 0
        self._pending: dict[int, tuple[str, asyncio.Future[msgspec.Raw]]] = {}
        self._answering: dict[asyncio.Task[None], bytes] = {}
        """Requests of the agent, with the ids it gave them, which need not differ."""
        self._places = asyncio.Semaphore(MAX_REQUESTS)
        self._lost: ConnectionLost | None = None

    @property
    def last_lines(self) -> list[str]:
        """The last lines the agent wrote, shortened."""
        return [_shown(raw) for raw in self._last_lines]

    async def request(self, method: str, params: Any) -> msgspec.Raw:
        """The agent's answer. There is no limit of time here: a late answer is still an answer."""
        return await (await self.post(method, params))

    async def post(self, method: str, params: Any) -> asyncio.Future[msgspec.Raw]:
        """Send a request, and give back where its answer will be."""
        if self._lost is not None:
            raise self._lost
        self._next_id += 1
        number = self._next_id
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._pending.pop(number, None))
        self._pending[number] = (method, answer)
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        except BaseException:
            answer.cancel()
            raise
        return answer

    async def notify(self, method: str, params: Any) -> None:
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def run(self) -> None:
        """Read and dispatch until the end of the agent's output. Open requests fail then."""
        try:
            async with asyncio.TaskGroup() as requests:
                await self._read_lines(requests)
                for task in self._answering:
                    task.cancel()  # nobody is left to hear the answer
        finally:
            self.lose("The agent closed its output.")

    def lose(self, why: str) -> None:
        """Fail everything that waits for the agent."""
        self._lost = self._lost or ConnectionLost(why)
        for _, answer in self._pending.values():
            if not answer.done():
                answer.set_exception(self._lost)
                answer.exception()  # whoever waits is told; an answer nobody waits for is nobody's error

    async def _read_lines(self, requests: asyncio.TaskGroup) -> None:
        buffer = bytearray()
        skipping = False
        while data := await self._read(READ_SIZE):
            start = 0
            while (end := data.find(b"\n", start)) >= 0:
                if skipping:
                    skipping = False
                elif buffer:
                    buffer += data[start:end]
                    await self._take(bytes(buffer), requests)
                else:
                    await self._take(data[start:end], requests)
                buffer.clear()
                start = end + 1
            if not skipping:
                buffer += data[start:]
            if len(buffer) > self._max_line:
                self._too_long(bytes(buffer[:SHOWN]))
                skipping = True
                buffer.clear()
        if buffer:
            await self._take(bytes(buffer), requests)

    async def _take(self, raw: bytes, requests: asyncio.TaskGroup) -> None:
        if len(raw) > self._max_line:  # its end came together with what made it too long
            self._too_long(raw[:SHOWN])
            return
        if not raw or raw.isspace():
            return
        self._last_lines.append(raw[:SHOWN])
        if depth(raw) > MAX_DEPTH:
            self._odd(f"a line is nested deeper than {MAX_DEPTH}", raw)
            return
        try:
            text = mended(raw)
            line = _decode_line(text)
        except UNREADABLE as error:
            self._odd(f"a line is not JSON-RPC ({error})", raw)
            return
        if text != raw:
            self._odd("a line has parts that are no text", raw)
        if line.method is not msgspec.UNSET:
            if line.id is msgspec.UNSET:
                await self._notified(line.method, line.params, raw)
            else:
                await self._begin_answer(bytes(line.id), line.method, line.params, requests)
        elif line.id is not msgspec.UNSET:
            self._answered(line, raw)
        else:
            self._odd("a line has neither a method nor an id", raw)

    async def _begin_answer(
        self, number: bytes, method: str, params: msgspec.Raw, requests: asyncio.TaskGroup
    ) -> None:
        await self._places.acquire()
        task = requests.create_task(self._requested(number, method, params))
        self._answering[task] = number
        task.add_done_callback(self._forget)
        await asyncio.sleep(0)  # a task that has not begun could not answer when it is withdrawn

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._answering[task]
        self._places.release()

    async def _notified(self, method: str, params: msgspec.Raw, raw: bytes) -> None:
        try:
            if method == CANCEL_REQUEST:
                self._withdrawn(_decode_withdrawal(params).request_id)
            else:
                await self._handler.notified(method, params)
        except UNREADABLE as error:
            self._odd(f"{method} has another shape ({error})", raw)

    def _withdrawn(self, number: msgspec.Raw) -> None:
        """The agent no longer wants the answer to one of its requests."""
        for task, its_number in self._answering.items():
            if its_number == bytes(number):
                task.cancel(_WITHDRAWN)

    async def _requested(self, number: bytes, method: str, params: msgspec.Raw) -> None:
        """Answer a request of the agent, under the id it gave, whatever its type."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": msgspec.Raw(number)}
        try:
            answer["result"] = await self._handler.requested(method, params)
        except asyncio.CancelledError as cancelled:
            if cancelled.args != (_WITHDRAWN,):
                raise
            answer["error"] = {"code": REQUEST_CANCELLED, "message": "The request was withdrawn."}
        except Refusal as refusal:
            answer["error"] = {"code": refusal.code, "message": str(refusal)}
        except UNREADABLE as error:
            answer["error"] = {"code": INVALID_PARAMS, "message": str(error)}
        except HoldfastError as error:
            answer["error"] = {"code": INTERNAL_ERROR, "message": str(error)}
        except Exception:  # a fault of ours must not end the conversation
            log.exception("%s could not be answered", method)
            answer["error"] = {"code": INTERNAL_ERROR, "message": f"{method} failed; the log says why."}
        try:
            await self._send(answer)
        except ConnectionLost:
            log.info("the agent ended before it got its answer to %s", method)

    def _answered(self, line: _Line, raw: bytes) -> None:
        try:
            number = msgspec.json.decode(bytes(line.id), type=int)  # type: ignore[arg-type]
        except msgspec.ValidationError:
            number = 0
        method, answer = self._pending.get(number, ("", None))
        if answer is None or answer.done():
            self._odd("an answer to nothing that was asked", raw)
        elif bytes(line.error) != b"null":
            answer.set_exception(AgentError(method, _rpc_error(line.error)))
        else:
            answer.set_result(msgspec.Raw(b"null") if line.result is msgspec.UNSET else line.result)

    async def _send(self, message: dict[str, Any]) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            await self._write(_encode(message) + b"\n")
        except (ConnectionError, RuntimeError) as error:
            self.lose(f"The pipe to the agent broke: {str(error) or type(error).__name__}.")
            assert self._lost is not None
            raise self._lost from error

    def _too_long(self, beginning: bytes) -> None:
        self._odd(f"a line longer than {self._max_line} bytes was skipped", beginning)

    def _odd(self, what: str, raw: bytes) -> None:
        self.oddities += 1
        log.warning("%s: %s", what, _shown(raw))


def _rpc_error(raw: msgspec.Raw) -> RpcError:
    """The error of an answer; one in another shape is its own message."""
    try:
        return _decode_error(raw)
    except UNREADABLE:
        return RpcError(message=_shown(bytes(raw)))


def _shown(raw: bytes) -> str:
    return raw[:SHOWN].decode(errors="replace")


def _detail(data: Any) -> str:
    """The sentence in an error's data, where agents put what their message does not say."""
    match data:
        case str(text) | {"details": str(text)} | {"message": str(text)}:
            return f" ({text})"
    return ""
