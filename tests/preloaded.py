"""`holdfast` as a real process, without the half second that each start of Python spends on imports.

A process that has imported every command waits for orders and forks itself for each. The child has its own
directory, environment, standard streams, signals, exit code and end, so a test can do to it whatever it
could do to a program started afresh. There is one such process for each test worker; the first order starts
it. What a start itself does, such as loading modules lazily, is for tests that start Python themselves.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any

MODULES = (
    "holdfast.server.run",
    "holdfast.mcp.server",
    "holdfast.tui.app",
    "holdfast.agents.demo",
    "openai.types.responses",
)
"""What commands import when they are called; the commands themselves are imported, too."""

DESCRIPTORS = 5
"""What comes with an order: a file that says what to run, three standard streams, and where to report."""


STARTED = "holdfast.tests.started"
"""The audit event of a start, as Python has one for programs."""

NUMBER = struct.Struct("i")
"""What is reported of a child: its id, and later how it ended."""


class Process:
    """A started `holdfast`: what tests need of subprocess.Popen."""

    def __init__(self, report: socket.socket, stdout: int | None, stderr: int | None) -> None:
        self._report = report
        self.pid = _number_from(report)
        self.returncode: int | None = None
        self.stdout = None if stdout is None else os.fdopen(stdout, encoding="utf-8")
        self.stderr = None if stderr is None else os.fdopen(stderr, encoding="utf-8")

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._report.settimeout(timeout)
            self.returncode = _number_from(self._report)
            self._report.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it still writes, until it ends."""
        said = ["", ""]

        def read(place: int, stream: IO[str] | None) -> None:
            if stream is not None and not stream.closed:
                said[place] = stream.read()

        other = Thread(target=read, args=(1, self.stderr))
        other.start()
        read(0, self.stdout)
        other.join()
        self.wait(timeout)
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and that is still on its way to us
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def run(
    arguments: tuple[str, ...], *, cwd: Path, env: dict[str, str], typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """The command's exit code, and what it wrote."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(typed.encode())
        stdin.seek(0)
        with start(arguments, cwd=cwd, env=env, stdin=stdin, stdout=out, stderr=err) as process:
            code = process.wait()
        written = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read().decode())
    return subprocess.CompletedProcess(arguments, code, *written)


def start(
    arguments: tuple[str, ...],
    *,
    cwd: Path,
    env: dict[str, str],
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    new_session: bool = False,
    files: int | None = None,
) -> Process:
    """`holdfast` with these arguments. It may have so many files open."""
    sys.audit(STARTED, ("holdfast", *arguments))
    order = {
        "arguments": arguments,
        "cwd": str(cwd),
        "env": env,
        "new_session": new_session,
        "files": files,
    }
    ours, report = socket.socketpair()
    with tempfile.TemporaryFile() as said, Path(os.devnull).open("rb") as nothing:
        said.write(json.dumps(order).encode())
        said.seek(0)
        out, kept_out = _sink(stdout)
        err, kept_err = _sink(stderr)
        given = nothing.fileno() if stdin == subprocess.DEVNULL else _number(stdin)
        _waiting().send([said.fileno(), given, out, err, report.fileno()])
        report.close()
        for end, read in ((out, kept_out), (err, kept_err)):
            if read is not None:
                os.close(end)
    return Process(ours, kept_out, kept_err)


def _number_from(report: socket.socket) -> int:
    number: int
    (number,) = NUMBER.unpack(report.recv(NUMBER.size, socket.MSG_WAITALL))
    return number


def _sink(wanted: int | IO[Any]) -> tuple[int, int | None]:
    """Where a child writes, and where that is read if it is a pipe."""
    if wanted == subprocess.PIPE:
        read, write = os.pipe()
        return write, read
    return _number(wanted), None


def _number(stream: int | IO[Any]) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


class _Waiting:
    """The process that forks. It ends when nobody can send it orders any more."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair()
        self._one_at_a_time = Lock()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        atexit.register(self._end)

    def send(self, descriptors: list[int]) -> None:
        with self._one_at_a_time:
            socket.send_fds(self._orders, [b"!"], descriptors)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@cache
def _waiting() -> _Waiting:
    return _Waiting()


def _fork_for_each(orders: socket.socket) -> dict[str, Any]:
    """Fork for each order and report how the children end. Returns in a child only, with its order."""
    reports: dict[int, int] = {}
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking)
    while True:
        ready = select.select([orders.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, 1024)
            _report_the_ended(reports)
        if orders.fileno() not in ready:
            continue
        order, descriptors, _, _ = socket.recv_fds(orders, 1, DESCRIPTORS)
        if not order:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            return _become(descriptors)
        for descriptor in descriptors[:-1]:
            os.close(descriptor)
        reports[pid] = descriptors[-1]
        os.write(descriptors[-1], NUMBER.pack(pid))


def _report_the_ended(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        with socket.socket(fileno=report) as reporting:
            try:
                reporting.send(NUMBER.pack(os.waitstatus_to_exitcode(status)))
            except BrokenPipeError:
                continue  # the test has ended, and does not want to know


def _become(descriptors: list[int]) -> dict[str, Any]:
    """Take the streams, signals, directory and environment of a program that was started afresh."""
    for number in (signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(descriptors[0], encoding="utf-8", closefd=False) as said:
        order: dict[str, Any] = json.load(said)
    for stream, descriptor in enumerate(descriptors[1:4]):
        os.dup2(descriptor, stream)
    os.closerange(3, 1024)
    if order["new_session"]:
        os.setsid()
    if order["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (order["files"], order["files"]))
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    encoding = order["env"].get("PYTHONIOENCODING", "utf-8")
    at_once = "PYTHONUNBUFFERED" in order["env"]
    sys.stdin = open(0, encoding=encoding, errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (
        open(number, "w", encoding=encoding, errors=errors, closefd=False, buffering=1 if lines else -1)  # noqa: SIM115
        for number, errors, lines in (
            (1, "surrogateescape", at_once or os.isatty(1)),
            (2, "backslashreplace", True),
        )
    )
    return order


def _wait_for_orders() -> None:
    atexit.register(_end)  # the first, so that it is called last
    del sys.path[0]  # the directory of this file, which is none of a program's
    commands = import_module("holdfast.cli.app")
    commands.command_line([])
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()
    order = _fork_for_each(socket.socket(fileno=int(sys.argv[1])))
    more = order["env"].get("PYTHONPATH", "")
    sys.path[:0] = [order["cwd"], *filter(None, more.split(os.pathsep))]
    sys.argv[1:] = order["arguments"]
    try:
        runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
        _ended.append(0)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _ended.append(end.code or 0)
        raise


_ended: list[int] = []
"""The exit code, once there is one. It stays empty when a text or an exception ends the program."""


def _end() -> None:
    """Leave it to the system to give back the memory: Python would look at every module for that."""
    if _ended:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                return  # which Python itself has something to say of
        os._exit(_ended[0] & 0xFF)


if __name__ == "__main__":
    _wait_for_orders()
