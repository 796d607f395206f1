"""The files a person is working on, as they are at the moment of the call.

A file is sent whole or not at all. It is sent again only when it changed since it was last sent in
the chain. One that is too large, or is no text, is not sent; the turn says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

import msgspec

from holdfast.execution.input import ActiveFile
from holdfast.execution.prompt import SentFile
from holdfast.model.turn import ActiveFileRef

MAX_FILE_BYTES = 100 * 1024


class FileAnalysis(msgspec.Struct, frozen=True):
    refs: tuple[ActiveFileRef, ...] = ()
    sent: tuple[SentFile, ...] = ()
    warnings: tuple[str, ...] = ()


def analyse(
    files: Sequence[ActiveFile],
    already_sent: Mapping[str, str],
    read: Callable[[str], bytes | str],
    *,
    limit: int = MAX_FILE_BYTES,
) -> FileAnalysis:
    """What becomes of each file. `already_sent` has the hash of each path that the chain has seen.

    `read` gives a file that the client named without its content, or says why it cannot.
    """
    refs: list[ActiveFileRef] = []
    sent: list[SentFile] = []
    warnings: list[str] = []
    for file in files:
        data = read(file.path) if file.content is None else file.content.encode()
        if isinstance(data, str):
            warnings.append(data)
            continue
        content_hash = sha256(data).hexdigest()
        too_large = len(data) > limit
        text = None if too_large else _text(data)
        is_new = already_sent.get(file.path) != content_hash
        if too_large:
            warnings.append(f"{file.path} was not sent: it has {len(data):,} bytes, and {limit:,} are sent.")
        elif text is None:
            warnings.append(f"{file.path} was not sent: it is not text.")
        elif is_new:
            sent.append(SentFile(file.path, content_hash, text))
        refs.append(
            ActiveFileRef(
                path=file.path,
                content_hash=content_hash,
                size_bytes=len(data),
                is_touched=file.is_touched,
                was_sent_to_llm=text is not None and is_new,
                was_too_large_to_send=too_large,
            )
        )
    return FileAnalysis(tuple(refs), tuple(sent), tuple(warnings))


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
