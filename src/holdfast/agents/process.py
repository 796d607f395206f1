"""An agent's process: a group of its own, ended whole.

Agents start helpers and relaunch themselves, so a signal to the process that was started may
leave another one working on. Every agent therefore leads a process group, every signal goes to
the group, and the agent has ended when the group is empty. That its first process has ended is
seen from its status and not from its pipes, which a helper may hold open.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import psutil

STDERR_KEPT = 64 * 1024
"""How much of the end of an agent's standard error is kept."""

STDIN_SECONDS = 2.0
TERM_SECONDS = 2.0
KILL_SECONDS = 5.0
"""How long an agent is given to go after its input was closed, SIGTERM, SIGKILL."""

READ_LIMIT = 512 * 1024
"""How much of an agent's output waits here before the pipe is left to fill."""

POLL_SECONDS = 0.02
"""How often a group is looked at while it goes: the system does not tell when a group is empty."""


class AgentProcess:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.pid = process.pid
        """Also the number of its group."""
        self.started = start_time(process.pid) or time.time()
        self.exited = exit_code(process)
        """The exit code of the process that was started; the signal's number, negative, if one ended it."""
        self._stdin = stdin
        self._stdout = stdout
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._draining = asyncio.get_running_loop().create_task(self._drain(stderr))

    @classmethod
    async def start(cls, command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Self:
        """Start `command` in `cwd` with exactly `environment`."""
        process = subprocess.Popen(  # noqa: ASYNC220  # asyncio's own waits for the pipes, see above
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        return cls(
            process,
            await _writer(process.stdin),
            await _reader(process.stdout),
            await _reader(process.stderr),
        )

    async def read(self, size: int) -> bytes:
        return await self._stdout.read(size)

    async def write(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    @property
    def stderr_tail(self) -> str:
        return b"".join(self._tail).decode(errors="replace")

    def kill(self) -> None:
        """End the whole group at once, without a chance to say anything."""
        signal_group(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Close its input, then SIGTERM, then SIGKILL to the group, until nothing of it is left."""
        self._stdin.close()
        for sign, seconds in (
            (None, STDIN_SECONDS),
            (signal.SIGTERM, TERM_SECONDS),
            (signal.SIGKILL, KILL_SECONDS),
        ):
            if sign is not None:
                signal_group(self.pid, sign)
            if await group_gone(self.pid, seconds):
                break
        self._draining.cancel()
        await asyncio.wait([self._draining])

    async def _drain(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(STDERR_KEPT):
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size > STDERR_KEPT and len(self._tail) > 1:
                self._tail_size -= len(self._tail.popleft())


def exit_code(process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """The exit code of a child, once it has one: a thread waits for it, and for no pipe."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[int] = loop.create_future()

    def note(code: int) -> None:
        if not exited.done():
            exited.set_result(code)

    def wait() -> None:
        code = process.wait()
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


async def group_gone(group: int, seconds: float) -> bool:
    """Whether nothing of a process group is left, waiting up to `seconds` for that."""
    deadline = asyncio.get_running_loop().time() + seconds
    while _group_lives(group):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


async def sweep(group: int, started: float) -> bool:
    """End what a dead server left of an agent; whether there was anything.

    The recorded start time must be that of the group's leader, or of nobody: a leader that ended
    leaves its helpers behind, and a number that now belongs to somebody else is left alone.
    """
    leader = start_time(group)
    if (leader is not None and abs(leader - started) > 1) or not _group_lives(group):
        return False
    for sign, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        signal_group(group, sign)
        if await group_gone(group, seconds):
            break
    return True


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


async def _reader(pipe: IO[bytes] | None) -> asyncio.StreamReader:
    assert pipe is not None
    reader = asyncio.StreamReader(limit=READ_LIMIT)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    assert pipe is not None
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
