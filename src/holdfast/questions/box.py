"""Asking people, answering, and waiting for the answer: question sets for asynchronous code.

Any number of boxes, in any number of processes, may share a directory, and so may the AUQ
programs. All file work happens on threads. A wait is told of changes and looks every 200 ms
besides, so it ends even where nothing can be told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.files import make_directory
from holdfast.model.question import (
    LIMIT,
    RETENTION,
    Answer,
    NewQuestionSet,
    QuestionSet,
    QuestionSetId,
    QuestionStatus,
    question_set_id,
)
from holdfast.model.times import from_ms
from holdfast.questions.directory import QuestionDirectory, Sweep
from holdfast.questions.errors import QuestionsRejected, QuestionsTimedOut
from holdfast.questions.watch import Watcher

POLL_SECONDS = 0.2
RESCAN_SECONDS = 1.0


def system_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class QuestionBox:
    """The question sets in a directory. Ids are whole ones, except for `resolve`."""

    def __init__(
        self,
        directory: Path,
        *,
        limit: int = LIMIT,
        retention: timedelta | None = RETENTION,
        timeout: float | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        """`timeout` is how many seconds a wait takes that is not told otherwise. None is for ever."""
        if limit < 1:
            raise InvalidInput("A directory must have room for at least one question set.")
        self.directory = directory.absolute()
        self._timeout = timeout
        self._clock = clock
        self._sets = QuestionDirectory(self.directory, limit=limit, retention=retention, clock=clock)
        self._watcher = Watcher(self.directory)

    async def ask(self, new: NewQuestionSet) -> QuestionSet:
        """Put questions before a person. `TooManyQuestionSets` when as many wait for an answer as may."""
        set_id = QuestionSetId(str(uuid4()))
        adding = asyncio.create_task(asyncio.to_thread(self._sets.add, set_id, new))
        try:
            return await asyncio.shield(adding)
        except asyncio.CancelledError:
            with suppress(HoldfastError):
                await adding
                await self.abandon(set_id)
            raise

    async def resolve(self, text: str) -> QuestionSetId:
        """The id that a person means: a whole one, or the first eight characters of one that is here."""
        return await asyncio.to_thread(self._sets.resolve, text)

    async def get(self, set_id: str) -> QuestionSet:
        return await asyncio.to_thread(self._sets.folder(set_id).read)

    async def list(
        self, status: Collection[QuestionStatus] = frozenset(QuestionStatus)
    ) -> tuple[QuestionSet, ...]:
        """The sets in these statuses, oldest first."""
        return tuple(await asyncio.to_thread(self._sets.list, status))

    async def answer(self, set_id: str, answers: Sequence[Answer], *, by: str, door: str) -> QuestionSet:
        """Answer for a person, through a door. The first answer stands: a second is `AlreadySettled`."""
        return await asyncio.to_thread(self._sets.folder(set_id).answer, answers, by, door)

    async def reject(self, set_id: str, reason: str | None = None, *, by: str, door: str) -> QuestionSet:
        return await asyncio.to_thread(self._sets.folder(set_id).reject, reason, by, door)

    async def time_out(self, set_id: str) -> QuestionSet:
        """Make a pending set `timed_out`; the set as it then is, since a person may have been faster."""
        return await asyncio.to_thread(self._sets.folder(set_id).end, QuestionStatus.TIMED_OUT)

    async def abandon(self, set_id: str) -> QuestionSet:
        """The asker is gone: a question is `abandoned`, and can still be answered; a request is withdrawn."""
        return await asyncio.to_thread(self._sets.folder(set_id).abandon)

    async def mark_read(self, set_id: str) -> QuestionSet:
        """The answered or rejected set, noted as heard by its asker now."""
        return await asyncio.to_thread(self._sets.folder(set_id).mark_read)

    async def validate(self, set_id: str) -> tuple[str, ...]:
        """What is wrong with a set's files; nothing when they are sound."""
        return tuple(await asyncio.to_thread(self._sets.folder(set_id).validate))

    async def sweep(self, now: int | None = None) -> Sweep:
        """Delete sets past their retention period."""
        return await asyncio.to_thread(self._sets.sweep, from_ms(self._clock() if now is None else now))

    async def wait(
        self, set_id: str, *, call_id: str | None = None, timeout: float | None = None
    ) -> QuestionSet:
        """The asker's wait for the answered set.

        A rejection is `QuestionsRejected`. When the time is over, the set becomes `timed_out` and
        the wait `QuestionsTimedOut`; when the wait is cancelled, `abandoned`. Both can still be
        answered, and waiting again gives the late answer.
        """
        timeout = self._timeout if timeout is None else timeout
        try:
            settled = await self._settled(question_set_id(set_id), call_id, timeout)
            if settled is None:
                ended = await self.time_out(set_id)
                settled = await self._settled(ended.id, call_id, 0) if ended.is_settled else None
        except asyncio.CancelledError:
            with suppress(HoldfastError):
                await asyncio.shield(asyncio.create_task(self.abandon(set_id)))
            raise
        if settled is None:
            raise QuestionsTimedOut(question_set_id(set_id))
        if settled.status is QuestionStatus.REJECTED:
            raise QuestionsRejected(settled.rejection_reason)
        return settled

    async def until_settled(
        self, set_id: str, *, call_id: str | None = None, timeout: float | None = None
    ) -> QuestionSet:
        """The set once it is answered or rejected, or as it is when the time is over.

        For those who are not the asker, or who will come back: nothing is marked, whatever happens.
        """
        return await self._settled(question_set_id(set_id), call_id, timeout) or await self.get(set_id)

    async def changes(self) -> AsyncGenerator[frozenset[QuestionSetId], None]:
        """Which sets came, changed or went since the last time; at first those that are there.

        Close the iterator (`contextlib.aclosing`) when you stop before its end, which never comes.
        """
        await asyncio.to_thread(make_directory, self.directory)
        async with self._watcher.listening() as changed:
            seen = await asyncio.to_thread(self._sets.stamps)
            yield frozenset(seen)
            while True:
                await _heard(changed, RESCAN_SECONDS)
                changed.clear()
                stamps = await asyncio.to_thread(self._sets.stamps)
                different = {
                    each for each in seen.keys() | stamps.keys() if seen.get(each) != stamps.get(each)
                }
                seen = stamps
                if different:
                    yield frozenset(different)

    async def _settled(
        self, set_id: QuestionSetId, call_id: str | None, timeout: float | None
    ) -> QuestionSet | None:
        """The set once a person has spoken in it; None when the time is over before."""
        folder = self._sets.folder(set_id)
        now = asyncio.get_running_loop().time
        deadline = None if timeout is None else now() + timeout
        if (settled := await asyncio.to_thread(folder.look, call_id)) is not None:
            return settled
        async with self._watcher.listening(set_id) as changed:
            while deadline is None or now() < deadline:
                await _heard(
                    changed, POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - now())
                )
                changed.clear()
                if (settled := await asyncio.to_thread(folder.look, call_id)) is not None:
                    return settled
        return None


async def _heard(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or for so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
