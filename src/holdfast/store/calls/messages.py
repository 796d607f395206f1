"""Messages: appended, read in pages and as JSON, streamed, revised."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from holdfast.errors import InvalidInput
from holdfast.model.content import Content
from holdfast.model.ids import MessageId, TurnId
from holdfast.model.message import Message
from holdfast.model.session import SessionRef
from holdfast.store import (
    chunks,
    messages,
)
from holdfast.store.calls.call import Calls
from holdfast.store.options import (
    MAX_SEQ,
    HistoryOptions,
    HistoryPage,
    JsonPage,
    check_limit,
)
from holdfast.store.streams import MessageStream

JSON_PAGE = 1000
"""Messages per piece of a history that is streamed as JSON, unless they are long."""


class MessageCalls(Calls):
    async def append_messages(
        self,
        ref: SessionRef,
        new: Sequence[Message],
        *,
        turn_id: TurnId | None = None,
        expected_revision: int | None = None,
    ) -> Sequence[Message]:
        """Append all of `new`, or none; as stored, in order.

        A message that carries an id and was already stored under it is not stored again, so a
        call whose answer was lost may simply be repeated.
        """
        runtime = self._runtime
        now = runtime.clock()
        prepared = runtime.prepared(new, now, turn_id)
        append = messages.Append(self._scope, ref, prepared, now, self._engine.owner, expected_revision)
        stored = await self._admitted(self._engine.write(append))
        runtime.committed()
        return stored

    async def get_history(self, ref: SessionRef, options: HistoryOptions | None = None) -> HistoryPage:
        """A page of messages, oldest first: the latest ones unless `options` say otherwise."""
        options = options or HistoryOptions()
        read = self._glance if options.brief else self._read
        return await read(messages.history, ref, options)

    async def get_ranges(self, ref: SessionRef, ranges: Sequence[tuple[int, int]]) -> Sequence[Message]:
        """The messages from each first to each last `seq`, as far as they are there."""
        for first, last in ranges:
            if not 1 <= first <= last <= MAX_SEQ:
                raise InvalidInput(f"{first} to {last} is no range of messages.")
        check_limit(max(1, sum(last - first + 1 for first, last in ranges)))
        return await self._read(messages.ranges, ref, ranges)

    async def get_message(self, ref: SessionRef, message_id: MessageId) -> Message:
        return await self._glance(messages.get, ref=ref, message_id=message_id)

    async def history_json(self, ref: SessionRef, *, after: int = 0) -> AsyncIterator[bytes]:
        """All messages after a `seq` as one JSON array, in pieces, passed through unparsed.

        Each piece is a read of its own, so a slow reader holds nothing open.
        """
        opening, more = b"[", True
        while more:
            piece = await self._read(messages.history_json, ref, after, JSON_PAGE)
            if piece.text:
                yield opening + piece.text
                opening, after = b",", piece.last_seq
            more = piece.more
        yield b"]" if opening == b"," else b"[]"

    async def history_page_json(self, ref: SessionRef, options: HistoryOptions) -> JsonPage:
        """A page of messages in wire form, passed through unparsed; shorter than asked if they are long."""
        read = self._glance if options.brief else self._read
        return await read(messages.history_page_json, ref, options)

    async def open_stream(
        self, ref: SessionRef, message: Message, *, turn_id: TurnId | None = None
    ) -> MessageStream:
        """Append a message that is still being said, and write it as it comes."""
        if not message.open:
            raise InvalidInput("Only a text or thought that is partial can be streamed; pass partial=True.")
        (opened,) = await self.append_messages(ref, [message], turn_id=turn_id)
        assert opened.id is not None
        keys = await self._engine.read(partial(chunks.locate, message_id=opened.id), brief=True)
        return MessageStream(self._runtime.streams, opened, *keys, self._scope.lease)

    async def revise_message(self, ref: SessionRef, message_id: MessageId, content: Content) -> Message:
        """Replace the content of an open message. It is final once its content is no longer open."""
        runtime = self._runtime
        return await self._write(
            messages.revise,
            ref=ref,
            message_id=message_id,
            content=content,
            now=runtime.clock(),
            max_bytes=runtime.max_message_bytes,
            counter=runtime.counter,
        )
