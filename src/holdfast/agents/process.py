"""An agent's process: a group of its own, ended whole.

Agents start helpers and relaunch themselves, so a signal to the process that was started may
leave another one working on. Every agent therefore leads a process group, every signal goes to
the group, and the agent has ended when the group is empty. That its first process has ended is
seen from its status and not from its pipes, which a helper may hold open.

A helper may leave the group, as daemons do. It still carries the session's id in its environment,
and is found by that. A program that also empties its environment escapes where there is no sandbox.

In a sandbox, the first process of the group watches it, and everything ends with that process. So it
is killed, and never asked to end: the others are.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from holdfast.agents.sandbox import Kind, Sandbox
from holdfast.errors import MissingExtra

try:
    import psutil
except ImportError:
    raise MissingExtra("Running agents", "agents") from None


STDERR_KEPT = 64 * 1024
"""How much of the end of an agent's standard error is kept."""

STDIN_SECONDS = 2.0
TERM_SECONDS = 2.0
KILL_SECONDS = 5.0
"""How long an agent is given to go after its input was closed, SIGTERM, SIGKILL."""

LAST_WORDS_SECONDS = 1.0
"""How long a dead agent's exit code and the end of its output are waited for: something may still hold its
pipes open."""

SESSION_MARK = "HOLDFAST_PROCESS_OF"
"""The variable that marks an agent, and all that it starts, with the session and server with which it ends.
It is not `HOLDFAST_SESSION`, which people set for programs of their own."""

READ_LIMIT = 512 * 1024
"""How much of an agent's output waits here before the pipe is left to fill."""

POLL_SECONDS = 0.02
"""How often a group is looked at while it goes: the system does not tell when a group is empty."""


def mark_of(session_id: str, incarnation: str) -> str:
    """What the processes of a session are marked with. A copy of the store has the same sessions."""
    return f"{session_id}@{incarnation}"


