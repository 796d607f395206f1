"""Agents beside the floor: from what an agent writes to what is stored and published.

The agent is `flooding_agent.py`, a real child process under the real supervisor. The floor talks to the
same program by hand: it splits what it reads into lines, takes the text out of each, and writes all the
text of 20 ms to one table in one transaction.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple, Self

import msgspec
import psutil

from benchmarks.appends import Counted
from benchmarks.floor import SqliteFloor, connect_apsw
from benchmarks.measure import Meter, Result, Run, Spread, Suite, microseconds
from holdfast import Role, Session, Store, open_store
from holdfast.agents.catalogue import AgentEntry, Catalogue
from holdfast.agents.repositories import Repositories
from holdfast.agents.sandbox import Kind, Sandboxes
from holdfast.agents.sandbox.kinds import tools
from holdfast.agents.supervisor import Supervisor
from holdfast.model.ids import RepoId
from holdfast.model.records import Repo
from holdfast.store.streams import FLUSH_SECONDS

FLOODING = (sys.executable, str(Path(__file__).with_name("flooding_agent.py")))
DEMO = (sys.executable, "-m", "holdfast.agents.demo")

AGENTS = 5
RATE = 560
"""Updates a second of one agent: what Gemini CLI was measured at."""

READ_SIZE = 256 * 1024
LOOK_SECONDS = 0.005
"""How often a running turn is looked at."""

MEGABYTE = 1024 * 1024


async def flood(run: Run) -> list[Result]:
    """Flood: one agent says words as fast as it can. The turn's end is the last thing that is stored."""
    count = run.size(200_000, 20_000)
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(opened(run))
        session = await desk.session("flooding")
        other = await stack.enter_async_context(by_hand())
        floor = connect_apsw(run.directory / "flood-apsw.db")
        stack.callback(floor.close)

        async def ours() -> Counted:
            with Meter() as meter:
                await desk.turn(session, f"flood {count}")
            return meter, count

        async def theirs() -> Counted:
            with Meter() as meter:
                log = Log(floor)
                await other.turn(f"flood {count}", log.add)
                await log.flushed()
            return meter, count

        await desk.turn(session, "flood 5000")
        taken = await run.interleaved({"floor": theirs, "ours": ours})
        assert not await desk.store.problems()
    rates, their_rates = ([n / meter.seconds for meter, n in taken[name]] for name in ("ours", "floor"))
    cpu, their_cpu = ([meter.cpu / n for meter, n in taken[name]] for name in ("ours", "floor"))
    texts = f"{median(rates):,.0f}/s", f"{median(their_rates):,.0f}/s"
    return [
        Result(
            "flood",
            "text updates per second of one agent, stored",
            *texts,
            Spread.of(rates),
            unit="/s",
            at_least=20_000,
        ),
        Result("flood", "the same against the floor", *texts, Spread.ratio(rates, their_rates)),
        Result(
            "flood",
            "CPU per update",
            microseconds(median(cpu)),
            microseconds(median(their_cpu)),
            Spread.ratio(cpu, their_cpu),
        ),
    ]


class Paced(NamedTuple):
    core: float
    """Percent of one core."""
    lags: list[float]
    """Milliseconds from an agent's writing to the commit, or to the follower who is told of it."""


async def paced(run: Run) -> list[Result]:
    """Paced: five agents at 560 updates a second each, every session followed by somebody.

    Each update says when it was written, and is compared with the clock when the follower has it, after
    its commit. The same without followers shows what storing alone takes.
    """
    seconds = run.size(4, 1)
    prompt = f"pace {RATE} {seconds}"
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(opened(run))
        sessions = [await desk.session("flooding") for _ in range(AGENTS)]
        others = [await stack.enter_async_context(by_hand()) for _ in range(AGENTS)]
        floor = connect_apsw(run.directory / "paced-apsw.db")
        stack.callback(floor.close)

        async def stored() -> Paced:
            with Meter() as meter:
                await asyncio.gather(*(desk.turn(session, prompt) for session in sessions))
            return Paced(meter.cpu / meter.seconds * 100, [])

        async def published() -> Paced:
            lags: list[float] = []
            following = [asyncio.create_task(follow(desk.store, session, lags)) for session in sessions]
            paced = await stored()
            for task in following:
                task.cancel()
            await asyncio.wait(following)
            assert len(lags) == AGENTS * RATE * seconds, len(lags)
            return Paced(paced.core, lags)

        async def theirs() -> Paced:
            lags: list[float] = []
            log = Log(floor, written=lambda text: lags.extend(lags_of(text)))
            with Meter() as meter:
                await asyncio.gather(*(other.turn(prompt, log.add) for other in others))
                await log.flushed()
            return Paced(meter.cpu / meter.seconds * 100, lags)

        contenders = {"floor": theirs, "stored": stored, "published": published}
        taken = await run.interleaved(contenders)
    lag, their_lag = ([median(each.lags) for each in taken[name]] for name in ("published", "floor"))
    p99, their_p99 = (median(quantiles(p.lags, n=100)[98] for p in taken[n]) for n in ("published", "floor"))
    cores = {name: [each.core for each in taken[name]] for name in contenders}
    return [
        Result(
            "paced",
            "5 agents × 560 updates/s: from written to published (p50)",
            f"{median(lag):.1f}, p99 {p99:.1f} ms",
            f"{median(their_lag):.1f}, p99 {their_p99:.1f} ms",
            Spread.of(lag),
            unit=" ms",
            at_most=25,
        ),
        Result(
            "paced",
            "CPU of storing and publishing",
            f"{median(cores['published']):.1f} %",
            f"{median(cores['floor']):.1f} %",
            Spread.of(cores["published"]),
            unit=" %",
            at_most=20,
        ),
        Result(
            "paced",
            "CPU of storing alone, nobody following",
            f"{median(cores['stored']):.1f} %",
            f"{median(cores['floor']):.1f} %",
            Spread.of(cores["stored"]),
            unit=" %",
        ),
    ]


