"""`holdfast` as a person or a script runs it: a real process in a directory of its own."""

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import preloaded


class Cli:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "HOLDFAST_DATA_DIR": str(home / "data"),
            "HOME": str(home),
            "NO_COLOR": "1",
            "PATH": os.environ["PATH"],
        }

    def __call__(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return preloaded.run(arguments, cwd=self.home, env=self.environment, typed=typed)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[preloaded.Process]:
        """The command at work; it does not outlive the block."""
        with preloaded.start(arguments, cwd=self.home, env=self.environment) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def at_terminal(self, *arguments: str) -> Iterator["Terminal"]:
        """The command at work with a person in front of it."""
        ours, theirs = pty.openpty()
        environment = {**self.environment, "TERM": "dumb"}
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        with preloaded.start(
            arguments, cwd=self.home, env=environment, new_session=True, **streams
        ) as process:
            os.close(theirs)
            try:
                yield Terminal(process, ours)
            finally:
                process.kill()
                os.close(ours)


class Terminal:
    def __init__(self, process: preloaded.Process, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.shown = ""

    def until(self, text: str) -> None:
        """Read what is shown up to a text; pytest's own time limit ends a wait that never ends."""
        while text not in self.shown:
            assert self._read(), f"it ended without {text!r}: {self.shown}"

    def type(self, line: str) -> None:
        self.shown = ""
        os.write(self._descriptor, f"{line}\n".encode())

    def ended(self) -> int:
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        try:
            read = os.read(self._descriptor, 4096)
        except OSError:  # how a terminal says that nobody is there any more
            read = b""
        self.shown += read.decode(errors="replace").replace("\r\n", "\n")
        return bool(read)


@contextmanager
def a_server(cli: Cli) -> Iterator[None]:
    """A server for the command line's data directory, which looks for repositories where it is."""
    with cli.running("serve", "--port", "0") as process:
        assert process.stdout is not None
        while "http://" not in process.stdout.readline():
            assert process.poll() is None
        yield
        process.send_signal(signal.SIGTERM)
        process.communicate()
