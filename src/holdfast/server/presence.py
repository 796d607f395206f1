"""`server.json` in the data directory: how programs on this machine find the running server.

It holds the server's address, its process, a token and its store's name, and only its owner may read
it. It stays when the server stops, so that the token stays the same; whether a server is there is found
out by asking it. One server at a time has a data directory: a second one would hide the first from everybody
who looks for it here.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import HoldfastError
from holdfast.files import make_directory, replace
from holdfast.store import sqlite_path

NAME = "server.json"
LOCK = "server.lock"


class ServerRunning(HoldfastError):
    code = "server_running"


class Presence(msgspec.Struct, frozen=True):
    url: str
    pid: int
    token: str
    store: str | None = None
    """What the server's store is called, as by `store_name`."""

    @classmethod
    def read(cls, data_dir: Path) -> Presence | None:
        """What the file says; None when there is none that can be read."""
        try:
            return msgspec.json.decode((data_dir / NAME).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, data_dir: Path) -> None:
        make_directory(data_dir)
        replace(data_dir / NAME, msgspec.json.encode(self) + b"\n")

    @property
    def is_running(self) -> bool:
        """Whether its process is there. Another one may have its number: only an answer is certain.

        One of somebody else is not it: who listens at its address then must not be shown the token.
        """
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def store_name(url: str) -> str:
    """One name for a store, from wherever it is given, and without its password."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return str(sqlite_path(url).resolve())
    return parts._replace(netloc=f"{parts.username or ''}@{parts.netloc.rpartition('@')[2]}").geturl()


@contextmanager
def only_server(data_dir: Path) -> Iterator[None]:
    """Be the one server of a data directory. The system lets go of it with the process, however that ends."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _taken(lock):
            running = Presence.read(data_dir)
            where = f" at {running.url} (process {running.pid})" if running else ""
            raise ServerRunning(
                f"A server is running with {data_dir} already{where}. `holdfast token link` opens it; for "
                "another one, set HOLDFAST_DATA_DIR to a directory of its own."
            )
        yield
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
