"""A model on loopback that does as the prompt says, for agents that would otherwise need an account.

It speaks what Gemini CLI, codex-acp (OpenAI Responses) and hermes (OpenAI chat completions) call.
The last of these words in the last prompt decides; any other prompt is answered with ANSWER:

    TOOLWRITE   asks for a file to be written      SLOW      a word each half second, for a minute
    TOOLSLEEP   asks for a command to be run       FLOOD:n   n words as fast as possible
    TOOLASK     asks for a question to a person    HANG      says nothing, for a minute
    TOOLCOMMIT  asks for a commit                  ERR500    fails

Once the tool's result is there, the answer quotes it.
"""

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

ANSWER = ("The ", "answer ", "is ", "forty-two.")
WRITTEN_NAME, WRITTEN_TEXT = "hello.txt", "hello\n"
COMMANDS = {
    "sleep": "sleep 600",
    "commit": "git -c user.name=a -c user.email=a@example.org commit --quiet --allow-empty -m committed",
}
PATCH_COMMAND = (
    f"apply_patch <<'END'\n*** Begin Patch\n*** Add File: {WRITTEN_NAME}\n+{WRITTEN_TEXT}*** End Patch\nEND"
)
"""How codex writes a file: it has no tool for that, but recognises this command."""
QUESTION = {
    "title": "Colour",
    "prompt": "Which colour?",
    "options": [{"label": "Red"}, {"label": "Blue"}],
    "multiSelect": False,
}
"""What is asked with the tool of Holdfast's MCP server."""
INPUT_TOKENS, OUTPUT_TOKENS = 22, 14

ORDER = re.compile(r"\b(TOOLWRITE|TOOLSLEEP|TOOLCOMMIT|TOOLASK|ERR500|SLOW|FLOOD|HANG)\b(?::(\d+))?")
WORD_SECONDS = 0.5
LONG_SECONDS = 60.0

CHAT_ROLES = {"user": "user", "assistant": "model", "tool": "tool"}

Body = dict[str, Any]


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Call:
    """A wish to use a tool: `write`, `ask`, or one of COMMANDS."""

    tool: str


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Asked:
    """What the model was asked, in the words that all three dialects have."""

    conversation: tuple[tuple[str, str], ...]
    """`user`, `model` or `tool`, and what was said."""
    offers_tools: bool
    """A request without tools is for a title or the like, and not a turn."""

    @property
    def prompt(self) -> str:
        return next((text for who, text in reversed(self.conversation) if who == "user"), "")

    @property
    def order(self) -> tuple[str, int]:
        """The word that decides, and its number."""
        orders = ORDER.findall(self.prompt) if self.offers_tools else []
        word, number = orders[-1] if orders else ("", "")
        return word, int(number or 0)

    @property
    def tool_result(self) -> str | None:
        """What a tool said, if it was the last to speak."""
        who, text = self.conversation[-1] if self.conversation else ("", "")
        return text if who == "tool" else None

    def contains(self, text: str) -> bool:
        return any(text in said for _, said in self.conversation)


def reply(asked: Asked) -> Iterator[Say | Call | Pause]:
    if asked.tool_result is not None:
        yield Say("The tool said: ")
        yield Say(asked.tool_result)
        return
    match asked.order:
        case "TOOLWRITE", _:
            yield Call("write")
        case "TOOLSLEEP", _:
            yield Call("sleep")
        case "TOOLCOMMIT", _:
            yield Call("commit")
        case "TOOLASK", _:
            yield Call("ask")
        case "SLOW", _:
            for number in range(int(LONG_SECONDS / WORD_SECONDS)):
                yield Say(f"slow{number} ")
                yield Pause(WORD_SECONDS)
        case "FLOOD", count:
            yield from (Say(f"{number} ") for number in range(count))
        case "HANG", _:
            yield Pause(LONG_SECONDS)
        case _:
            yield from map(Say, ANSWER)


