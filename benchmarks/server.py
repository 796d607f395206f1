"""The server beside a bare Starlette route, and under many listeners and writers.

The server is `holdfast serve` as it is installed, in a process of its own; those who call it are in
another one. Requests are counted by wrk where that is installed, else by `http_load.py`. Whoever is
called listens on loopback and answers every request whole: with its token looked at, its body and its
query checked, and counted for /metrics.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import psutil

from benchmarks.measure import Result, Run, Spread, Suite
from benchmarks.messages import SMALL
from holdfast import NewSession, NewTurn, open_store
from holdfast.model.principal import LOCAL
from tests.server.servers import Person, Served, owner_of
from tests.settings import configure

CONNECTIONS = 16
MESSAGES = 1_000
WRITERS = 64
RATE = 200
"""Updates a second that listeners hear."""

KIB = 1024

FLOODING = """
[agents.flooding]
command = {command!r}
args = [{program!r}]
"""


async def messages(run: Run) -> list[Result]:
    """Messages: the first 50 of a session, which has 1,000 of 500 bytes."""
    async with serving(run) as served:
        async with open_store(served.store_url) as store:
            session = await store.create_session(NewSession())
            await store.append_messages(session.id, [SMALL.message] * MESSAGES)
        path = f"/api/sessions/{session.id}/messages?limit=50"
        return [await _against_bare(run, served, path, "messages", "50 messages of a session")]


async def listing(run: Run) -> list[Result]:
    """List: the newest 20 of 100,000 sessions, with the exact total."""
    count = run.size(100_000, 1_000)
    async with serving(run) as served:
        async with open_store(served.store_url, durability="normal") as store:
            for begin in range(0, count, 1_000):
                new = (NewSession(title=f"Session {number}") for number in range(begin, begin + 1_000))
                await asyncio.gather(*map(store.create_session, new))
        return [await _against_bare(run, served, "/api/sessions", "list", f"a page of {count:,} sessions")]


async def feed(run: Run) -> list[Result]:
    """Feed: one session, 1,000 listeners, 200 updates a second of its agent.

    Each update says when the agent wrote it, so what is measured begins before the commit.
    """
    count, seconds = run.size(1_000, 50), run.size(5, 1)
    lags, sizes, updates = [], [], 0
    async with serving(run) as served:
        person = owner_of(served)
        server = _process(served)
        for _ in range(run.size(3, 1)):
            path = await _session(person, "flooding")
            before = server.memory_info().rss
            async with _loading("listen", f"{person.url}{path}/events", person.secret, count) as listening:
                assert listening.stdout is not None
                assert await listening.stdout.readline() == b"ready\n"
                sizes.append((server.memory_info().rss - before) / count / KIB)
                await person.post(f"{path}/prompt", {"text": f"pace {RATE} {seconds}"})
                heard = json.loads(await listening.stdout.readline())
            lags.append(heard["p99"])
            updates += int(heard["updates"])
            await person.call("DELETE", path)
    return [
        Result(
            "feed",
            f"{count:,} listeners, {RATE} updates/s: from written to heard (p99)",
            f"{median(lags):.0f} ms, {updates:,} events heard",
            "",
            Spread.of(lags),
            unit=" ms",
            at_most=250,
        ),
        Result(
            "feed",
            "memory per listener",
            f"{sizes[0]:.0f} KiB",
            "",
            Spread.of(sizes[:1]),  # later listeners take the memory that earlier ones gave back
            unit=" KiB",
            at_most=100,
        ),
    ]


async def prompts(run: Run) -> list[Result]:
    """Prompts: 64 callers who store instructions at once, for four sessions whose agents are busy.

    The store's own figure is that of 64 tasks that store the same turns in its own process.
    """
    each = run.size(20, 2)
    text = SMALL.message.text
    failures = 0
    async with serving(run) as served:
        person = owner_of(served)
        paths = [await _session(person, "demo") for _ in range(4)]
        for path in paths:
            await person.post(f"{path}/prompt", {"text": "wait"})
        urls = ",".join(f"{person.url}{path}/prompt" for path in paths)

        async def ours() -> float:
            nonlocal failures
            found = await _loaded("post", urls, person.secret, WRITERS, each, body={"text": text})
            failures += int(found["failed"])
            return found["p99"]

        async with open_store(f"sqlite:///{run.directory / 'own.db'}") as store:
            sessions = [await store.create_session(NewSession()) for _ in paths]

            async def own() -> float:
                latencies: list[float] = []

                async def write(number: int) -> None:
                    new = NewTurn(instruction_summary=text)
                    for _ in range(each):
                        begin = time.monotonic()
                        await store.add_turn(sessions[number % 4].id, new, said=[SMALL.message])
                        latencies.append(time.monotonic() - begin)

                await asyncio.gather(*map(write, range(WRITERS)))
                return sorted(latencies)[int(len(latencies) * 0.99)]

            taken = await run.interleaved({"store": own, "ours": ours})
    return [
        Result(
            "prompts",
            f"{WRITERS} callers at once: until a prompt is stored (p99)",
            f"{median(taken['ours']) * 1000:.0f} ms",
            f"{median(taken['store']) * 1000:.0f} ms in the store alone",
            Spread.ratio(taken["ours"], taken["store"]),
            at_most=4.0,
        ),
        Result(
            "prompts",
            "prompts that were refused",
            f"{failures} of {run.repetitions * WRITERS * each:,}",
            "",
            Spread.of([failures]),
            unit="",
            at_most=0,
        ),
    ]


async def ready(run: Run) -> list[Result]:
    """Ready: from the start of the process to `/readyz`, with 1,000 sessions."""
    store_url = f"sqlite:///{run.directory / 'data' / 'holdfast.db'}"
    (run.directory / "data").mkdir()
    async with open_store(store_url) as store:
        for _ in range(run.size(1_000, 50)):
            session = await store.create_session(NewSession())
            await store.append_messages(session.id, [SMALL.message] * 5)
    (run.directory / "answer").write_bytes(b"{}")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(run.directory),
        "HOLDFAST_DATA_DIR": str(run.directory / "data"),
    }
    command = [str(Path(sys.executable).with_name("holdfast")), "serve", "--port", "0"]

    async def start(sign: signal.Signals) -> float:
        begin = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command, cwd=run.directory, env=environment, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().split()[-1]
        token = json.loads((run.directory / "data" / "server.json").read_bytes())["token"]
        assert (await Person(url, LOCAL, token).get("/readyz")).status_code == 200
        seconds = time.monotonic() - begin
        process.send_signal(sign)
        await process.wait()
        return seconds

    async def bare() -> float:
        begin = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.bare_server", str(run.directory / "answer")),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await _content((await process.stdout.readline()).decode().strip()) == b"{}"
        seconds = time.monotonic() - begin
        process.terminate()
        await process.wait()
        return seconds

    async def after(sign: signal.Signals) -> float:
        await start(sign)
        return await start(signal.SIGTERM)

    taken = await run.interleaved(
        {"bare": bare, "stopped": lambda: after(signal.SIGTERM), "killed": lambda: after(signal.SIGKILL)}
    )
    return [
        Result(
            "ready",
            f"from its start to /readyz, after a {how}",
            f"{median(taken[name]):.2f} s",
            f"{median(taken['bare']):.2f} s bare",
            Spread.of(taken[name]),
            unit=" s",
            at_most=1.5,
        )
        for how, name in (("stop", "stopped"), ("kill", "killed"))
    ]


SUITE = Suite(
    "server",
    {"messages": messages, "list": listing, "feed": feed, "prompts": prompts, "ready": ready},
    plot="performance-server.png",
)


@asynccontextmanager
async def serving(run: Run) -> AsyncIterator[Served]:
    """A server that counts nobody's requests against them."""
    program = str(Path(__file__).with_name("flooding_agent.py"))
    settings = FLOODING.format(command=sys.executable, program=program)
    configure(run.directory, settings)
    served = Served(run.directory, HOLDFAST_SERVER_REQUESTS_PER_SECOND="0", AGENT_MAX_SESSIONS="8")
    served.repository()
    await asyncio.to_thread(served.start)
    try:
        yield served
    finally:
        await asyncio.to_thread(served.stop)


