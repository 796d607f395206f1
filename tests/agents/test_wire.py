"""The wire, against real processes that say odd things."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agents.process import AgentProcess
from holdfast.agents.sandbox import Sandbox
from holdfast.agents.wire import MAX_REQUESTS, UNKNOWN_METHOD, AgentError, ConnectionLost, Refusal, Wire
from tests.agents.scripts import script

pytestmark = pytest.mark.usefixtures("process")


class Recording:
    """A handler that keeps what it was given, and answers what it knows."""

    def __init__(self) -> None:
        self.notified_with: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        await asyncio.sleep(0)
        self.notified_with.append((method, msgspec.json.decode(params)))

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        if method not in self.answers:
            raise Refusal(UNKNOWN_METHOD, f"unknown method {method}")
        return self.answers[method]


async def talk(tmp_path: Path, body: str, handler: Recording, **options: int) -> tuple[Wire, AgentProcess]:
    process = await AgentProcess.start(script(tmp_path, body), tmp_path, Sandbox.none(dict(os.environ)))
    return Wire(process.read, process.write, handler, **options), process


async def listen(tmp_path: Path, body: str, **options: int) -> tuple[Wire, Recording]:
    """Everything an agent says until it ends."""
    handler = Recording()
    wire, process = await talk(tmp_path, body, handler, **options)
    await wire.run()
    await process.end()
    return wire, handler


ODD = [
    "this is no JSON",
    '{"jsonrpc": "2.0", "method": ',
    "[1, 2, 3]",
    "42",
    "null",
    '"text"',
    '{"jsonrpc": "2.0"}',
    '{"id": 99, "result": {}}',
    '{"id": "unasked", "result": {}}',
    '{"id": null, "error": {"code": 1, "message": "x"}}',
    '{"method": 7}',
    '{"id": 1, "error": "not an object"}',
]


@pytest.mark.req("ACP-17")
async def test_odd_lines_are_logged_raw_and_the_reading_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = f"for line in {ODD!r}:\n    send(line)\nsend({{'method': 'last', 'params': {{'n': 1}}}})"
    wire, handler = await listen(tmp_path, body)
    assert handler.notified_with == [("last", {"n": 1})]
    assert wire.oddities == len(ODD)
    for line in ODD:
        assert line in caplog.text


@pytest.mark.req("ACP-17")
async def test_bytes_that_are_no_text_and_empty_lines_are_survived(tmp_path: Path) -> None:
    body = r"""
sys.stdout.buffer.write(b"\xff\xfe\x00\n\n   \n\r\n"); sys.stdout.flush()
send({"method": "fine"})
sys.stdout.buffer.write(b'{"method": "cut off without a newline"}'); sys.stdout.flush()
"""
    _, handler = await listen(tmp_path, body)
    assert [method for method, _ in handler.notified_with] == ["fine", "cut off without a newline"]


async def test_a_line_of_twenty_megabytes_is_read(tmp_path: Path) -> None:
    _, handler = await listen(tmp_path, "send({'method': 'big', 'params': {'t': 'x' * 20_000_000}})")
    assert len(handler.notified_with[0][1]["t"]) == 20_000_000


async def test_a_line_beyond_the_cap_is_skipped_and_the_next_one_read(tmp_path: Path) -> None:
    body = "send('y' * 3_000_000)\nsend({'method': 'next'})\nsend('z' * 3_000_000)\nsend({'method': 'last'})"
    wire, handler = await listen(tmp_path, body, max_line=1_000_000)
    assert [method for method, _ in handler.notified_with] == ["next", "last"]
    assert wire.oddities == 2


async def test_lines_are_taken_in_order(tmp_path: Path) -> None:
    _, handler = await listen(tmp_path, "for n in range(5000): send({'method': 'n', 'params': n})")
    assert [params for _, params in handler.notified_with] == list(range(5000))


async def test_requests_and_answers_meet_by_id_and_errors_are_told(tmp_path: Path) -> None:
    body = """
for message in lines():
    if message["method"] == "stop": break
    if message["method"] == "bad":
        send({"id": message["id"], "error": {"code": -1, "message": "no", "data": "why"}})
    elif message["method"] == "late":
        late = message["id"]
    else:
        send({"id": message["id"], "result": message["params"]})
        send({"id": message["id"], "result": "twice"})
    if message["method"] == "free":
        send({"id": late, "result": "at last"})
