"""What is left of a model's stream: nothing, however reading it ended."""

import asyncio
import gc
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import AsyncGeneratorType

import pytest

from holdfast.execution.responses import ModelAnswer, Provider
from tests.execution.worlds import KEY_VARIABLE, World

BODY = {"model": "demo", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]}


def left_in_the_middle() -> list[str]:
    """Generators of the libraries below us that wait for somebody to read on."""
    return [
        each.__qualname__
        for each in gc.get_objects()
        if isinstance(each, AsyncGeneratorType)
        and each.ag_frame is not None
        and any(part in each.ag_code.co_filename for part in ("/openai/", "/httpx2/", "/httpcore2/"))
    ]


async def began(response_id: str) -> None:
    assert response_id


async def test_an_answer_leaves_nothing_half_read(world: World) -> None:
    provider = world.provider()
    said: list[str] = []

    async def added(text: str) -> None:
        said.append(text)

    answer = await provider.answer(BODY, began, added)
    assert isinstance(answer, ModelAnswer)
    assert "".join(said) == answer.text
    assert left_in_the_middle() == []
    await provider.close()


@pytest.mark.parametrize("fault", [RuntimeError("broken"), asyncio.CancelledError()], ids=repr)
async def test_a_failure_while_reading_leaves_nothing_half_read(world: World, fault: BaseException) -> None:
    provider = world.provider()

    async def added(text: str) -> None:
        raise fault

    with pytest.raises(type(fault)):
        await provider.answer(BODY, began, added)
    assert left_in_the_middle() == []
    await provider.close()


@pytest.mark.parametrize(
    ("kind", "sent"), [("text/html", b"<html>Back soon</html>"), ("application/json", b"{cut")]
)
async def test_what_is_fetched_and_is_no_response_is_none(kind: str, sent: bytes) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        provider = Provider(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key_env=KEY_VARIABLE)
        assert await provider.fetch("resp_1") is None
        await provider.close()
        server.shutdown()