async def memory(run: Run) -> list[Result]:
    """Memory: the greatest growth of our resident memory while a million updates pass, in one turn.

    A turn of a tenth of that comes first, and is not counted: it fills caches and pools. When all have
    passed, the message is made final, which takes a few times its size for a moment.
    """
    count = run.size(1_000_000, 50_000)
    async with opened(run) as desk:
        session = await desk.session("flooding")
        await desk.turn(session, f"flood {count // 10}")
        process = psutil.Process()
        before = process.memory_info().rss
        sizes: dict[bool, list[int]] = {False: [before], True: [before]}

        def note() -> None:
            all_written = desk.supervisor.agents[session.id].process.stderr_tail.count("written") == 2
            sizes[all_written].append(process.memory_info().rss)

        sampling = asyncio.create_task(sample(note))
        await desk.turn(session, f"flood {count}")
        sampling.cancel()
        await asyncio.wait([sampling])
    passing, ending = ((max(sizes[end]) - before) / MEGABYTE for end in (False, True))
    start = before / MEGABYTE
    what = f"growth of memory while {count:,} updates pass"
    return [
        Result(
            "memory",
            what,
            f"{start:.0f} → {start + passing:.0f} MB",
            "",
            Spread.of([passing]),
            unit=" MB",
            at_most=16,
        ),
        Result(
            "memory",
            "and while their one message is made final",
            f"{start:.0f} → {start + ending:.0f} MB",
            "",
            Spread.of([ending]),
            unit=" MB",
        ),
    ]


async def start(run: Run) -> list[Result]:
    """Start: a session with the demo agent, ready for a prompt, over the bare start of the same program.

    The bare start is the program, started and asked `initialize` by hand. Ours also makes the session,
    records the process, opens the agent's own session and stores what it offers.
    """
    memory = run.directory / "memory"
    memory.mkdir()
    async with opened(run) as desk:

        async def ours() -> float:
            begin = time.perf_counter()
            session = await desk.session("demo")
            taken = time.perf_counter() - begin
            await desk.supervisor.complete(desk.store, session.id)
            return taken * 1e3

        async def bare() -> float:
            begin = time.perf_counter()
            agent = await ByHand.start(*DEMO, str(memory))
            await agent.ask("initialize", {"protocolVersion": 1})
            taken = time.perf_counter() - begin
            await agent.end()
            return taken * 1e3

        await ours()
        taken = await run.interleaved({"bare": bare, "ours": ours}, run.size(11, 2))
    over = [mine - theirs for mine, theirs in zip(taken["ours"], taken["bare"], strict=True)]
    texts = f"{median(taken['ours']):.0f} ms", f"{median(taken['bare']):.0f} ms bare"
    return [
        Result(
            "start",
            "a session with the demo agent, over its bare start",
            *texts,
            Spread.of(over),
            unit=" ms",
            at_most=150,
        )
    ]


async def confined(run: Run) -> list[Result]:
    """Sandbox: a program that does nothing, started in each kind of sandbox and without one."""
    made_by = await tools()
    repository = run.directory / "repository"
    git = await asyncio.create_subprocess_exec("git", "init", "--quiet", str(repository))
    await git.wait()
    entry = AgentEntry(command="true")
    kinds = [kind for kind in Kind if made_by.only(kind).best is kind]

    def contender(kind: Kind) -> Callable[[], Awaitable[float]]:
        sandboxes = Sandboxes(run.directory / kind, made_by=made_by.only(kind))

        async def once() -> float:
            begin = time.perf_counter()
            sandbox = await sandboxes.open(entry, repository, entry.environment(), owner=("true", "local"))
            start = sandbox.start_of(["true"], repository)
            process = await asyncio.create_subprocess_exec(*start.line, env=start.environment, cwd=repository)
            assert await process.wait() == 0
            taken = time.perf_counter() - begin
            await sandbox.close()
            return taken * 1e3

        return once

    taken = await run.interleaved({kind: contender(kind) for kind in kinds}, run.size(31, 3))
    bare = taken[Kind.NONE]
    return [
        Result(
            f"sandbox-{kind}",
            f"a start in {kind}, over the bare start",
            f"{median(taken[kind]):.1f} ms",
            f"{median(bare):.1f} ms bare",
            Spread.of([mine - theirs for mine, theirs in zip(taken[kind], bare, strict=True)]),
            unit=" ms",
            at_most=30 if kind is Kind.BUBBLEWRAP else None,
        )
        for kind in kinds
        if kind is not Kind.NONE
    ]


