"""Applying a file bundle to a directory: all of it or nothing.

`plan` reads and checks everything and changes nothing; its `diff` is what a person is shown.
`apply` writes every new file, and a copy of every old one, into a directory beside them first, so
that a full disk is met before anything is changed; then it renames. When a rename fails, what was
renamed is put back, which takes no space. When the program is killed, its journal says what to do.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from holdfast.agents.workspace import MAX_FILE, Workspace
from holdfast.errors import Conflict, HoldfastError, InvalidInput, NotFound
from holdfast.execution.bundle import FileBundle, FileChange, Operation, Patch, PatchLimit
from holdfast.execution.journal import Journal, Record, Step, hash_of, make, put_back

STAGING = ".holdfast-apply-"
MAX_SHOWN_LINES = 20_000
"""Files with more lines are only counted in a diff: finding it would take too long."""

GIT_SECONDS = 30

_DRAWN: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    **{
        code: f"⟨U+{code:04X}⟩"
        for code in (*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
}
"""Characters that move a terminal's cursor, or turn the order of a text around, as others that do not."""


class FileChanged(Conflict):
    code = "file_changed"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not the file that the change was made for; ask again with the file as it is."
        )
        self.path = path


class NotApplied(HoldfastError):
    code = "not_applied"

    def __init__(self, reason: object, left: Path | None = None) -> None:
        kept = (
            "Nothing was changed."
            if left is None
            else f"Some files could not be put back: they are in {left}."
        )
        super().__init__(f"The changes could not be made: {reason}. {kept}")


class PlannedChange(msgspec.Struct, frozen=True):
    path: str
    before: bytes | None
    """None: there is no such file."""
    after: bytes | None


class Plan(msgspec.Struct, frozen=True):
    """What a bundle does to a directory, computed and not yet done."""

    workspace: Workspace
    changes: tuple[PlannedChange, ...]
    warnings: tuple[str, ...]

    @property
    def diff(self) -> str:
        """The changes as one unified diff, for a person to judge: no character in it can hide another."""
        return "".join(line for change in self.changes for line in _diff(change)).translate(_DRAWN)

    def apply(self, journals: Path) -> None:
        """Make the changes, unless a file is no longer the one that was planned for.

        A journal in the directory `journals`, which lies outside the tree, has `recover` finish them or take
        them back when this program is killed over them.
        """
        for change in self.changes:
            if _current(self.workspace, change.path) != change.before:
                raise FileChanged(change.path)
        _Application(self.workspace, self.changes).run(journals)


def plan(bundle: FileBundle, directory: Path) -> Plan:
    workspace = Workspace(directory)
    changes: list[PlannedChange] = []
    warnings: list[str] = []
    for file in bundle.files:
        path = file.path if bundle.root == "." else f"{bundle.root}/{file.path}"
        before = _current(workspace, path)
        if file.original_sha256 and (
            before is None or hashlib.sha256(before).hexdigest() != file.original_sha256
        ):
            raise FileChanged(path)
        after = _after(file, path, before, warnings)
        if after is not None and len(after) > MAX_FILE:
            raise InvalidInput(f"{path} would have {len(after):,} bytes; at most {MAX_FILE:,} are written.")
        if after != before:
            changes.append(PlannedChange(path, before, after))
    return Plan(workspace, tuple(changes), tuple(warnings))


def _current(workspace: Workspace, path: str) -> bytes | None:
    """What a file holds; None when there is none. A link is refused: the file behind it has another path."""
    real = workspace.confined(path)
    if real != workspace.root / path:
        raise InvalidInput(f"{path} goes through a symbolic link; change the file that it leads to.")
    try:
        return workspace.read_bytes(path)
    except NotFound:
        return None


def _after(file: FileChange, path: str, before: bytes | None, warnings: list[str]) -> bytes | None:
    """What the file is to hold; None when it is to be gone."""
    operation = file.operation
    if operation is Operation.CREATE and before is not None:
        raise Conflict(f"{path} cannot be created, because it is there already.")
    if operation in (Operation.REPLACE, Operation.DELETE, Operation.PATCH) and before is None:
        raise NotFound(f"{path} cannot be changed, because it is not there.")
    match operation:
        case Operation.DELETE:
            return None
        case Operation.PATCH:
            assert before is not None
            return _patched(file.patches, path, before, warnings)
        case Operation.GIT_PATCH:
            diff = file.content or ""
            named = path if path in diff.partition("\n@@")[0] else file.path
            return _git_patched(diff, named, before)
        case _:
            return (file.content or "").encode()


def _patched(patches: Sequence[Patch], path: str, before: bytes, warnings: list[str]) -> bytes:
    try:
        text = before.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text and cannot be patched.") from None
    for number, patch in enumerate(patches, 1):
        if patch.find not in text:
            warnings.append(f"Patch {number} of {path} changed nothing: what it looks for is not there.")
        text = text.replace(patch.find, patch.replace, -1 if patch.limit is PatchLimit.ALL else 1)
    return text.encode()


