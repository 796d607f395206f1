"""Messages: appending, reading pages of them, changing those that are still open."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import Conflict, InvalidInput, MessageFinal, MessageTooLarge, NotFound
from holdfast.model.content import STREAMED, Content, content_type, encode_content
from holdfast.model.ids import MessageId, TurnId, id_bytes, id_text
from holdfast.model.message import Message, message_body, message_from_row, message_json, read_back
from holdfast.model.session import SessionRef
from holdfast.model.times import from_ms, to_ms
from holdfast.model.tokens import TokenCounter, with_tokens
from holdfast.store import sessions
from holdfast.store.ids import new_id
from holdfast.store.options import MAX_SEQ, HistoryOptions, HistoryPage, JsonPage
from holdfast.store.pairs import with_pairs
from holdfast.store.scope import Scope
from holdfast.store.standing import as_they_stand, open_floors, with_count
from holdfast.store.transaction import Row, Transaction

PIECE_BYTES = 1024 * 1024
"""How long a piece of a history in wire form is, give or take one message: some copies of it are made."""

PAGE_BYTES = 4 * PIECE_BYTES
"""How long a page in wire form is, give or take one message: most are whole."""


class Prepared(msgspec.Struct, frozen=True):
    """A message ready to be written: its columns, made before the transaction begins."""

    message: Message
    """As it will be read, but for its place."""
    id: bytes
    at: int
    body: str
    open: bool
    repeatable: bool
    """Whether its id is the caller's, so that it may already be there."""

    def placed(self, seq: int, rev: int) -> Message:
        """The message as stored."""
        return msgspec.structs.replace(self.message, seq=seq, rev=rev)


def prepare(
    messages: Sequence[Message],
    now: int,
    *,
    max_bytes: int,
    turn_id: TurnId | None = None,
    counter: TokenCounter | None = None,
) -> list[Prepared]:
    if counter is not None:
        messages = [with_tokens(message, counter) for message in messages]
    prepared = [_prepared(message, now, max_bytes, turn_id) for message in messages]
    if len(prepared) > 1 and len({each.id for each in prepared}) < len(prepared):
        raise InvalidInput("Two messages of one append carry the same id.")
    return prepared


def _prepared(message: Message, now: int, max_bytes: int, turn_id: TurnId | None) -> Prepared:
    raw_id = id_bytes(message.id or new_id(), "message id")
    at = now if message.timestamp is None else to_ms(message.timestamp)
    if turn_id := message.turn_id or turn_id:
        turn_id = TurnId(id_text(id_bytes(turn_id, "turn id")))
    body = message_body(message, id_text(raw_id), from_ms(at), turn_id)
    if len(body) > max_bytes:
        raise _too_large(len(body), max_bytes)
    stored = read_back(body)
    return Prepared(stored, raw_id, at, body.decode(), stored.open, repeatable=message.id is not None)