class AgentProcess:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        sandbox: Sandbox,
        stdin: asyncio.StreamWriter,
        stdout: _Pipe,
        stderr: _Pipe,
    ) -> None:
        self.pid = process.pid
        """Also the number of its group."""
        self.started = start_time(process.pid) or time.time()
        self.exited = exit_code(process, sandbox)
        """The exit code of the process that was started; the signal's number, negative, if one ended it."""
        self._sandbox = sandbox
        self._session = sandbox.environment.get(SESSION_MARK)
        self._stdin = stdin
        self._stdout, self._stderr = stdout, stderr
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    @classmethod
    async def start(cls, command: Sequence[str], cwd: Path, sandbox: Sandbox) -> Self:
        """Start `command` in `cwd` and in a sandbox, whose environment may name its session."""
        how = sandbox.start_of(command, cwd)
        process = subprocess.Popen(  # noqa: ASYNC220  # asyncio's own waits for the pipes, see above
            how.line,
            cwd=cwd,
            env=how.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        opening = asyncio.create_task(cls._opened(process, sandbox))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            started = await opening
            await started.end()
            await started.close()
            raise

    @classmethod
    async def _opened(cls, process: subprocess.Popen[bytes], sandbox: Sandbox) -> Self:
        return cls(
            process,
            sandbox,
            await _writer(process.stdin),
            await _Pipe.open(process.stdout),
            await _Pipe.open(process.stderr),
        )

    async def read(self, size: int) -> bytes:
        return await self._stdout.reader.read(size)

    async def write(self, data: bytes) -> None:
        if self._stdin.is_closing():
            raise BrokenPipeError("its input is closed")
        self._stdin.write(data)
        await self._stdin.drain()

    @property
    def stderr_tail(self) -> str:
        return b"".join(self._tail).decode(errors="replace")

    def kill(self) -> None:
        """End the whole group at once, without a chance to say anything."""
        signal_group(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Close its input, then SIGTERM, then SIGKILL, until nothing of it is left but unread output."""
        self._stdin.close()
        if not await _all_gone(self.pid, self._session, STDIN_SECONDS):
            await _end_all(self.pid, self._session, self._sandbox.kind)
        endings: list[asyncio.Future[Any]] = [self._draining, self.exited]
        await asyncio.wait(endings, timeout=LAST_WORDS_SECONDS)

    async def close(self) -> None:
        """Let go of its pipes, whoever else holds them."""
        self._draining.cancel()
        await asyncio.wait([self._draining])
        if self._stdin.transport.get_write_buffer_size():  # it is closed, and waits for somebody to read
            self._stdin.transport.abort()
        self._stdout.transport.close()
        self._stderr.transport.close()

    async def _drain(self) -> None:
        while data := await self._stderr.reader.read(STDERR_KEPT):
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size > STDERR_KEPT and len(self._tail) > 1:
                self._tail_size -= len(self._tail.popleft())


def exit_code(process: subprocess.Popen[bytes], sandbox: Sandbox) -> asyncio.Future[int]:
    """The exit code of a child, once it has one: a thread waits for it, and for no pipe."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[int] = loop.create_future()

    def note(code: int) -> None:
        if not exited.done():
            exited.set_result(code)

    def wait() -> None:
        code = sandbox.exit_code(process.wait())
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(note, code)

    threading.Thread(target=wait, daemon=True).start()
    return exited


def start_time(pid: int) -> float | None:
    """When a process was started: with its number, what tells it from a later one with the same number."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def signal_group(group: int, sign: signal.Signals) -> None:
    try:
        os.killpg(group, sign)
    except (ProcessLookupError, PermissionError):
        # Gone already; or, on macOS, only zombies are left of it.
        return


async def sweep(group: int, started: float, session: str | None = None, kind: Kind = Kind.NONE) -> bool:
    """End what is left of a process group, or of all that has a session's mark; whether there was anything.

    The recorded start time must be that of the group's leader, or of nobody: a leader that ended
    leaves its helpers behind, and a number that now belongs to somebody else is left alone.
    """
    leader = start_time(group)
    ours = group if leader is None or abs(leader - started) <= 1 else None
    if await _all_gone(ours, session, 0):
        return False
    await _end_all(ours, session, kind)
    return True


def strays(session: str | None) -> list[psutil.Process]:
    """Everything that runs with a session's mark in its environment."""
    if session is None:
        return []
    return [process for process in psutil.process_iter() if _is_stray(process, session)]


async def _end_all(group: int | None, session: str | None, kind: Kind) -> None:
    for sign, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        spared = group if sign is signal.SIGTERM and kind is not Kind.NONE else None
        if spared is not None:
            await asyncio.to_thread(_signal_members, spared, sign)
        elif group is not None:
            signal_group(group, sign)
        for process in await asyncio.to_thread(strays, session):
            if process.pid != spared:
                with suppress(psutil.Error):  # gone meanwhile
                    process.send_signal(sign)
        if await _all_gone(group, session, seconds):
            return


def _signal_members(leader: int, sign: signal.Signals) -> None:
    """Signal all of a group but its leader."""
    for pid in psutil.pids():
        if pid != leader and _is_running_member(pid, leader):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)


async def _all_gone(group: int | None, session: str | None, seconds: float) -> bool:
    """Whether nothing is left of a process group and its session, waiting up to `seconds` for that."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not await _is_gone(group, session):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


async def _is_gone(group: int | None, session: str | None) -> bool:
    if group is not None and _group_lives(group):
        return False
    left = await asyncio.to_thread(strays, session)
    return not left


def _is_stray(process: psutil.Process, session: str) -> bool:
    try:
        return (
            process.environ().get(SESSION_MARK) == session
            and process.status() != psutil.STATUS_ZOMBIE
            and process.pid != os.getpid()
        )
    except psutil.Error:
        return False


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # Something answers to the signal; but a dead process that nobody waits for does so too.
    return any(_is_running_member(pid, group) for pid in psutil.pids())


def _is_running_member(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


class _Pipe(NamedTuple):
    """A pipe that is read as it fills."""

    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport

    @classmethod
    async def open(cls, pipe: IO[bytes] | None) -> Self:
        assert pipe is not None
        reader = asyncio.StreamReader(limit=READ_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        return cls(reader, transport)


async def _writer(pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    assert pipe is not None
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
