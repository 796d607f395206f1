"""The store: one face over both engines.

A store is always somebody's: `open_store` gives the one of the person at this machine,
`as_principal` and `as_agent` give views that see and change only what theirs may. Every method
is one operation in one transaction, and a write has been committed when its call returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from holdfast.errors import AccessDenied, InvalidInput, StoreError
from holdfast.model.content import Content
from holdfast.model.ids import CompactionId, ContextId, MessageId, RepoId, SessionId, TokenId, TurnId
from holdfast.model.key import SessionKey
from holdfast.model.lease import Lease
from holdfast.model.message import Message
from holdfast.model.principal import Principal
from holdfast.model.records import (
    AuditEntry,
    BindingRecord,
    Compaction,
    CompactionOutline,
    ContextKind,
    ContextRecord,
    ExecutionKey,
    KeyedTurn,
    MoveRecord,
    MoveStep,
    NewCompaction,
    ProcessRecord,
    Repo,
    Token,
)
from holdfast.model.session import NewSession, Session, SessionPatch, SessionRef
from holdfast.model.status import SessionStatus
from holdfast.model.turn import NewTurn, Turn, TurnAnswer, TurnFailure, TurnProgress
from holdfast.store import (
    bindings,
    changes,
    check,
    chunks,
    executions,
    feed,
    leases,
    listing,
    messages,
    moves,
    payloads,
    processes,
    records,
    search,
    sessions,
    turns,
)
from holdfast.store.feed import RevisionAhead
from holdfast.store.ids import new_id
from holdfast.store.options import (
    BRIEF,
    MAX_SEQ,
    ChangedSessions,
    Changes,
    HistoryOptions,
    HistoryPage,
    JsonPage,
    SessionFilter,
    SessionPage,
    check_limit,
)
from holdfast.store.runtime import Runtime
from holdfast.store.scope import Scope
from holdfast.store.streams import MessageStream
from holdfast.store.transaction import Transaction

log = logging.getLogger("holdfast.store")

P = ParamSpec("P")
T = TypeVar("T")

Scoped = Callable[Concatenate[Transaction, Scope, P], Coroutine[Any, Any, T]]
"""An operation on behalf of somebody."""

JSON_PAGE = 1000
"""Messages per piece of a history that is streamed as JSON, unless they are long."""


class Store:
    def __init__(self, runtime: Runtime, scope: Scope) -> None:
        self._runtime = runtime
        self._engine = runtime.engine
        self._scope = scope

    # Views

    @property
    def user(self) -> str:
        """Whose view this is."""
        return self._scope.user

    def as_agent(self, agent_id: str) -> Store:
        """The view of one agent: the sessions of others answer `AccessDenied`."""
        return Store(self._runtime, self._scope.of_agent(agent_id))

    def as_principal(self, principal: Principal) -> Store:
        """The view of a caller: what they may not see is not found."""
        return Store(self._runtime, self._scope.of_principal(principal))

    def as_system(self) -> Store:
        """The view of the program itself, across organizations: for recovery and supervision only."""
        return Store(self._runtime, self._scope.of_principal(None))

    def under_lease(self, lease: Lease) -> Store:
        """The view of who runs a session's turn: once another holder has come, it cannot write there."""
        return Store(self._runtime, msgspec.structs.replace(self._scope, lease=lease))

    # Sessions

    async def get_or_create(self, key: SessionKey, defaults: NewSession | None = None) -> Session:
        """The session of `key`. The same key gives the same session, however many callers race."""
        existing = await self._glance(sessions.lookup, key)
        if existing is not None:
            return existing
        new = sessions.with_key(defaults, key)
        return await self._create(new, reuse=True)

    async def create_session(self, new: NewSession) -> Session:
        return await self._create(new, reuse=False)

    async def get_session(self, ref: SessionRef, *, writing: bool = False) -> Session:
        """A session; `writing` denies it to those who may only read it."""
        return await self._glance(sessions.get, ref, writing=writing)

    async def list(self, wanted: SessionFilter | None = None) -> SessionPage:
        """Sessions that match, newest first, with their exact total.

        With a text, what was said lately is first made searchable, for as long as a person would wait,
        and the page says whether it has all there is.
        """
        wanted = wanted or SessionFilter()
        if wanted.text is not None:
            principal = self._scope.principal
            unread = await self._runtime.words.catch_up(principal.organization if principal else None)
            found = await self._snapshot(search.find, wanted, unread, self._runtime.known)
            return await asyncio.to_thread(found.with_matches, wanted.text)
        read = self._glance_at_once if listing.is_brief(self._scope, wanted) else self._snapshot
        return await read(listing.page, wanted, self._runtime.known)

    async def patch(
        self, ref: SessionRef, patch: SessionPatch, *, expected_revision: int | None = None
    ) -> Session:
        return await self._write(
            sessions.patch, ref=ref, change=patch, expected=expected_revision, now=self._runtime.clock()
        )

    async def retire(self, ref: SessionRef) -> Session:
        """Archive a session under a key of its own, so that its key may begin another."""
        return await self._write(moves.retire, ref, self._runtime.clock())

    async def delete(self, ref: SessionRef) -> None:
        """Delete a session and everything in it."""
        await self._write(sessions.delete, ref=ref)

    # Messages

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

    # Turns

    async def add_turn(
        self,
        ref: SessionRef,
        new: NewTurn,
        *,
        said: Sequence[Message] = (),
        joined: Sequence[MessageId] = (),
        expected_revision: int | None = None,
        owned: bool = False,
        key: ExecutionKey | None = None,
    ) -> Turn:
        """Open a turn: pending, with the session's next sequence number, and what was `said` to open it.

        It answers the messages that `joined` earlier turns and are in the session already. An `owned` turn is
        this process's to end; once the process is gone, others may claim it. With a `key`, `keyed_turn` finds
        it, and no other turn is opened with it.
        """
        runtime = self._runtime
        now = runtime.clock()
        turn_id = new.id or TurnId(new_id())
        prepared = runtime.prepared(said, now, turn_id)
        append = messages.Append(self._scope, ref, prepared, now, self._engine.owner)

        async def add(tx: Transaction, scope: Scope) -> Turn:
            if earlier := await turns.repeated(tx, scope, ref, new):
                return earlier
            turn = await turns.add(
                tx, scope, ref=ref, new=new, turn_id=turn_id, expected=expected_revision, now=now
            )
            await append(tx)
            if joined:
                await leases.answer(tx, scope, ref, joined, turn.id, now)
            if owned:
                await executions.own(tx, scope, ref, turn.id, self._engine.owner, key, now)
            return turn

        return await self._write(add)

    async def keyed_turn(self, key: str) -> KeyedTurn | None:
        """The turn that this view's caller opened with a key."""
        return await self._glance(executions.keyed, key)

    async def claim_abandoned_turns(self) -> Sequence[tuple[SessionId, TurnId]]:
        """Take over the pending turns that processes which are gone have left, to end them.

        Their leases are free then, too.
        """
        known = {*await self._engine.read(executions.owners), *await self._engine.read(leases.owners)}
        dead = await self._engine.dead(sorted(known))
        if not dead:
            return []
        owner = self._engine.owner

        async def claim(tx: Transaction) -> Sequence[tuple[SessionId, TurnId]]:
            await leases.free(tx, dead)
            return await executions.claim(tx, dead, owner)

        await self.close_abandoned_messages()
        return await self._engine.write(claim)

    async def close_abandoned_messages(self) -> None:
        """Close what processes which are gone were saying; it happens by itself, too, a little later."""
        await self._runtime.close_abandoned()

    async def progress_turn(self, ref: SessionRef, turn_id: TurnId, known: TurnProgress) -> Turn:
        """Record what became known while a turn is pending."""
        return await self._write(
            turns.progress, ref=ref, turn_id=turn_id, known=known, now=self._runtime.clock()
        )

    async def complete_turn(self, ref: SessionRef, turn_id: TurnId, answer: TurnAnswer) -> Turn:
        return await self._write(
            turns.complete, ref=ref, turn_id=turn_id, answer=answer, now=self._runtime.clock()
        )

    async def fail_turn(self, ref: SessionRef, turn_id: TurnId, failure: TurnFailure) -> Turn:
        return await self._write(
            turns.fail, ref=ref, turn_id=turn_id, failure=failure, now=self._runtime.clock()
        )

    async def get_turn(self, ref: SessionRef, turn_id: TurnId) -> Turn:
        return await self._glance(turns.get, ref=ref, turn_id=turn_id)

    async def session_of_turn(self, turn_id: TurnId) -> SessionId:
        return await self._glance(turns.session_of, turn_id)

    async def turn_of(self, message: Message) -> Turn | None:
        """The turn of a message that carries its id, in whichever session it was stored before, if it was."""
        return None if message.id is None else await self._glance(turns.of_message, message)

    async def last_turn(self, ref: SessionRef) -> Turn | None:
        return await self._glance(turns.last, ref=ref)

    async def answered_turn(self, ref: SessionRef, *, before: int) -> Turn | None:
        """The last turn before a sequence number that a model answered."""
        return await self._glance(turns.answered, ref=ref, before=before)

    async def list_turns(self, ref: SessionRef, *, after: int = 0, limit: int = 100) -> Sequence[Turn]:
        """Turns by sequence, beginning after the sequence number `after`."""
        check_limit(limit)
        return await self._read(turns.after, ref=ref, sequence=after, limit=limit)

    async def every_turn(self, ref: SessionRef) -> AsyncIterator[Turn]:
        """All turns, by sequence."""
        after = 0
        while page := await self.list_turns(ref, after=after, limit=1000):
            for turn in page:
                yield turn
            after = page[-1].sequence_number

    async def pending_turns(self) -> Sequence[Turn]:
        """Every pending turn, across sessions: what a crash may have left."""
        self._scope.admit_admin("see the turns of all sessions")
        return await self._engine.read(turns.pending)

    # The turn's lease: one runs a session's turn at a time, across processes

    async def take_lease(self, ref: SessionRef, seconds: float) -> Lease | None:
        """The right to run a session's turn, for so long; None while somebody else has it."""
        now = self._runtime.clock()
        return await self._write(leases.take, ref, self._engine.owner, now, now + round(seconds * 1000))

    async def renew_lease(self, lease: Lease, seconds: float) -> bool:
        """Keep the lease for so long from now; whether somebody wants the turn interrupted."""
        return await self._write(leases.renew, lease, self._runtime.clock() + round(seconds * 1000))

    async def release_lease(self, lease: Lease, *, leave_joined: bool = False) -> bool:
        """Give the lease up. False, and it goes on, when somebody joined whom nobody has answered yet."""
        return await self._write(leases.release, lease, self._runtime.clock(), leave_joined=leave_joined)

    async def join_turn(self, ref: SessionRef, message: Message) -> Message | None:
        """Say something into the chat turn that runs; None when none does, and then nothing is said.

        It counts as joined until a turn answers it. The turn of a process that is gone cannot be joined.
        """
        runtime = self._runtime
        owner = await self._glance(leases.owner, ref)
        gone = owner if owner is not None and await self._engine.dead([owner]) else None
        now = runtime.clock()
        append = messages.Append(
            self._scope, ref, runtime.prepared([message], now, None), now, self._engine.owner
        )
        return await self._write(leases.join, append, gone=gone)

    async def joined_count(self, ref: SessionRef) -> int:
        """How many messages joined turns of a session and have no answer yet."""
        return await self._glance(leases.joined_count, ref)

    async def interrupt_turn(self, ref: SessionRef) -> bool:
        """Ask whoever runs the session's turn to stop; whether there is one."""
        return await self._write(leases.interrupt, ref, self._runtime.clock())

    async def lease_seconds(self, ref: SessionRef) -> float:
        """How long the lease of a session still lasts if nobody renews it; 0 when it is free."""
        expires_at = await self._glance(leases.expiry, ref)
        return max(0.0, (expires_at - self._runtime.clock()) / 1000)

    # Compactions

    async def commit_compaction(
        self,
        ref: SessionRef,
        new: NewCompaction,
        *,
        expected_revision: int | None = None,
        planned_at: int | None = None,
    ) -> Compaction:
        """Record a fold of messages. The messages themselves stay as they are.

        `planned_at` is a revision after which no compaction may have been made or undone; what was said
        after it does not matter.
        """
        compaction_id = CompactionId(new_id())
        return await self._write(
            records.commit_compaction,
            ref=ref,
            new=new,
            compaction_id=compaction_id,
            expected=expected_revision,
            planned_at=planned_at,
            now=self._runtime.clock(),
        )

    async def list_compactions(self, ref: SessionRef) -> Sequence[Compaction]:
        return await self._read(records.compactions, ref=ref)

    async def compaction_outlines(self, ref: SessionRef) -> tuple[Session, Sequence[CompactionOutline]]:
        """A session as it is, and which compactions it has, in one read."""
        return await self._glance_at_once(records.compaction_outlines, ref=ref)

    async def get_compactions(self, ref: SessionRef, ids: Sequence[CompactionId]) -> Sequence[Compaction]:
        return await self._glance(records.compactions_by_id, ref=ref, ids=ids)

    async def undo_compaction(self, ref: SessionRef, compaction_id: CompactionId) -> Compaction:
        return await self._write(
            records.undo_compaction, ref=ref, compaction_id=compaction_id, now=self._runtime.clock()
        )

    # The change feed

    async def changes(self, ref: SessionRef, since: int, *, limit: int = 1000) -> Changes:
        """What changed in a session after revision `since`."""
        if since < 0:
            raise InvalidInput(f"A revision cannot be negative; it is {since}.")
        check_limit(limit)
        read = self._glance_at_once if limit <= BRIEF else self._snapshot
        found = await read(changes.since, ref, since, limit)
        if found.session.rev < since:
            raise RevisionAhead(since, found.session.rev)
        return found

    async def changed_sessions(self, since: int, *, limit: int = 1000) -> ChangedSessions:
        """Which of the sessions that this view may list changed after a position of `follow_all`."""
        if since < 0:
            raise InvalidInput(f"A position cannot be negative; it is {since}.")
        check_limit(limit)
        found = await self._snapshot(changes.sessions_after, since, limit)
        if found.position < since:
            raise RevisionAhead(since, found.position)
        return found

    async def follow(self, ref: SessionRef, since: int = 0) -> AsyncGenerator[Changes, None]:
        """What changed in a session after revision `since`, then every change once it is committed.

        Whoever applies the items in order has, after each that has no `more`, exactly what somebody
        reads who reads the session afresh. The iterator ends when the store is closed, and with
        `SessionNotFound` when the session is deleted; close it (`contextlib.aclosing`) to stop before.
        """
        if since < 0:
            raise InvalidInput(f"A revision cannot be negative; it is {since}.")
        found = await self._glance(sessions.find, ref, writing=False)

        def read(position: changes.Position) -> Awaitable[tuple[Changes, changes.Position]]:
            return self._glance_at_once(changes.after, ref, position, feed.PAGE)

        async with aclosing(feed.follow(self._runtime.feed, found.pk, since, read)) as items:
            async for item in items:
                yield item

    async def position(self) -> int:
        """Where `follow_all` and `changed_sessions` are by now."""
        return (await self._runtime.feed.position())[0]

    async def follow_all(self, since: int | None = None) -> AsyncGenerator[ChangedSessions, None]:
        """Which sessions of those this view may list changed after a position, then those that change.

        Without `since`, from now on, and the first item gives only the position. A position outlives
        processes. It is no clock's time, which may jump, and no session's revision, which counts only
        its own: changed sessions are numbered, one after another, by the same transaction that brings
        the listings up to date, up to half a second after the change. The mark that makes it do so is
        stored with the change, so after a crash the next process numbers what was left.
        """
        if since is not None and since < 0:
            raise InvalidInput(f"A position cannot be negative; it is {since}.")

        def read(position: int) -> Awaitable[ChangedSessions]:
            return self._snapshot(changes.sessions_after, position, feed.PAGE)

        async with aclosing(feed.follow_all(self._runtime.feed, since, read)) as items:
            async for item in items:
                yield item

    # Repositories, tokens, bindings, contexts, moves, audit

    async def save_repos(self, repos: Sequence[Repo]) -> Sequence[Repo]:
        return await self._write(records.save_repos, repos=repos, now=self._runtime.clock())

    async def get_repo(self, repo_id: RepoId) -> Repo:
        return await self._glance(records.get_repo, repo_id=repo_id)

    async def list_repos(self) -> Sequence[Repo]:
        return await self._read(records.list_repos)

    async def delete_repo(self, repo_id: RepoId) -> None:
        await self._write(records.delete_repo, repo_id=repo_id, now=self._runtime.clock())

    async def add_token(
        self,
        principal: Principal,
        token_hash: str,
        label: str,
        *,
        expires_at: datetime | None = None,
        parent_id: TokenId | None = None,
    ) -> Token:
        """Keep a token. One with a parent is revoked with it."""
        return await self._write(
            records.add_token,
            principal=principal,
            token_hash=token_hash,
            label=label,
            expires_at=expires_at,
            parent_id=parent_id,
            now=self._runtime.clock(),
        )

    async def find_token(self, token_hash: str) -> Token | None:
        return await self._engine.read(partial(records.find_token, token_hash=token_hash), brief=True)

    async def touch_token(self, token_id: TokenId) -> None:
        """Record that a token was used just now."""
        await self._engine.write(partial(records.touch_token, token_id=token_id, now=self._runtime.clock()))

    async def list_tokens(self) -> Sequence[Token]:
        return await self._read(records.list_tokens)

    async def revoke_token(self, token_id: TokenId) -> Token:
        return await self._write(records.revoke_token, token_id=token_id, now=self._runtime.clock())

    async def add_binding(self, rule: dict[str, Any]) -> BindingRecord:
        return await self._write(bindings.add, rule, self._runtime.clock())

    async def list_bindings(self) -> Sequence[BindingRecord]:
        """The bindings that are kept here, in the order in which they count."""
        return await self._read(bindings.every)

    async def remove_binding(self, number: int) -> BindingRecord:
        return await self._write(bindings.remove, number)

    async def save_context(self, kind: ContextKind, name: str, definition: dict[str, Any]) -> ContextRecord:
        """Keep a context under its name, in place of an earlier one."""
        now = self._runtime.clock()
        context_id = ContextId(new_id())
        return await self._write(executions.save_context, kind, name, definition, context_id, now)

    async def list_contexts(self) -> Sequence[ContextRecord]:
        return await self._read(executions.contexts)

    async def remove_context(self, kind: ContextKind, name: str) -> ContextRecord:
        return await self._write(executions.remove_context, kind, name)

    async def move_sessions(self, steps: Sequence[MoveStep]) -> MoveRecord:
        """Take all of these steps, or none."""
        runtime = self._runtime
        moving = moves.Moving(
            self._scope, steps, runtime.clock(), self._engine.owner, runtime.max_message_bytes
        )
        return await self._write(lambda tx, _: moving(tx))

    async def undo_moves(self) -> MoveRecord:
        """Take back the last moves that were not undone, all of them or none."""
        return await self._write(moves.undo, self._runtime.clock())

    async def audit(
        self, action: str, outcome: str, *, subject: str | None = None, detail: dict[str, Any] | None = None
    ) -> None:
        """Record what this view's caller did, decided or was denied."""
        entry = AuditEntry(
            action=action,
            outcome=outcome,
            organization=self._scope.organization,
            user=self._scope.user,
            subject=subject,
            detail=detail or {},
        )
        await self._engine.write(partial(records.add_audit, entry=entry, now=self._runtime.clock()))

    async def list_audit(self, *, before: int | None = None, limit: int = 100) -> Sequence[AuditEntry]:
        check_limit(limit)
        return await self._read(records.list_audit, before=before, limit=limit)

    # Processes of agents

    async def record_process(self, ref: SessionRef, process_group: int, started: float) -> None:
        """Record a process group that serves a session, as started by this process."""
        await self._write(processes.record, ref, self._engine.owner, process_group, started)

    async def processes(self, ref: SessionRef) -> Sequence[ProcessRecord]:
        """The process groups that serve a session, whichever server started them."""
        return await self._read(processes.of_session, ref)

    async def forget_process(self, process_group: int) -> None:
        owner = self._engine.owner
        await self._engine.write(lambda tx: processes.forget(tx, owner, process_group))

    async def release(self, ref: SessionRef, change: SessionPatch) -> None:
        """Change a session and forget the processes that served it, at once: whoever sees that a session
        has ended may start another process in it, from any server."""
        await self._write(processes.release, ref, self._engine.owner, change, self._runtime.clock())

    async def claim_abandoned_processes(self) -> Sequence[ProcessRecord]:
        """Take over what servers that are gone have left running, to end it."""
        dead = await self._engine.dead(await self._engine.read(processes.owners))
        if not dead:
            return []
        owner = self._engine.owner
        return await self._engine.write(lambda tx: processes.claim(tx, dead, owner))

    # Figures

    async def count_sessions(self) -> dict[SessionStatus, int]:
        """How many sessions there are in each status, of all organizations."""
        self._scope.admit_admin("count the sessions of all organizations")
        return await self._engine.read(listing.totals)

    @property
    def commits(self) -> tuple[int, int]:
        """How often this process has committed, and how many changes of sessions were in that."""
        return self._runtime.feed.commits, self._runtime.feed.changes

    # Care

    async def organizations(self) -> Sequence[str]:
        """Every organization that has a session."""
        self._scope.admit_admin("see all organizations")
        return await self._engine.read(payloads.organizations)

    async def payload_references(self, organization: str) -> AsyncIterator[str]:
        """The payloads that the turns of an organization refer to, by URL or by hash, whoever's they are."""
        self._scope.admit_admin("see the payloads of all sessions")
        after: int | None = 0
        while after is not None:
            urls, after = await self._engine.read(
                partial(payloads.references, organization=organization, after=after)
            )
            for url in urls:
                yield url

    async def problems(self) -> Sequence[str]:
        """Everything that is wrong with the stored data: nothing, in a healthy store."""
        return [
            *await self._engine.problems(),
            *await self._engine.read(check.broken_promises, snapshot=True),
        ]

    async def backup(self, target: Path) -> None:
        """A consistent copy at `target`, made while writers run."""
        self._scope.admit_admin("copy the whole store")
        await self._engine.backup(target)

    async def vacuum(self) -> None:
        """Give free space back to the file system."""
        await self._engine.vacuum()

    async def _create(self, new: NewSession, *, reuse: bool) -> Session:
        session_id = new.id or SessionId(new_id())
        return await self._write(sessions.create, new, session_id, self._runtime.clock(), reuse=reuse)

    async def _read(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._admitted(self._engine.read(lambda tx: operation(tx, self._scope, *args, **kwargs)))

    async def _glance(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read of few rows."""
        return await self._admitted(
            self._engine.read(lambda tx: operation(tx, self._scope, *args, **kwargs), brief=True)
        )

    async def _snapshot(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read whose statements see one state."""
        return await self._admitted(
            self._engine.read(lambda tx: operation(tx, self._scope, *args, **kwargs), snapshot=True)
        )

    async def _glance_at_once(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read of few rows, whose statements see one state."""
        work = self._engine.read(
            lambda tx: operation(tx, self._scope, *args, **kwargs), snapshot=True, brief=True
        )
        return await self._admitted(work)

    async def _write(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        result = await self._admitted(
            self._engine.write(lambda tx: operation(tx, self._scope, *args, **kwargs))
        )
        self._runtime.committed()
        return result

    async def _admitted(self, work: Awaitable[T]) -> T:
        """The result; a denial is recorded before it is answered."""
        try:
            return await work
        except AccessDenied as denial:
            try:
                await self.audit(
                    "store.access", "denied", subject=self._scope.agent, detail={"reason": str(denial)}
                )
                denial.on_record = True
            except StoreError as error:
                log.error("a denial is not on record: %s (%s)", error, denial)
            raise
        except OverflowError:
            raise InvalidInput("A number of the call is larger than any that can be stored.") from None
        except UnicodeEncodeError:
            raise InvalidInput("A text of the call is not valid Unicode.") from None