def _git_patched(diff: str, path: str, before: bytes | None) -> bytes | None:
    """The file after git has applied a diff to it, alone in a directory with nothing else to reach."""
    head = f"\n{diff}".partition("\n@@")[0]
    if "\n--- " not in head:
        diff = f"--- a/{path}\n+++ b/{path}\n{diff}"
    strip = "-p0" if "\n--- " in head and "\n--- a/" not in head and "\n+++ b/" not in head else "-p1"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        file = root / path
        if before is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(before)
        _git_apply(root, strip, diff if diff.endswith("\n") else f"{diff}\n", path)
        left = [found for found in root.rglob("*") if found.is_symlink() or not found.is_dir()]
        if any(found != file or found.is_symlink() or not found.is_file() for found in left):
            raise InvalidInput(f"The diff of {path} must change that file and no other.")
        return file.read_bytes() if left else None


def _git_apply(root: Path, strip: str, diff: str, path: str) -> None:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(root.parent),
    }
    # The counts in the hunks' heads are what models get wrong most; git counts by itself.
    command = ["git", "apply", "--recount", "--whitespace=nowarn", strip, "-"]
    try:
        applied = subprocess.run(
            command,
            input=diff.encode(),
            cwd=root,
            env=environment,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise InvalidInput(f"The diff of {path} cannot be applied without git; install git.") from None
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"git needs too long for the diff of {path}.") from None
    if applied.returncode != 0:
        complaint = applied.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise InvalidInput(f"The diff of {path} does not fit: {complaint.removeprefix('error: ')}.")


def _diff(change: PlannedChange) -> Iterator[str]:
    old = f"a/{change.path}" if change.before is not None else "/dev/null"
    new = f"b/{change.path}" if change.after is not None else "/dev/null"
    try:
        before, after = _lines(change.before), _lines(change.after)
    except UnicodeDecodeError:
        yield f"Binary files {old} and {new} differ\n"
        return
    if max(len(before), len(after)) > MAX_SHOWN_LINES:
        yield f"--- {old}\n+++ {new}\n@@ {len(before):,} lines become {len(after):,} @@\n"
        return
    if not before and not after:  # a file without content comes or goes
        yield f"--- {old}\n+++ {new}\n"
    for line in difflib.unified_diff(before, after, old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(data: bytes | None) -> list[str]:
    """Lines as git counts them: other separators than the newline are characters of a line."""
    text = (data or b"").decode()
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


class _Application:
    """Changes being made, and how to take them back."""

    def __init__(self, workspace: Workspace, changes: Sequence[PlannedChange]) -> None:
        self._workspace = workspace
        self._changes = changes
        self._record = Record(
            str(workspace.root),
            f"{STAGING}{uuid4().hex}",
            tuple(Step(each.path, hash_of(each.before), hash_of(each.after)) for each in changes),
            tuple(self._missing_directories()),
        )
        self._made: list[int] = []

    def run(self, journals: Path) -> None:
        journal = Journal.begin(journals, self._record)
        whole = True
        try:
            for number, change in enumerate(self._changes):
                self._stage(number, change)
            journal.staged()
            for number in range(len(self._changes)):
                self._made.append(number)
                make(self._workspace, self._record, number)
        except BaseException as error:
            journal.back()
            whole = self._take_back()
            for directory in self._record.made:
                with suppress(OSError):
                    (self._workspace.root / directory).rmdir()
            if isinstance(error, OSError | HoldfastError):
                reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
                left = None if whole else self._workspace.root / self._record.staging
                raise NotApplied(reason, left) from error
            raise
        finally:
            if whole:
                shutil.rmtree(self._workspace.root / self._record.staging, ignore_errors=True)
                journal.end()
            else:
                journal.leave()

    def _stage(self, number: int, change: PlannedChange) -> None:
        """Write what is needed to make the change and to take it back, with the old file's mode."""
        record = self._record
        for staged, data in ((record.old(number), change.before), (record.new(number), change.after)):
            if data is not None:
                self._workspace.write_bytes(staged, data)
                if change.before is not None:
                    mode = self._workspace.confined(change.path).stat().st_mode
                    self._workspace.confined(staged).chmod(mode)

    def _take_back(self) -> bool:
        """Put every file back that can be; whether all were."""
        whole = True
        for number in reversed(self._made):
            try:
                put_back(self._workspace, self._record, number)
            except (OSError, HoldfastError):
                whole = False
        return whole

    def _missing_directories(self) -> list[str]:
        """The directories that the changes will make, the innermost first."""
        root = self._workspace.root
        missing = {
            parent.relative_to(root).as_posix()
            for change in self._changes
            for parent in (root / change.path).parents
            if not parent.exists()
        }
        return sorted(missing, key=lambda path: path.count("/"), reverse=True)