class Append(msgspec.Struct, frozen=True):
    """An append, as data: PostgreSQL's writer merges plain ones into one statement."""

    scope: Scope
    ref: SessionRef
    messages: list[Prepared]
    now: int
    owner: str
    expected_revision: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing has to be looked at before the messages can be written."""
        simple = not any(each.repeatable or each.open for each in self.messages)
        return simple and self.expected_revision is None and self.scope.lease is None

    async def __call__(self, tx: Transaction) -> list[Message]:
        found = await sessions.find(tx, self.scope, self.ref, writing=True)
        kept: dict[bytes, Message] = {}
        for each in self.messages:
            if each.repeatable and (earlier := await _repeated(tx, found.pk, each)):
                kept[each.id] = earlier
        new = [each for each in self.messages if each.id not in kept]
        if not new:
            return [kept[each.id] for each in self.messages]
        count = len(new)
        latest = max(each.at for each in new)
        last_seq, rev, high_at = await sessions.make_room(
            tx, found.pk, self.now, messages=count, latest=latest, expected=self.expected_revision
        )
        await sessions.activate(tx, found)
        for offset, each in enumerate(new, 1 - count):
            late = high_at if each.at < high_at else None
            row = (found.pk, last_seq + offset, rev + offset, each.id, each.at, late, each.body)
            if each.open:
                inserted = await tx.one("insert_message_returning", *row)
                assert inserted is not None
                await tx.run("insert_open_message", inserted[0], found.pk, self.owner)
            else:
                await tx.run("insert_message", *row)
            kept[each.id] = each.placed(last_seq + offset, rev + offset)
        return [kept[each.id] for each in self.messages]


async def history(tx: Transaction, scope: Scope, ref: SessionRef, options: HistoryOptions) -> HistoryPage:
    found = await sessions.find(tx, scope, ref, writing=False)
    rows, older, newer = await _page(tx, found.pk, options)
    messages = [message_from_row(seq, rev, body) for _, seq, rev, body in rows]
    if options.keep_pairs and messages:
        return await with_pairs(tx, found.pk, messages)
    return HistoryPage(messages, older, newer)


async def ranges(
    tx: Transaction, scope: Scope, ref: SessionRef, wanted: Sequence[tuple[int, int]]
) -> list[Message]:
    """The messages of ranges of `seq`, which has no gaps."""
    found = await sessions.find(tx, scope, ref, writing=False)
    floors = await open_floors(tx, found.pk)
    rows: list[Row] = []
    for first, last in wanted:
        rows += await tx.all("history_after", found.pk, first - 1, last - first + 1)
    rows = await as_they_stand(tx, floors, rows)
    return [message_from_row(seq, rev, body) for _, seq, rev, body in rows]


async def history_page_json(
    tx: Transaction, scope: Scope, ref: SessionRef, options: HistoryOptions
) -> JsonPage:
    """A page that is shorter than asked for where its messages are long."""
    found = await sessions.find(tx, scope, ref, writing=False)
    rows, older, newer = await _page(tx, found.pk, options, max_bytes=PAGE_BYTES)
    return JsonPage(_wire_form(rows).encode(), older, newer)


class JsonPiece(msgspec.Struct, frozen=True):
    """Messages in wire form, separated by commas."""

    text: bytes
    last_seq: int
    more: bool


async def history_json(tx: Transaction, scope: Scope, ref: SessionRef, after: int, limit: int) -> JsonPiece:
    """The messages after a `seq`, as they are stored: up to `limit`, fewer where they are long."""
    found = await sessions.find(tx, scope, ref, writing=False)
    floors = await open_floors(tx, found.pk)
    size = await tx.one("history_size_after", found.pk, after, limit)
    assert size is not None
    fitting, length = size
    more = fitting == limit
    if length > PIECE_BYTES:
        fitting, more = await _fitting(tx, found.pk, "after", after, limit, PIECE_BYTES), True
    if floors:
        rows = await as_they_stand(tx, floors, await tx.all("history_after", found.pk, after, fitting))
        return JsonPiece(_wire_form(rows).encode(), rows[-1][1] if rows else after, more)
    row = await tx.one("history_as_json", found.pk, after, fitting)
    assert row is not None
    text, last_seq = row
    return JsonPiece((text or "").encode(), last_seq or after, more)


async def get(tx: Transaction, scope: Scope, ref: SessionRef, message_id: MessageId) -> Message:
    found = await sessions.find(tx, scope, ref, writing=False)
    floors = await open_floors(tx, found.pk)
    stored = await _stored(tx, found.pk, message_id)
    (current,) = await as_they_stand(tx, floors, [stored])
    return message_from_row(*current[1:])


async def earlier(tx: Transaction, message: Message) -> Message | None:
    """The message that was stored under the same id, in whichever session; it must say the same."""
    assert message.id is not None
    row = await tx.one("message_by_id", id_bytes(message.id, "message id"))
    if row is None:
        return None
    stored = message_from_row(*row[2:])
    if not _same(stored, message):
        raise _id_taken(message.id)
    return stored


async def revise(
    tx: Transaction,
    scope: Scope,
    ref: SessionRef,
    message_id: MessageId,
    content: Content,
    now: int,
    max_bytes: int,
    counter: TokenCounter | None = None,
) -> Message:
    """Replace the content of an open message; it is final once its content is no longer open."""
    found = await sessions.find(tx, scope, ref, writing=True)
    _, rev = await sessions.advance(tx, found.pk, now)
    pk, seq, _, body = await _stored(tx, found.pk, message_id)
    if await tx.one("open_message", pk) is None:
        raise MessageFinal(message_id)
    parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    kind = content_type(parts["content"])
    if kind in STREAMED and content_type(encode_content(content)) != kind:
        raise InvalidInput(
            f"The message is a {kind} that is still being said, and cannot become another kind."
        )
    encoded = msgspec.json.encode(parts | {"content": msgspec.Raw(encode_content(content))})
    if len(encoded) > max_bytes:
        raise _too_large(len(encoded), max_bytes)
    revised = encoded.decode()
    # It says all that there is: what was streamed of it before is no longer its end.
    await tx.run("forget_chunks", pk)
    if not content.open:
        await tx.run("close_message", pk)
        revised = with_count(revised, counter)
    await tx.run("change_message", revised, rev, pk)
    return message_from_row(seq, rev, revised)


async def give_turn(
    tx: Transaction, session_pk: int, message_id: MessageId, turn_id: TurnId, now: int
) -> bool:
    """Say in which turn a message is answered that was stored without one; False when it has one."""
    pk, _, _, body = await _stored(tx, session_pk, message_id)
    parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if "turnId" in parts:
        return False
    _, rev = await sessions.advance(tx, session_pk, now)
    revised = msgspec.json.encode(parts | {"turnId": turn_id}).decode()
    await tx.run("change_message", revised, rev, pk)
    return True


def _wire_form(rows: Sequence[Row]) -> str:
    return ",".join([message_json(seq, rev, body) for _, seq, rev, body in rows])


def _id_taken(message_id: str) -> Conflict:
    return Conflict(f"Another message already has the id {message_id}; give a new one its own id.")


def _too_large(size: int, limit: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"The message has {size:,} bytes; at most {limit:,} are kept in one. "
        "Store the payload as a blob and append a reference to it."
    )


async def _page(
    tx: Transaction, session_pk: int, options: HistoryOptions, max_bytes: int | None = None
) -> tuple[list[Row], int | None, int | None]:
    """The rows oldest first, with the cursors to what is older and newer."""
    limit = options.limit
    floors = await open_floors(tx, session_pk)
    forwards = options.after is not None and options.before is None
    cursor = options.after if forwards else options.before
    cursor = MAX_SEQ if cursor is None else cursor
    direction = "after" if forwards else "before"
    # One row more than asked for tells whether there is another page.
    if options.since is None and options.until is None:
        if max_bytes is not None:
            limit = await _fitting(tx, session_pk, direction, cursor, limit, max_bytes)
        found = list(await tx.all(f"history_{direction}", session_pk, cursor, limit + 1))
    else:
        since = to_ms(options.since) if options.since else -MAX_SEQ
        until = to_ms(options.until) if options.until else MAX_SEQ
        after, upto = [await tx.one("last_seq_by", session_pk, moment) for moment in (since, until - 1)]
        window = (after[0] if after else 0, upto[0] if upto else 0)
        found = list(
            await tx.all(
                f"history_window_{direction}",
                *(session_pk, *window, cursor, limit + 1, since, until),
            )
        )
    if not forwards and options.after is not None:
        found = [row for row in found if row[1] > options.after]
    more = len(found) > limit
    rows = found[:limit]
    if not forwards:
        rows.reverse()
    if not rows:
        return [], None, None
    rows = await as_they_stand(tx, floors, rows)
    older = rows[0][1] if (more if not forwards else rows[0][1] > 1) else None
    newer = rows[-1][1] if (more if forwards else options.before is not None) else None
    return rows, older, newer


async def _fitting(
    tx: Transaction, session_pk: int, direction: str, cursor: int, limit: int, max_bytes: int
) -> int:
    """How many of the messages from a cursor on begin within so many bytes: at least one, if there is one."""
    whole = await tx.one(f"history_size_{direction}", session_pk, cursor, limit)
    if whole is not None and whole[1] <= max_bytes:
        return limit
    length = fitting = 0
    for (size,) in await tx.all(f"history_sizes_{direction}", session_pk, cursor, limit):
        if length >= max_bytes:
            break
        length += size
        fitting += 1
    return fitting


async def _repeated(tx: Transaction, session_pk: int, prepared: Prepared) -> Message | None:
    """The message that an earlier call stored under the same id, if it says the same."""
    row = await tx.one("message_by_id", prepared.id)
    if row is None:
        return None
    _, stored_session, seq, rev, body = row
    earlier = message_from_row(seq, rev, body)
    if stored_session != session_pk or not _same(earlier, prepared.message):
        raise _id_taken(id_text(prepared.id))
    return earlier


def _same(earlier: Message, message: Message) -> bool:
    """Whether two messages say the same. When they were said does not count: a retry is later."""
    return (earlier.role, bytes(earlier.content_json), earlier.tool_calls, earlier.tool_call_id) == (
        *(message.role, bytes(message.content_json), message.tool_calls, message.tool_call_id),
    ) or message.open


async def _stored(tx: Transaction, session_pk: int, message_id: MessageId) -> tuple[int, int, int, str]:
    row = await tx.one("message_by_id", id_bytes(message_id, "message id"))
    if row is None or row[1] != session_pk:
        raise NotFound(f"The session has no message {message_id}.")
    pk, _, seq, rev, body = row
    return pk, seq, rev, body
