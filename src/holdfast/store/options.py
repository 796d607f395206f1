"""What a caller may ask of a store, and the pages it answers with."""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import datetime
from enum import StrEnum

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import MessageId, RepoId, SessionId
from holdfast.model.key import PeerKind
from holdfast.model.message import Message
from holdfast.model.records import Compaction
from holdfast.model.session import Session
from holdfast.model.status import SessionStatus, as_status
from holdfast.model.text import label, one_of, storable_fields
from holdfast.model.turn import Turn
from holdfast.model.words import Piece

MAX_PAGE = 10_000
"""Rows in one page. Reading more is a loop over pages, so that no read holds the database for long."""


BRIEF = 200
"""Rows up to which a page is read sooner than a thread is woken to read it."""

MAX_SEQ = 2**62
"""A seq beyond every other."""


class HistoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages of a session to read. The page is always oldest first.

    By default the latest `limit`. `before` gives the latest ones below that `seq`, `after` the
    earliest ones above it. `since` and `until` filter by timestamp (later than, earlier than).
    """

    limit: int = 50
    before: int | None = None
    after: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    keep_pairs: bool = False
    """Lengthen the page rather than part a tool call from its result, by up to a thousand messages."""

    def __post_init__(self) -> None:
        check_limit(self.limit)
        for name in ("before", "after"):
            if (cursor := getattr(self, name)) is not None and not 0 <= cursor <= MAX_SEQ:
                raise InvalidInput(f"`{name}` is the seq of a message; {cursor} cannot be one.")

    @property
    def brief(self) -> bool:
        """Whether this is a matter of few rows, each found by an index."""
        windowed = self.since is not None or self.until is not None  # a page may be late in a long window
        return self.limit <= BRIEF and not self.keep_pairs and not windowed


class HistoryPage(msgspec.Struct, frozen=True):
    messages: list[Message]
    """Oldest first."""
    older: int | None
    """The cursor for `before` that continues towards the start; None when nothing is older."""
    newer: int | None
    """The cursor for `after` that continues towards the end; None when nothing is newer."""

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]


class JsonPage(msgspec.Struct, frozen=True):
    """A page of messages in wire form, oldest first, separated by commas."""

    text: bytes
    older: int | None
    newer: int | None


CURSOR = "^(created|updated)-[0-9]{1,18}-[0-9]{1,18}$"
"""What says where a page of sessions ends."""


class SessionOrder(StrEnum):
    CREATED = "created"
    UPDATED = "updated"


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list; everything given must hold. Newest first."""

    agent_id: str | None = None
    channel: str | None = None
    account_id: str | None = None
    peer_kind: PeerKind | None = None
    peer_id: str | None = None
    repo_id: RepoId | None = None
    owner: str | None = None
    participant: str | None = None
    """Who owns the session, or opened a turn in it."""
    status: Set[SessionStatus | str] | None = None
    text: str | None = None
    """Some of the title, in any case of its letters, or words that are all in one message."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    order: SessionOrder = SessionOrder.UPDATED
    limit: int = 20
    offset: int = 0
    before: str | None = None
    """The `next` of the page before this one."""

    def __post_init__(self) -> None:
        check_limit(self.limit)
        if not 0 <= self.offset <= MAX_SEQ:
            raise InvalidInput(f"The offset cannot be {self.offset}: it counts sessions to leave out.")
        if self.status is not None:
            _set(self, "status", frozenset(map(as_status, self.status)))
        if self.peer_kind is not None:
            _set(self, "peer_kind", one_of(PeerKind, self.peer_kind, "kind of peer"))
        _set(self, "order", one_of(SessionOrder, self.order, "order"))
        for name in ("agent_id", "owner", "participant"):
            if (value := getattr(self, name)) is not None:
                label(value, name.replace("_", " "))
        storable_fields(self)

    @property
    def ranges(self) -> list[tuple[str, datetime]]:
        """The comparisons with moments."""
        given = (
            ("created_at >", self.created_after),
            ("created_at <", self.created_before),
            ("updated_at >", self.updated_after),
            ("updated_at <", self.updated_before),
        )
        return [(comparison, moment) for comparison, moment in given if moment is not None]

    @property
    def counted(self) -> bool:
        """Whether it is known without reading sessions how many match."""
        peer = (self.channel, self.account_id, self.peer_kind, self.peer_id)
        read = (self.text, self.participant, *peer)
        return not self.ranges and all(each is None for each in read)


class Match(msgspec.Struct, frozen=True, rename="camel"):
    """The newest message of a session that has the words somebody looked for."""

    message_id: MessageId
    seq: int
    snippet: tuple[Piece, ...]
    """Some of what it says, in one line and in pieces: those with `hit` are what was looked for."""


class SessionPage(msgspec.Struct, frozen=True):
    sessions: list[Session]
    total: int
    """How many sessions match, on all pages together."""
    limit: int
    offset: int
    next: str | None
    """The cursor for `before` of the next page; None on the last one."""
    matches: dict[SessionId, Match] = {}
    """Of a search, the message that was found, for each session whose messages have the words, as far as a
    person reads."""
    is_all: bool = True
    """False for a search of words so frequent that only the newest messages with them were looked at."""
    unread: int = 0
    """Messages whose words are not known yet: asked again, a search goes on through them."""

    def __iter__(self) -> Iterator[Session]:
        return iter(self.sessions)

    def __len__(self) -> int:
        return len(self.sessions)


class Delta(msgspec.Struct, frozen=True):
    """Text that was added to the end of a streaming message, which is then at this revision."""

    message_id: MessageId
    rev: int
    text: str

    def applied_to(self, message: Message) -> Message:
        """The message with this text; as it is when it has it already."""
        if message.rev >= self.rev:
            return message
        content = msgspec.json.decode(message.content_json)
        content["text"] = content.get("text", "") + self.text
        json = msgspec.Raw(msgspec.json.encode(content))
        return msgspec.structs.replace(message, content_json=json, rev=self.rev)


class Changes(msgspec.Struct, frozen=True):
    """What changed in a session after a revision.

    Rows replace those of the same id. After them, each delta lengthens its message; one whose
    revision the message has already reached says nothing new.
    """

    session: Session
    messages: list[Message]
    turns: list[Turn]
    compactions: list[Compaction]
    rev: int
    """Where to continue from. Everything up to it is in this answer or was in an earlier one."""
    more: bool
    """Whether there is more to read at once."""
    deltas: list[Delta] = []
    """Only for one who follows the session, and has the message as it stood before."""


class ChangedSessions(msgspec.Struct, frozen=True):
    """Which sessions changed after a position. Those of `sessions` replace the ones of the same id."""

    sessions: list[Session]
    deleted: list[SessionId]
    position: int
    """Where to continue from. Everything up to it is in this answer or was in an earlier one."""
    more: bool
    """Whether there is more to read at once."""


_set = msgspec.structs.force_setattr


def check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"The limit is between 1 and {MAX_PAGE}; it is {limit}.")