async def _against_bare(run: Run, served: Served, path: str, workload: str, what: str) -> Result:
    """Requests a second of ours against a bare route that answers with the same bytes."""
    person = owner_of(served)
    answer = (await person.get(path)).content
    (run.directory / "answer.json").write_bytes(answer)
    bare = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.bare_server", str(run.directory / "answer.json")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert bare.stdout is not None
    try:
        bare_url = (await bare.stdout.readline()).decode().strip()
        assert await _content(bare_url) == answer
        seconds = run.size(3, 1)

        async def ours() -> float:
            return await _rate(f"{person.url}{path}", person.secret, seconds)

        async def theirs() -> float:
            return await _rate(bare_url, person.secret, seconds)

        taken = await run.interleaved({"bare": theirs, "ours": ours})
    finally:
        bare.terminate()
        await bare.wait()
    return Result(
        workload,
        f"{what} ({len(answer) / 1000:.1f} KB): requests per second",
        f"{median(taken['ours']):,.0f}/s",
        f"{median(taken['bare']):,.0f}/s",
        Spread.ratio(taken["ours"], taken["bare"]),
        at_least=0.5,
    )


async def _content(url: str) -> bytes:
    async with httpx2.AsyncClient() as client:
        return (await client.get(url)).content


async def _rate(url: str, token: str, seconds: int) -> float:
    wrk = shutil.which("wrk")
    if wrk is None:
        found = await _loaded("get", url, token, CONNECTIONS, seconds)
        assert not found["failed"]
        return found["rate"]
    header = ("-H", f"Authorization: Bearer {token}")
    said = await _said([wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", *header, url])
    assert "Non-2xx" not in said, said
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert rate is not None, said
    return float(rate[1])


async def _loaded(kind: str, url: str, token: str, *numbers: int, body: Any = None) -> dict[str, float]:
    given = b"" if body is None else json.dumps(body).encode()
    found: dict[str, float] = json.loads(await _said(_load_command(kind, url, token, *numbers), given))
    return found


@asynccontextmanager
async def _loading(
    kind: str, url: str, token: str, *numbers: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *_load_command(kind, url, token, *numbers), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _load_command(kind: str, url: str, token: str, *numbers: int) -> Sequence[str]:
    return [sys.executable, "-m", "benchmarks.http_load", kind, url, token, *map(str, numbers)]


async def _said(command: Sequence[str], given: bytes = b"") -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate(given)
    assert process.returncode == 0, f"{command[0]} failed"
    return said.decode()


async def _session(person: Person, agent: str) -> str:
    """The path of a new session."""
    repo = (await person.post("/api/repos/scan")).json()["repos"][0]
    created = await person.post("/api/sessions", {"repoId": repo["id"], "agent": agent})
    return f"/api/sessions/{created.json()['id']}"


def _process(served: Served) -> psutil.Process:
    assert served.process is not None
    return psutil.Process(served.process.pid)