"""
    wire, process = await talk(tmp_path, body, Recording())
    reading = asyncio.create_task(wire.run())
    late = asyncio.create_task(wire.request("late", {}))
    echoes = await asyncio.gather(*(wire.request("echo", {"n": n}) for n in range(50)))
    assert [json.loads(bytes(echo)) for echo in echoes] == [{"n": n} for n in range(50)]
    with pytest.raises(AgentError, match=r"refused bad: no \(why\)"):
        await wire.request("bad", {})
    assert not late.done()
    await wire.request("free", {})
    assert bytes(await late) == b'"at last"'
    await wire.notify("stop", {})
    await reading
    assert wire.oddities == 51  # every second answer
    await process.end()


@pytest.mark.parametrize("request_id", [0, 1, "0", "uuid-like", None])
async def test_an_agents_request_is_answered_under_its_own_id(tmp_path: Path, request_id: Any) -> None:
    body = f"""
send({{"jsonrpc": "2.0", "id": {request_id!r}, "method": "known"}})
send({{"method": "heard", "params": next(lines())}})
send({{"jsonrpc": "2.0", "id": {request_id!r}, "method": "unknown"}})
send({{"method": "heard", "params": next(lines())}})
"""
    handler = Recording()
    handler.answers["known"] = {"yes": 1}
    wire, process = await talk(tmp_path, body, handler)
    await wire.run()
    await process.end()
    (_, known), (_, unknown) = handler.notified_with
    assert known == {"jsonrpc": "2.0", "id": request_id, "result": {"yes": 1}}
    assert (unknown["id"], unknown["error"]["code"]) == (request_id, UNKNOWN_METHOD)


async def test_only_so_many_requests_are_worked_on_at_a_time(tmp_path: Path) -> None:
    class Busy(Recording):
        """Answers nothing before as many requests have come as may be open."""

        open = most = 0
        full = asyncio.Event()

        async def requested(self, method: str, params: msgspec.Raw) -> Any:
            self.open += 1
            self.most = max(self.most, self.open)
            if self.open == MAX_REQUESTS:
                self.full.set()
            await self.full.wait()
            self.open -= 1

    body = """
for number in range(500): send({"id": number, "method": "work"})
send({"method": "heard", "params": len([next(lines()) for _ in range(500)])})
"""
    handler = Busy()
    wire, process = await talk(tmp_path, body, handler)
    await wire.run()
    await process.end()
    assert handler.most == MAX_REQUESTS
    assert handler.notified_with == [("heard", 500)]


async def test_colliding_ids_of_both_sides_do_not_meet(tmp_path: Path) -> None:
    body = """
asked = next(lines())
send({"id": asked["id"], "method": "mine", "params": {}})
answer = next(lines())
send({"id": asked["id"], "result": {"you_said": answer["result"]}})
"""
    handler = Recording()
    handler.answers["mine"] = "to you"
    wire, process = await talk(tmp_path, body, handler)
    reading = asyncio.create_task(wire.run())
    assert json.loads(bytes(await wire.request("yours", {}))) == {"you_said": "to you"}
    await reading
    await process.end()


async def test_an_agent_that_ends_fails_what_waits_for_it_and_what_comes_after(tmp_path: Path) -> None:
    wire, process = await talk(tmp_path, "next(lines())", Recording())
    reading = asyncio.create_task(wire.run())
    with pytest.raises(ConnectionLost):
        await wire.request("prompt", {})
    await reading
    with pytest.raises(ConnectionLost):
        await wire.notify("more", {})
    await process.end()


def in_pieces(stream: bytes, size: int, handler: Recording, **options: int) -> Wire:
    """A wire on which these bytes come so many at a time."""
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)] + [b""]

    async def read(_: int) -> bytes:
        return chunks.pop(0)

    async def write(_: bytes) -> None:
        pass

    return Wire(read, write, handler, **options)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 50))
async def test_no_bytes_at_all_stop_the_wire(pieces: list[bytes], size: int) -> None:
    handler = Recording()
    await in_pieces(b"\n".join(pieces) + b'\n{"method":"end"}\n', size, handler).run()
    assert handler.notified_with[-1][0] == "end"


@pytest.mark.parametrize("size", [5, 64, 1000])
async def test_a_line_is_too_long_in_however_many_pieces_it_comes(size: int) -> None:
    handler = Recording()
    stream = b'{"method":"a line of more than forty bytes"}\n{"method":"end"}\n'
    wire = in_pieces(stream, size, handler, max_line=40)
    await wire.run()
    assert [method for method, _ in handler.notified_with] == ["end"]
    assert wire.oddities == 1
