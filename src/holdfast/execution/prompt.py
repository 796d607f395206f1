"""What a model is sent of a turn: one message of the user, in blocks.

The instruction comes first, then the files, then what retrieval found. Found text is the user's
material and never an instruction, so it stands here and not in the instructions. A block's fence is
longer than any run of backticks in it, and its header lines are single lines, so no text can end its
own block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.model.turn import ChunkRef
from holdfast.retrieval.languages import language_of

EDIT = (
    "The person wants files changed. Say briefly what you changed and why, then give every change in one "
    'fenced block tagged json: {"root": ".", "files": [{"path": "src/a.py", "operation": "create", '
    '"content": "..."}]}. Operations: create and replace take content; delete takes nothing; patch takes '
    'patches: [{"find": "...", "replace": "...", "limit": "once"}]. Paths are relative to the root, with '
    "forward slashes. Give `originalSha256` where you know the hash of the file that you change. Base a "
    "change only on a whole file that you were given, never on a chunk."
)

_BACKTICKS = re.compile(r"`{3,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


class SentFile(msgspec.Struct, frozen=True):
    path: str
    content_hash: str
    text: str


class SentChunk(msgspec.Struct, frozen=True):
    ref: ChunkRef
    text: str


def user_item(
    mode: str, instruction: str, files: Sequence[SentFile], chunks: Sequence[SentChunk]
) -> dict[str, Any]:
    """A turn's own part of a request's input."""
    texts = [f"[MODE: {_line(mode)}]\n\n[INSTRUCTION]\n{instruction}"]
    if files:
        texts.append("[FILES]\n\n" + "\n\n".join(_numbered("FILE", map(_file, files))))
    if chunks:
        texts.append("[CONTEXT]\n\n" + "\n\n".join(_numbered("CHUNK", map(_chunk, chunks))))
    return {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def plain_item(role: str, text: str) -> dict[str, Any]:
    """Something that was said, as a part of a request's input."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"role": role, "content": [{"type": kind, "text": text}]}


def _file(file: SentFile) -> str:
    language = language_of(file.path)
    header = f"Path: {_line(file.path)}\nSha256: {file.content_hash}\nLanguage: {language}"
    return f"{header}\n{_fenced(file.text, language)}"


def _chunk(chunk: SentChunk) -> str:
    ref, language = chunk.ref, language_of(chunk.ref.path)
    header = (
        f"Id: {_line(ref.chunk_id)}\nPath: {_line(ref.path)}\n"
        f"Lines: {ref.start_line}-{ref.end_line}\nLanguage: {language}"
    )
    return f"{header}\n{_fenced(chunk.text, language)}"


def _numbered(kind: str, blocks: Iterable[str]) -> Iterable[str]:
    return (f"=== {kind} {number} ===\n{block}" for number, block in enumerate(blocks, 1))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    ending = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{ending}{fence}"


def _line(text: str) -> str:
    """`text` on one line, whatever is in it."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
