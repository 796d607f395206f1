"""Messages as they stand: what is stored of one that is still being said is its row, and its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.content import encode_json
from holdfast.model.message import message_from_row
from holdfast.model.tokens import TokenCounter, with_tokens
from holdfast.store.transaction import Row, Transaction


async def open_floors(tx: Transaction, session_pk: int) -> dict[int, int]:
    """Where the chunks of each open message begin. To be read before the messages themselves."""
    return {row[0]: row[1] for row in await tx.all("open_messages_of_session", session_pk)}


async def as_they_stand(tx: Transaction, floors: dict[int, int], rows: Sequence[Row]) -> list[Row]:
    """`rows` with the text that streaming messages have by now.

    A message may end between two reads, which takes its chunks away; it is then read again, so
    that nobody sees less of it than before.
    """
    if not floors:
        return list(rows)
    current: list[Row] = []
    for row in rows:
        if row[0] not in floors:
            current.append(row)
            continue
        chunks = await tx.all("chunks_of_message", floors[row[0]], row[0])
        if await tx.one("open_message", row[0]) is None:
            final = await tx.one("message_row", row[0])
            row = (*(final or row)[:4], *row[4:])
        elif chunks:
            pk, seq, _, body = row[:4]
            row = (pk, seq, chunks[-1][1], with_text(body, [text for text, _ in chunks]), *row[4:])
        current.append(row)
    return current


def escaped(text: str) -> str:
    """Text as it stands inside a JSON string: PostgreSQL's text has no NUL, and JSON's escape for it does."""
    return encode_json(text, "text")[1:-1].decode()


def with_text(body: str, more: Sequence[str], **fields: Any) -> str:
    """The body with escaped pieces at the end of its content's text, and `fields` of the content replaced."""
    parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    content = msgspec.json.decode(parts["content"])
    if more:
        content["text"] = content.get("text", "") + msgspec.json.decode(f'"{"".join(more)}"')
    return msgspec.json.encode(parts | {"content": content | fields}).decode()


def with_count(body: str, counter: TokenCounter | None) -> str:
    """The body of a message that has become final, with what it then counts."""
    if counter is None:
        return body
    counted = with_tokens(message_from_row(0, 0, body), counter)
    parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    count = {"tokenCount": counted.token_count, "tokenizer": counted.tokenizer}
    known = {name: value for name, value in count.items() if value is not None}
    return msgspec.json.encode(parts | known).decode()
