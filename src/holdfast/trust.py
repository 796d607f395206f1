"""Which settings files of working directories a person trusts.

Trust is in a path and its content. Anybody who changes the file, an agent or `git pull`, ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from holdfast.errors import InvalidInput
from holdfast.files import make_directory, replace

LIST = "trusted.json"


class TrustedFiles:
    """The list of them, in a directory of the person's that no agent sees."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / LIST

    def all(self) -> Mapping[Path, str]:
        """The SHA-256 of each file's content when it was trusted."""
        try:
            listed = msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise InvalidInput(
                f"The list of trusted files, {self._file}, cannot be read: {error}. Delete it to trust none."
            ) from None
        return {Path(path): digest for path, digest in listed.items()}

    def hold(self, path: Path, content: bytes) -> bool:
        return self.all().get(path) == sha256(content).hexdigest()

    def add(self, path: Path, content: bytes) -> None:
        self._write({**self.all(), path: sha256(content).hexdigest()})

    def remove(self, path: Path) -> bool:
        """End the trust in a file; False if there was none."""
        kept = dict(self.all())
        if kept.pop(path, None) is None:
            return False
        self._write(kept)
        return True

    def _write(self, trusted: Mapping[Path, str]) -> None:
        make_directory(self._file.parent)
        listed = {str(path): digest for path, digest in trusted.items()}
        replace(self._file, msgspec.json.encode(listed) + b"\n")