class Dialect(Protocol):
    def asked(self, body: Body) -> Asked: ...

    def stream(self, steps: Iterator[Say | Call | Pause]) -> Iterator[Body | Pause]:
        """The reply as the data of server-sent events."""

    def whole(self, asked: Asked) -> Body:
        """The reply to a request that wants no stream."""


class GeminiDialect:
    def asked(self, body: Body) -> Asked:
        said = [
            self._said(content["role"], part) for content in body["contents"] for part in content["parts"]
        ]
        return Asked(tuple(said), offers_tools=bool(body.get("tools")))

    def stream(self, steps: Iterator[Say | Call | Pause]) -> Iterator[Body | Pause]:
        for step in steps:
            match step:
                case Say(text):
                    yield self._chunk([{"text": text}])
                case Call(tool):
                    yield self._chunk([{"functionCall": self._call(tool)}])
                case Pause():
                    yield step
        yield self._chunk([{"text": ""}], finishReason="STOP")

    def whole(self, asked: Asked) -> Body:
        """Gemini CLI asks how complex a prompt is, to choose a model for it."""
        judgement = {"complexity_reasoning": "It is simple.", "complexity_score": 10}
        return self._chunk([{"text": json.dumps(judgement)}], finishReason="STOP")

    def _said(self, role: str, part: Body) -> tuple[str, str]:
        if "functionResponse" in part:
            return "tool", json.dumps(part["functionResponse"]["response"])
        return role, part.get("text") or json.dumps(part)

    def _call(self, tool: str) -> Body:
        match tool:
            case "write":
                return {
                    "name": "write_file",
                    "args": {"file_path": WRITTEN_NAME, "content": WRITTEN_TEXT},
                }
            case "ask":
                return {"name": "mcp_holdfast_ask_user_questions", "args": {"questions": [QUESTION]}}
        arguments = {"command": COMMANDS[tool], "description": "Run a command"}
        return {"name": "run_shell_command", "args": arguments}

    def _chunk(self, parts: list[Body], **candidate: str) -> Body:
        usage = {
            "promptTokenCount": INPUT_TOKENS,
            "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **candidate}],
            "usageMetadata": usage,
        }


