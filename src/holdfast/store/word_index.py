"""The words of messages, kept for searches: made from the messages once somebody searches.

An append writes nothing here, and what nobody searches is never read. The first search reads what
there is, for as long as a person would wait, and the rest is read in the background; from then on
new messages are read a little after they came. Messages are read in the order of their keys, up to
the one that `word_progress` names. One of which more is expected is `words_due`, until it is final.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from holdfast.errors import StoreError
from holdfast.model.words import readable, words_of
from holdfast.store.engine import Engine
from holdfast.store.pulse import Pulse
from holdfast.store.transaction import Row, Transaction

log = logging.getLogger("holdfast.store")

SEARCH_SECONDS = 1.0
"""How long a search may be held up by reading what is new."""

SLICE_SECONDS, PAUSE_SECONDS = 0.25, 0.5
"""How long the background reads at once, and how long it then leaves the store to others."""

BATCH_MESSAGES, BATCH_BYTES = 250, 2_000_000
"""Messages whose words are written at once: few enough that no other writer waits for long."""


UNREAD = "what was said lately is not found by a search yet"

COUNTED = 100_000
"""Unread messages of an organization that are counted; more are as many."""

KEPT_BYTES = 900_000
"""Of the words of one message. PostgreSQL keeps more than a mebibyte, and then does not find the rest."""


class WordIndex:
    """Reads messages when a search wants it, and goes on after it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wanted = False
        self._batch = asyncio.Lock()
        self._readings: set[asyncio.Task[bool]] = set()
        self._pulse = Pulse(PAUSE_SECONDS, self._read_on)

    async def catch_up(self, organization: str | None) -> int:
        """Read what is new; how many messages are left that could not be read now.

        Of an organization only its own count: what others say is not its business.
        """
        self._wanted = True
        reading = asyncio.get_running_loop().create_task(self._read_for(SEARCH_SECONDS))
        self._readings.add(reading)
        reading.add_done_callback(self._readings.discard)
        # It may have to wait for whoever writes, and a person should not: it goes on behind the answer.
        await asyncio.wait({reading}, timeout=SEARCH_SECONDS)
        if reading.done() and reading.result():
            return 0
        return await self._engine.read(partial(_unread_count, organization=organization))

    def nudge(self) -> None:
        """Something was written. It is read soon, if anybody ever searched."""
        if self._wanted:
            self._pulse.nudge()

    async def close(self) -> None:
        self._wanted = False
        await self._pulse.stop()
        if self._readings:
            await asyncio.wait(self._readings)

    async def _read_on(self) -> None:
        await self._read_for(SLICE_SECONDS)

    async def _read_for(self, seconds: float) -> bool:
        """Read for some time; whether all is read now. What is known can be searched in any case."""
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            while await self._read_batch():
                if asyncio.get_running_loop().time() >= deadline:
                    self.nudge()
                    return False
        except StoreError as error:
            log.warning("%s: %s", UNREAD, error)
            return False
        return True

    async def _read_batch(self) -> bool:
        """Read some messages and keep their words; whether there are more."""
        async with self._batch:
            unread = await self._engine.read(_unread, snapshot=True)
            if not unread.rows and not unread.due:
                return False
            words = await asyncio.to_thread(_words, unread)
            return not await self._engine.write(partial(_keep, words=words)) or unread.more


def mark(organization: str, owner: str = "") -> str:
    """What the messages of an owner have among their words, and with no owner those of an organization.

    No word has a § in it. Two names may share a mark: it only narrows down where to look.
    """
    names = msgspec.json.encode([organization, owner])
    return f"§{blake2b(names, digest_size=5).hexdigest()}"


class _Unread(msgspec.Struct, frozen=True):
    """Messages whose words are not known yet."""

    last: int
    """What had been read before them."""
    top: int
    """The last of them."""
    rows: Sequence[Row]
    due: Sequence[Row]
    """Those that were not final when the others were read."""
    more: bool


class _Words(msgspec.Struct, frozen=True):
    """What there is to write about messages."""

    last: int
    top: int
    ids: list[tuple[int, bytes]] = msgspec.field(default_factory=list)
    open: list[tuple[int]] = msgspec.field(default_factory=list)
    final: list[tuple[int, str]] = msgspec.field(default_factory=list)
    due: list[tuple[int, bytes, str]] = msgspec.field(default_factory=list)


async def _unread(tx: Transaction) -> _Unread:
    last = top = await _last(tx)
    sizes = await tx.all("unread_messages", last, BATCH_MESSAGES)
    taken = 0
    for pk, size in sizes:
        taken += size
        if top != last and taken > BATCH_BYTES:
            break
        top = pk
    rows = await tx.all("messages_to_read", last, top)
    due = await tx.all("messages_due", BATCH_MESSAGES)
    more = BATCH_MESSAGES in (len(sizes), len(due)) or len(rows) < len(sizes)
    return _Unread(last, top, rows, due, more)


def _words(unread: _Unread) -> _Words:
    """The words of messages. This takes a while, and holds nothing up."""
    words = _Words(unread.last, unread.top)
    for pk, raw_id, organization, owner, body, is_open in unread.rows:
        words.ids.append((pk, raw_id))
        if is_open:
            words.open.append((pk,))
        else:
            words.final.append((pk, _marked(organization, owner, body)))
    for pk, raw_id, organization, owner, body in unread.due:
        words.due.append((pk, raw_id, _marked(organization, owner, body)))
    return words


def _marked(organization: str, owner: str, body: str) -> str:
    words = [mark(organization), mark(organization, owner)]
    size = 0
    for word in words_of(readable(body)):
        size += len(word.encode())
        if size > KEPT_BYTES:
            break
        words.append(word)
    return " ".join(words)


async def _keep(tx: Transaction, words: _Words) -> bool:
    """Write the words; False when another process was faster, or messages went and others have their keys."""
    settled = [(pk, text) for pk, raw_id, text in words.due if await tx.one("settle_due", pk, raw_id)]
    await _insert(tx, settled)
    if await _last(tx) != words.last:
        return False
    if [tuple(row) for row in await tx.all("message_ids", words.last, words.top)] != words.ids:
        return False
    await tx.many("insert_due", words.open)
    await _insert(tx, words.final)
    await tx.run("advance_words", words.top)
    return True


async def _insert(tx: Transaction, words: list[tuple[int, str]]) -> None:
    if words:
        await tx.run("insert_words", msgspec.json.encode(words).decode())


async def _last(tx: Transaction) -> int:
    row = await tx.one("word_progress")
    assert row is not None
    return int(row[0])


async def _unread_count(tx: Transaction, organization: str | None) -> int:
    """About how many messages were not read yet."""
    row = await (
        tx.one("unread_count") if organization is None else tx.one("unread_count_of", organization, COUNTED)
    )
    assert row is not None
    return int(row[0])
