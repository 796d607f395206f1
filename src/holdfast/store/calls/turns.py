"""Turns: opened, ended once, looked up; and those that a process which is gone has left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.model.ids import MessageId, SessionId, TurnId
from holdfast.model.message import Message
from holdfast.model.records import (
    ExecutionKey,
    KeyedTurn,
)
from holdfast.model.session import SessionRef
from holdfast.model.turn import NewTurn, Turn, TurnAnswer, TurnFailure, TurnProgress
from holdfast.store import (
    executions,
    leases,
    messages,
    turns,
)
from holdfast.store.calls.call import Calls
from holdfast.store.ids import new_id
from holdfast.store.options import (
    check_limit,
)
from holdfast.store.scope import Scope
from holdfast.store.transaction import Transaction


class TurnCalls(Calls):
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