class ResponsesDialect:
    def asked(self, body: Body) -> Asked:
        said = tuple(said for item in body["input"] if (said := self._said(item)) is not None)
        return Asked(said, offers_tools=bool(body.get("tools")))

    def stream(self, steps: Iterator[Say | Call | Pause]) -> Iterator[Body | Pause]:
        yield {"type": "response.created", "response": {"id": "response"}}
        text = ""
        for step in steps:
            match step:
                case Say(piece):
                    if not text:
                        yield {"type": "response.output_item.added", "item": self._message("")}
                    text += piece
                    yield {"type": "response.output_text.delta", "delta": piece}
                case Call(tool):
                    yield {"type": "response.output_item.done", "item": self._call(tool)}
                case Pause():
                    yield step
        if text:
            yield {"type": "response.output_item.done", "item": self._message(text)}
        yield {"type": "response.completed", "response": self._completed()}

    def whole(self, asked: Asked) -> Body:
        return self._completed()

    def _said(self, item: Body) -> tuple[str, str] | None:
        kind = item.get("type", "message")
        if kind.endswith("_output"):
            output = item["output"]
            return "tool", output if isinstance(output, str) else json.dumps(output)
        if kind == "message" and item["role"] in ("user", "assistant"):
            text = "".join(part.get("text", "") for part in item["content"])
            return ("user" if item["role"] == "user" else "model"), text
        return None

    def _message(self, text: str) -> Body:
        content = [{"type": "output_text", "text": text}]
        return {"type": "message", "role": "assistant", "id": "message", "content": content}

    def _call(self, tool: str) -> Body:
        call = {"type": "function_call", "call_id": _call_id()}
        if tool == "ask":
            arguments = json.dumps({"questions": [QUESTION]})
            call |= {"namespace": "mcp__holdfast", "name": "ask_user_questions", "arguments": arguments}
        else:
            arguments = json.dumps({"cmd": PATCH_COMMAND if tool == "write" else COMMANDS[tool]})
            call |= {"name": "exec_command", "arguments": arguments}
        return call

    def _completed(self) -> Body:
        usage = {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": None,
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": None,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        return {"id": "response", "output": [], "usage": usage}


class ChatDialect:
    def asked(self, body: Body) -> Asked:
        said = [
            (CHAT_ROLES[message["role"]], self._text(message))
            for message in body["messages"]
            if message["role"] in CHAT_ROLES
        ]
        return Asked(tuple(said), offers_tools=bool(body.get("tools")))

    def stream(self, steps: Iterator[Say | Call | Pause]) -> Iterator[Body | Pause]:
        finish = "stop"
        for step in steps:
            match step:
                case Say(text):
                    yield self._chunk({"role": "assistant", "content": text})
                case Call(tool):
                    finish = "tool_calls"
                    yield self._chunk({"role": "assistant", "tool_calls": [self._call(tool)]})
                case Pause():
                    yield step
        yield self._chunk({}, finish)
        yield {**self._chunk({}), "choices": [], "usage": self._usage()}

    def whole(self, asked: Asked) -> Body:
        """hermes asks for a title."""
        message = {"role": "assistant", "content": "A title"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return {"id": "chat", "object": "chat.completion", "choices": choices, "usage": self._usage()}

    def _text(self, message: Body) -> str:
        content = message.get("content") or ""
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

    def _call(self, tool: str) -> Body:
        name: str
        arguments: Body
        match tool:
            case "write":
                name, arguments = "write_file", {"path": WRITTEN_NAME, "content": WRITTEN_TEXT}
            case "ask":
                name, arguments = "mcp__holdfast__ask_user_questions", {"questions": [QUESTION]}
            case _:
                name, arguments = "terminal", {"command": COMMANDS[tool]}
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"index": 0, "id": _call_id(), "type": "function", "function": function}

    def _chunk(self, delta: Body, finish: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "chat", "object": "chat.completion.chunk", "model": "fake", "choices": [choice]}

    def _usage(self) -> Body:
        return {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }


def _call_id() -> str:
    """A new one each time: hermes loses the result of a call whose id it has seen before."""
    return f"call-{uuid.uuid4().hex}"


class ModelServer(ThreadingHTTPServer):
    """Answers on `url` while it is entered, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.asked: list[Asked] = []
        """The requests of turns, in order. One that runs a tool makes two."""
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Exchange(BaseHTTPRequestHandler):
    """One request and its answer; the connection is closed after it."""

    server: ModelServer

    def do_GET(self) -> None:
        """Agents look up what the model can do, and manage without."""
        self._send_json({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if path.endswith(":countTokens"):
            self._send_json({"totalTokens": INPUT_TOKENS})
        elif path.endswith("GenerateContent") or path.endswith(":generateContent"):
            self._answer(GeminiDialect(), body, stream=path.endswith(":streamGenerateContent"))
        elif path.endswith("/responses"):
            self._answer(ResponsesDialect(), body, stream=body.get("stream", False))
        elif path.endswith("/chat/completions"):
            self._answer(ChatDialect(), body, stream=body.get("stream", False))
        else:
            self._send_json({})

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the tests look at `asked`."""

    def _answer(self, dialect: Dialect, body: Body, *, stream: bool) -> None:
        asked = dialect.asked(body)
        if asked.offers_tools:
            self.server.asked.append(asked)
        if not stream:
            self._send_json(dialect.whole(asked))
        elif asked.order[0] == "ERR500":
            self._send_json({"error": {"code": 500, "message": "The model was told to fail."}}, status=500)
        else:
            with suppress(ConnectionError):  # the agent was cancelled, or is gone
                self._send_events(dialect.stream(reply(asked)))

    def _send_events(self, events: Iterator[Body | Pause]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            if isinstance(event, Pause):
                if self.server.closing.wait(event.seconds):
                    return
            else:
                kind = f"event: {event['type']}\r\n" if "type" in event else ""
                self.wfile.write(f"{kind}data: {json.dumps(event)}\r\n\r\n".encode())

    def _send_json(self, body: Body, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
