"""An embeddings endpoint on loopback: it embeds a text by the topics that it names."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOPICS = (("cat", "kitten"), ("car", "automobile"), ("tea", "beverage"))
DIMENSIONS = len(TOPICS)


class EmbeddingsServer(ThreadingHTTPServer):
    """`broken` is a status to answer with, or a body instead of embeddings."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.broken: int | bytes | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def embeddings_server() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingsServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.keys.append(self.headers.get("Authorization"))
        if isinstance(self.server.broken, int):
            self._answer(self.server.broken, b"{}")
        elif self.server.broken is not None:
            self._answer(200, self.server.broken)
        else:
            data = [{"index": n, "embedding": _embedded(text)} for n, text in enumerate(body["input"])]
            self._answer(200, json.dumps({"data": data[::-1]}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _embedded(text: str) -> list[float]:
    return [0.01 + sum(text.lower().count(word) for word in words) for words in TOPICS]
