"""File bundles: the changes to files that a model writes into its answer, as JSON in a fenced block.

A bundle is `{"root": ".", "files": [{"path", "operation", "content" | "patches"}]}`, or only
`{"root": ".", "patches": [{"path", "find", "replace", "limit"}]}`, whose entries may also hold
their replacements in a list of their own. Both become one `FileBundle`, in which every path is
relative and inside, and every operation has what it needs and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.path import relative_path

MAX_FILES = 1000

_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<tag>[^\s`]*)[^\n]*\n"
    r"(?P<body>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OWN_TAG = "aptix-json"
_TAGS = ("json", _OWN_TAG)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BundleRefused(InvalidInput):
    """The answer holds changes to files that cannot be meant, or must not be made."""

    code = "bundle_refused"


class Operation(StrEnum):
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    PATCH = "patch"
    GIT_PATCH = "gitPatch"


class PatchLimit(StrEnum):
    ONCE = "once"
    ALL = "all"


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A text that is found in the file, and what takes its place."""

    find: str
    replace: str
    limit: PatchLimit = PatchLimit.ONCE


class FileChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    path: str
    operation: Operation | None = None
    """None: the content is written whether or not the file exists."""
    content: str | None = None
    """The whole file, or the unified diff of a `gitPatch`."""
    patches: tuple[Patch, ...] = ()
    original_sha256: str | None = None
    """Of the file that the change was made for; another one is not changed."""


class FileBundle(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to files that an answer asks for."""

    root: str = "."
    files: tuple[FileChange, ...]


class _WirePatch(msgspec.Struct, kw_only=True, rename="camel"):
    path: str
    find: str | None = None
    replace: str | None = None
    limit: PatchLimit = PatchLimit.ONCE
    replacements: tuple[Patch, ...] | None = None
    original_sha256: str | None = None


class _WireBundle(msgspec.Struct, kw_only=True):
    root: str = "."
    files: tuple[FileChange, ...] | None = None
    patches: tuple[_WirePatch, ...] | None = None


_any = msgspec.json.Decoder(Any).decode


def parse_bundle(text: str) -> FileBundle | None:
    """The bundle in an answer; None when there is none, `BundleRefused` when it is wrong."""
    found = list(_candidates(text))
    if not found:
        return None
    if len(found) > 1:
        raise BundleRefused(f"The answer holds {len(found)} file bundles; it may hold one.")
    try:
        wire = msgspec.convert(found[0], _WireBundle)
    except msgspec.ValidationError as error:
        raise BundleRefused(f"The file bundle is wrong: {error}.") from None
    try:
        return _checked(wire)
    except InvalidInput as error:
        raise BundleRefused(f"The file bundle is wrong: {error}") from None


def find_bundle(text: str) -> FileBundle | None:
    """The bundle in an answer, if there is one that can be used."""
    try:
        return parse_bundle(text)
    except BundleRefused:
        return None


def _candidates(text: str) -> Iterator[dict[str, Any]]:
    """What is meant as a bundle: our own tag says so, plain JSON must look like one."""
    for block in _FENCED.finditer(text):
        tag = block["tag"].lower()
        if tag not in _TAGS:
            continue
        value: Any = None
        with suppress(msgspec.DecodeError, RecursionError):
            value = _any(block["body"])
        if isinstance(value, dict) and (tag == _OWN_TAG or _looks_like_one(value)):
            yield value
        elif tag == _OWN_TAG:
            raise BundleRefused("The file bundle is not a whole JSON object; the answer may have been cut.")


def _looks_like_one(value: dict[str, Any]) -> bool:
    entries = [
        entry for name in ("files", "patches") if isinstance(value.get(name), list) for entry in value[name]
    ]
    return bool(entries) and all(isinstance(entry, dict) and "path" in entry for entry in entries)


def _checked(wire: _WireBundle) -> FileBundle:
    if (wire.files is None) == (wire.patches is None):
        raise InvalidInput("It has either `files` or `patches`.")
    files = wire.files if wire.files is not None else tuple(_patched_files(wire.patches or ()))
    if not 1 <= len(files) <= MAX_FILES:
        raise InvalidInput(f"It changes {len(files)} files; it may change 1 to {MAX_FILES}.")
    if len({file.path for file in files}) != len(files):
        raise InvalidInput("A path is in it twice.")
    root = wire.root if wire.root == "." else _inside(wire.root)
    return FileBundle(root=root, files=tuple(map(_checked_file, files)))


def _patched_files(patches: tuple[_WirePatch, ...]) -> Iterator[FileChange]:
    """One change for each path, with its patches in their order."""
    by_path: dict[str, list[Patch]] = {}
    originals: dict[str, str] = {}
    for entry in patches:
        own = entry.find is not None and entry.replace is not None
        if own == (entry.replacements is not None):
            raise InvalidInput("A patch has either `find` and `replace`, or `replacements`.")
        if entry.find is not None and entry.replace is not None:
            added = [Patch(find=entry.find, replace=entry.replace, limit=entry.limit)]
        else:
            added = list(entry.replacements or ())
        by_path.setdefault(entry.path, []).extend(added)
        original = entry.original_sha256
        if original is not None and originals.setdefault(entry.path, original) != original:
            raise InvalidInput("The patches of one file name two originals.")
    for path, own_patches in by_path.items():
        yield FileChange(
            path=path,
            operation=Operation.PATCH,
            patches=tuple(own_patches),
            original_sha256=originals.get(path),
        )


def _checked_file(file: FileChange) -> FileChange:
    path = _inside(file.path)
    needs_content = file.operation not in (Operation.DELETE, Operation.PATCH)
    if needs_content != (file.content is not None):
        verb = "needs" if needs_content else "takes no"
        raise InvalidInput(f"{path}: {file.operation or 'a change'} {verb} content.")
    if (file.operation is Operation.PATCH) != bool(file.patches):
        verb = "needs" if file.operation is Operation.PATCH else "takes no"
        raise InvalidInput(f"{path}: {file.operation or 'a change without operation'} {verb} patches.")
    if any(not patch.find for patch in file.patches):
        raise InvalidInput(f"{path}: a patch finds nothing, since its `find` is empty.")
    original = file.original_sha256
    if original is not None and not _SHA256.fullmatch(original.lower()):
        raise InvalidInput(f"{path}: originalSha256 is not a SHA-256 in hexadecimal digits.")
    return msgspec.structs.replace(file, original_sha256=original.lower() if original else None)


def _inside(path: str) -> str:
    """A relative path outside git's own directory, however a file system may spell that."""
    relative_path(path)
    if any(part.lower().rstrip(" .") in (".git", "git~1") for part in path.split("/")):
        raise InvalidInput(f"{path} is in git's own directory.")
    return path
