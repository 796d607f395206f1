"""`server.json` in the data directory: how programs on this machine find the running server.

It holds the server's address, its process and a token, and only its owner may read it. It stays
when the server stops, so that the token stays the same; whether a server is there is found out by
asking it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

NAME = "server.json"


class Presence(msgspec.Struct, frozen=True):
    url: str
    pid: int
    token: str

    @classmethod
    def read(cls, data_dir: Path) -> Presence | None:
        """What the file says; None when there is none that can be read."""
        try:
            return msgspec.json.decode((data_dir / NAME).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, data_dir: Path) -> None:
        """Replace the file as a whole."""
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = data_dir / f".{NAME}.{secrets.token_hex(8)}"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(msgspec.json.encode(self) + b"\n")
        temporary.replace(data_dir / NAME)

    @property
    def is_running(self) -> bool:
        """Whether its process is there. Another one may have its number: only an answer is certain."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
