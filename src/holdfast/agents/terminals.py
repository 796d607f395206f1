"""Commands that an agent runs through us: `terminal/*` of ACP.

Each command leads a process group of its own inside the workspace, and is ended with its group.
Its output is always read, so it never waits for us, and only the end of it is kept. That it has
exited is seen from its status: something it started may hold its output open for longer.
"""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any
from uuid import uuid4

from holdfast.agents.command import Command, EnvVariable
from holdfast.agents.process import KILL_SECONDS, exit_code, start_time, sweep
from holdfast.agents.sandbox import Sandbox
from holdfast.agents.workspace import Workspace
from holdfast.errors import Conflict, InvalidInput, NotFound

LIMIT = 16
"""How many terminals a session has at a time."""

OUTPUT_KEPT = 1024 * 1024
"""How many bytes of the end of an output are kept, at most and when the agent does not say."""

_SIGNAL_NAMES = {sign.value: sign.name for sign in signal.Signals}


class TooManyTerminals(Conflict):
    code = "too_many_terminals"
    status = 429
    retriable = True

    def __init__(self) -> None:
        super().__init__(f"{LIMIT} terminals are in use, which is the limit; release one first.")


class Terminals:
    """The terminals of one session.

    `decided` returns when a command may run, and raises when it may not; `exited` is told its exit code.
    `started` is told a command's process group and start time before the agent hears of it, and
    `ended` the group when nothing of it is left, so that a crash of ours leaves nothing unswept.
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox,
        *,
        decided: Callable[[Command], Awaitable[None]],
        exited: Callable[[Command, int], Awaitable[None]],
        started: Callable[[int, float], Awaitable[None]],
        ended: Callable[[int], Awaitable[None]],
    ) -> None:
        self._workspace = workspace
        self._sandbox = sandbox
        self._decided = decided
        self._exited = exited
        self._started = started
        self._ended = ended
        self._terminals: dict[str, _Terminal] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._closed = False

    async def create(
        self,
        command: str,
        args: Sequence[str] = (),
        env: Sequence[EnvVariable] = (),
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> str:
        """Run a command; the id of its terminal."""
        kept = OUTPUT_KEPT if output_byte_limit is None else min(output_byte_limit, OUTPUT_KEPT)
        if kept < 0:
            raise InvalidInput("The output byte limit must not be negative.")
        asked = await asyncio.to_thread(
            Command.of, self._workspace, self._sandbox.environment, command, args, env, cwd
        )
        self._require_room()
        await self._decided(asked)
        self._require_room()
        process = _spawn(asked, self._sandbox)
        terminal = _Terminal(process, kept, self._sandbox)
        self._terminals[terminal.id] = terminal
        try:
            async with terminal.changing:
                await terminal.open()
                await self._started(terminal.group, terminal.started)
        except BaseException:
            await self._release(terminal)
            raise
        finally:
            telling = asyncio.create_task(self._tell(asked, terminal))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
        return terminal.id

    def output(self, terminal_id: str) -> dict[str, Any]:
        """What is kept of the output so far, and the exit status once there is one."""
        terminal = self._terminal(terminal_id)
        text, truncated = terminal.output.text(complete=terminal.exited.done())
        status = _exit_status(terminal.exited.result()) if terminal.exited.done() else None
        return {"output": text, "truncated": truncated, "exitStatus": status}

    async def wait_for_exit(self, terminal_id: str) -> dict[str, Any]:
        return _exit_status(await asyncio.shield(self._terminal(terminal_id).exited))

    async def kill(self, terminal_id: str) -> None:
        """End the command and all that it started. Its output and exit status can still be read."""
        await self._end(self._terminal(terminal_id))

    async def release(self, terminal_id: str) -> None:
        """End the command if it runs, and forget it."""
        await self._release(self._terminal(terminal_id))

    async def close(self) -> None:
        """End all commands, side by side. No other can be started after that."""
        self._closed = True
        releases = map(self._release, list(self._terminals.values()))
        outcomes = await asyncio.gather(*releases, return_exceptions=True)
        for telling in await _late(self._telling):  # the system cannot end it, or nothing can be stored
            telling.cancel()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _require_room(self) -> None:
        if self._closed:
            raise Conflict("The session ends, and runs no more commands.")
        if len(self._terminals) >= LIMIT:
            raise TooManyTerminals

    async def _tell(self, command: Command, terminal: _Terminal) -> None:
        """Tell how a command ended, whether or not the agent wants to know."""
        code = await asyncio.shield(terminal.exited)
        await self._exited(command, code)

    async def _release(self, terminal: _Terminal) -> None:
        try:
            await self._end(terminal)
        finally:
            if terminal.is_ended:
                self._terminals.pop(terminal.id, None)

    async def _end(self, terminal: _Terminal) -> None:
        async with terminal.changing:
            if not terminal.is_ended:
                await terminal.end()
                await self._ended(terminal.group)

    def _terminal(self, terminal_id: str) -> _Terminal:
        if terminal_id not in self._terminals:
            raise NotFound(f"There is no terminal {terminal_id!r}; it was released, or never created.")
        return self._terminals[terminal_id]


async def _late(tasks: Collection[asyncio.Task[None]]) -> Collection[asyncio.Task[None]]:
    """Those that have not ended in time."""
    return (await asyncio.wait(tasks, timeout=KILL_SECONDS))[1] if tasks else ()


class _Terminal:
    """One command. Its pipe belongs to the event loop, which reads it as it fills."""

    def __init__(self, process: subprocess.Popen[bytes], kept: int, sandbox: Sandbox) -> None:
        self.id = str(uuid4())
        self.group = process.pid
        # A command that is already over has no start time where the system forgets it at once.
        self.started = start_time(process.pid) or time.time()
        self.output = _Output(kept)
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code; what was written before it is in the output by then."""
        self.changing = asyncio.Lock()
        self.is_ended = False
        assert process.stdout is not None
        self._pipe = process.stdout
        self._transport: asyncio.ReadTransport | None = None
        self._kind = sandbox.kind
        exit_code(process, sandbox).add_done_callback(self._note_exit)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: self.output, self._pipe)
        if self.exited.done():
            self._catch_up()

    async def end(self) -> None:
        """End the group; return when nothing of it is left, or the system cannot end it in time."""
        await sweep(self.group, self.started, kind=self._kind)
        await asyncio.wait([self.exited], timeout=KILL_SECONDS)
        self._catch_up()
        if self._transport is None:
            self._pipe.close()
        else:
            self._transport.close()
        self.is_ended = True

    def _note_exit(self, code: asyncio.Future[int]) -> None:
        self._catch_up()
        self.exited.set_result(code.result())

    def _catch_up(self) -> None:
        """Read what is in the pipe at this moment, and no more: somebody may write to it for ever."""
        if self._transport is not None and not self._transport.is_closing():
            pipe = self._pipe.fileno()
            (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
            if count:
                self.output.data_received(os.read(pipe, count))


class _Output(asyncio.Protocol):
    """The last bytes of what a command wrote."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._end = bytearray()
        self._truncated = False

    def data_received(self, data: bytes) -> None:
        self._end += data
        if len(self._end) > 2 * self._kept:  # seldom, because it moves what is kept
            self._shorten()

    def text(self, *, complete: bool) -> tuple[str, bool]:
        """The text, from the first whole character on, and whether something before it is lost."""
        self._shorten()
        first = 0
        while self._truncated and first < min(3, len(self._end)) and self._end[first] & 0xC0 == 0x80:
            first += 1
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(bytes(self._end[first:]), final=complete), self._truncated

    def _shorten(self) -> None:
        if (surplus := len(self._end) - self._kept) > 0:
            del self._end[:surplus]
            self._truncated = True


def _spawn(command: Command, sandbox: Sandbox) -> subprocess.Popen[bytes]:
    start = sandbox.start_of(command.line, command.directory, command.variables)
    try:
        return subprocess.Popen(
            start.line,
            cwd=command.directory,
            env=start.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise InvalidInput(f"The command {command.line[0]!r} cannot be run: {error.strerror}.") from None


def _exit_status(code: int) -> dict[str, Any]:
    if code < 0:
        return {"exitCode": None, "signal": _SIGNAL_NAMES.get(-code, str(-code))}
    return {"exitCode": code, "signal": None}
