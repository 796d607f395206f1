"""A server on loopback that speaks as much of the Responses API as a summary takes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class ModelServer:
    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.answer: dict[str, Any] = responded("They agreed on PostgreSQL.")
        self.status = 200
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        named = (line.partition(": ") for line in head.splitlines())
        fields = {name.lower(): value for name, _, value in named}
        self.keys.append(fields["authorization"])
        self.requests.append(json.loads(await reader.readexactly(int(fields["content-length"]))))
        body = json.dumps(self.answer).encode()
        writer.write(
            f"HTTP/1.1 {self.status} OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        writer.close()


def responded(text: str, status: str = "completed") -> dict[str, Any]:
    said = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m1", "role": "assistant", "status": status, "content": [said]}
    return {
        "id": "r1",
        "object": "response",
        "created_at": 0,
        "model": "small",
        "status": status,
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    model = ModelServer()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    async with server:
        model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield model
