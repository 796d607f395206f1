"""A model that answers by rule: the Responses API on loopback, without an account.

It lets a newcomer see everything, and the tests use it as the real server that it is. Its answer
names the files and chunks that it was given. Words in the instruction make it do otherwise:

    SLOW        a word each tenth of a second       BUSY:n     refuses n times, to be asked again at once
    HANG        says nothing until it is closed     ERR500     fails before the first word
    CUT         breaks off in the middle            FAIL       ends its response as failed
    TOOL        asks for a tool to be called        EDIT       answers with a file to be created
    ODD         says what no column can keep

It keeps its responses, goes on from them, and gives them again by id, as OpenAI's server does;
`forget` makes it lose them.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Body = dict[str, Any]

WORD_SECONDS = 0.1

_ORDER = re.compile(r"\b(SLOW|HANG|CUT|TOOL|BUSY|ERR500|FAIL|EDIT|ODD)\b(?::(\d+))?")
_GIVEN = re.compile(r"^Path: (.+)$(?:\n(?:Sha256: .*|Lines: (\d+-\d+)))?", re.MULTILINE)
_INSTRUCTION = re.compile(r"\[INSTRUCTION\]\n(.*)\Z", re.DOTALL)


class DemoModel:
    """A server on loopback, as long as its context is open."""

    def __init__(self, port: int = 0, *, unknown_status: int = 400) -> None:
        """`unknown_status` is the answer for a response that it does not have: servers differ in it."""
        self.requests: list[Body] = []
        """The bodies of all requests for a response, in the order in which they came."""
        self._unknown_status = unknown_status
        self._responses: dict[str, Body] = {}
        self._refusals: dict[str, int] = {}
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def forget(self) -> None:
        """Lose every response."""
        self._responses.clear()

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path != "/v1/responses":
                    _refuse(self, 404, "not_found", f"There is no {self.path}")
                    return
                model.requests.append(body)
                with suppress(BrokenPipeError, ConnectionResetError):
                    model._respond(self, body)

            def do_GET(self) -> None:
                response = model._responses.get(self.path.rpartition("/")[2])
                if response is None:
                    _refuse(self, 404, "not_found", "No response with this id")
                else:
                    _send_json(self, 200, response)

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        return Handler

    def _respond(self, handler: BaseHTTPRequestHandler, body: Body) -> None:
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self._responses:
            code = "previous_response_not_found"
            _refuse(handler, self._unknown_status, code, f"Previous response with id '{previous}' not found")
            return
        if call := _unanswered(self._responses.get(previous or ""), body["input"]):
            _refuse(handler, 400, None, f"No tool output found for function call {call}")
            return
        text = _text_of(body["input"][-1])
        order, number = _order(text)
        if order == "BUSY" and self._refusals.setdefault(text, int(number or 1)) > 0:
            self._refusals[text] -= 1
            _refuse(handler, 429, "rate_limit_exceeded", "Too many requests", {"Retry-After": "0"})
            return
        if order == "ERR500":
            _refuse(handler, 500, "server_error", "The model is out of order")
            return
        response = _response(body, text, order)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for number_, event in enumerate(self._events(response, order)):
            line = json.dumps(event | {"sequence_number": number_})
            handler.wfile.write(f"event: {event['type']}\ndata: {line}\n\n".encode())
            handler.wfile.flush()
        handler.close_connection = True

    def _events(self, response: Body, order: str | None) -> Iterator[Body]:
        begun = response | {"status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": begun}
        if response["store"]:
            self._responses[response["id"]] = response
        if order == "HANG":
            self._closing.wait()
            return
        if order == "FAIL":
            error = {"code": "server_error", "message": "It cannot think any further"}
            failed = begun | {"status": "failed", "error": error}
            self._responses.pop(response["id"], None)
            yield {"type": "response.failed", "response": failed}
            return
        message = next(item for item in response["output"] if item["type"] == "message")
        words = re.findall(r"\S*\s*", message["content"][0]["text"])[:-1]
        for number, word in enumerate(words):
            if order == "CUT" and number == len(words) // 2:
                return
            if order == "SLOW" and self._closing.wait(WORD_SECONDS):
                return
            yield {
                "type": "response.output_text.delta",
                "item_id": message["id"],
                "output_index": 0,
                "content_index": 0,
                "delta": word,
                "logprobs": [],
            }
        yield {"type": "response.completed", "response": response}


def _unanswered(previous: Body | None, items: list[Body]) -> str | None:
    """A tool call of the response before this one that the input has no output for."""
    answered = {item.get("call_id") for item in items}
    output = previous["output"] if previous else []
    calls = (item["call_id"] for item in output if item["type"] == "function_call")
    return next((call for call in calls if call not in answered), None)


def _response(body: Body, text: str, order: str | None) -> Body:
    said = _answer(text, order)
    message = {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": said, "annotations": []}],
    }
    call = {
        "id": f"fc_{uuid.uuid4().hex}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{uuid.uuid4().hex}",
        "name": "look",
        "arguments": "{}",
    }
    words = sum(len(_text_of(item).split()) for item in body["input"])
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body["model"],
        "output": [message, call] if order == "TOOL" else [message],
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": bool(body.get("store", True)),
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": {
            "input_tokens": words,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": len(said.split()),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": words + len(said.split()),
        },
    }


def _answer(text: str, order: str | None) -> str:
    if order == "EDIT":
        bundle = {
            "root": ".",
            "files": [{"path": "hello.txt", "operation": "create", "content": "hello\n"}],
        }
        return f"I create a file that says hello.\n\n```json\n{json.dumps(bundle)}\n```\n"
    if order == "ODD":
        return "a\0b"
    places = [f"{path}:{lines}" if lines else path for path, lines in _GIVEN.findall(text)]
    if not places:
        return "I was given no file and no chunk to look at. "
    return "It is in one of these:\n\n" + "".join(f"- {place}\n" for place in places)


def _order(text: str) -> tuple[str | None, str | None]:
    instruction = _INSTRUCTION.search(text.partition("\n\n[FILES]")[0].partition("\n\n[CONTEXT]")[0])
    found = _ORDER.search(instruction[1] if instruction else text)
    return (found[1], found[2]) if found else (None, None)


def _text_of(item: Body) -> str:
    content = item.get("content", "")
    if isinstance(content, str):
        return content
    return "\n\n".join(part.get("text", "") for part in content)


def _refuse(
    handler: BaseHTTPRequestHandler,
    status: int,
    code: str | None,
    message: str,
    headers: dict[str, str] | None = None,
) -> None:
    error = {"message": message, "type": "invalid_request_error", "code": code, "param": None}
    _send_json(handler, status, {"error": error}, headers)


def _send_json(
    handler: BaseHTTPRequestHandler, status: int, body: Body, headers: dict[str, str] | None = None
) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)