SUITE = Suite(
    "agents",
    {"flood": flood, "paced": paced, "memory": memory, "start": start, "sandbox": confined},
    plot="performance-agents.png",
)


class Desk(NamedTuple):
    """A store and a supervisor, as a server has them."""

    store: Store
    supervisor: Supervisor
    repo_id: RepoId

    async def session(self, agent: str) -> Session:
        return await self.supervisor.create(self.store, self.repo_id, agent=agent)

    async def turn(self, session: Session, prompt: str) -> None:
        """Prompt the agent, and wait for the end of the turn without reading from the store."""
        await self.supervisor.prompt(self.store, session.id, prompt)
        agent = self.supervisor.agents[session.id]
        while agent.turns:  # noqa: ASYNC110  # nothing tells of it but the store
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def opened(run: Run) -> AsyncIterator[Desk]:
    repository = run.directory / "repository"
    repository.mkdir()
    memory = run.directory / "memory"
    agents = {
        "flooding": AgentEntry(command=FLOODING[0], args=FLOODING[1:]),
        "demo": AgentEntry(command=DEMO[0], args=(*DEMO[1:], str(memory)), writes=(str(memory),)),
    }
    async with open_store(f"sqlite:///{run.directory}/agents.db") as store:
        (repo,) = await store.save_repos([Repo(name="repository", path=str(repository))])
        assert repo.id is not None
        sandboxes = Sandboxes(run.directory / "sandboxes")
        async with Supervisor(
            store, Catalogue(agents), Repositories(run.directory), limit=AGENTS, sandboxes=sandboxes
        ) as supervisor:
            yield Desk(store, supervisor, repo.id)


async def follow(store: Store, session: Session, lags: list[float]) -> None:
    """Note how late each update of the session's next turn reaches a follower."""
    known: Counter[str | None] = Counter()
    async for changes in store.follow(session.id, (await store.get_session(session.id)).rev):
        agents = [message for message in changes.messages if message.role is Role.AGENT]
        news = [(message.id, message.text[known[message.id] :]) for message in agents]
        for message_id, text in [*news, *((delta.message_id, delta.text) for delta in changes.deltas)]:
            lags += lags_of(text)
            known[message_id] += len(text)


def lags_of(text: str) -> Iterable[float]:
    """How many milliseconds ago each update of a paced agent was written."""
    now = time.monotonic_ns()
    return [(now - int(written)) / 1e6 for written in text.split()]


async def sample(note: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS * 10)
        note()


class _Content(msgspec.Struct):
    text: str


class _Update(msgspec.Struct):
    content: _Content


class _Params(msgspec.Struct):
    update: _Update


class _Line(msgspec.Struct):
    params: _Params | None = None


class ByHand:
    """An agent at the other end of a pipe, and nothing between."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, *command: str) -> Self:
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
        )

    async def ask(self, method: str, params: object) -> None:
        """Send a request, and wait for the line that answers it."""
        self._send(method, params)
        await self._stdout.readline()

    async def turn(self, prompt: str, take: Callable[[str], None]) -> None:
        """Prompt the agent, and hand on each text until it has answered."""
        self._send("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": prompt}]})
        decode = msgspec.json.Decoder(_Line).decode
        rest = b""
        while True:
            *lines, rest = (rest + await self._stdout.read(READ_SIZE)).split(b"\n")
            for line in lines:
                said = decode(line).params
                if said is None:
                    return
                take(said.update.content.text)

    async def end(self) -> None:
        self._stdin.close()
        with suppress(ConnectionError):
            await self._stdin.wait_closed()
        await self._process.wait()

    def _send(self, method: str, params: object) -> None:
        line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._stdin.write(msgspec.json.encode(line) + b"\n")


@asynccontextmanager
async def by_hand() -> AsyncIterator[ByHand]:
    agent = await ByHand.start(*FLOODING)
    try:
        await agent.ask("initialize", {})
        yield agent
    finally:
        await agent.end()


class Log:
    """Gathers text for as long as our store does, then commits it as one row, on the event loop."""

    def __init__(self, floor: SqliteFloor, written: Callable[[str], object] = len) -> None:
        self._floor = floor
        self._written = written
        self._pending: list[str] = []
        self._flushing: Awaitable[None] | None = None

    def add(self, text: str) -> None:
        if not self._pending:
            self._flushing = asyncio.create_task(self._flush())
        self._pending.append(text)

    async def flushed(self) -> None:
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        text = "".join(self._pending)
        self._pending.clear()
        self._floor.write_chunks([(1, text)])
        self._written(text)
