"""Asking a person on behalf of one MCP client, and bringing it the answers, however late they come.

A call that waits tells its client so from time to time, and returns before the client would give up
on it. A client that cancels a call or goes away leaves its sets abandoned: people can still answer
them, and who asks the same again, or comes back to fetch, gets that answer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import anyio

from holdfast.config import QuestionSettings
from holdfast.errors import HoldfastError
from holdfast.mcp.clients import patience
from holdfast.model.ids import SessionId
from holdfast.model.question import (
    SETTLED,
    NewQuestionSet,
    Question,
    QuestionSet,
    QuestionSetId,
    QuestionStatus,
)
from holdfast.questions import QuestionBox
from holdfast.questions.errors import QuestionSetNotFound, QuestionsTimedOut
from holdfast.questions.format import rejection_text, response_text, status_text, submitted_text

log = logging.getLogger("holdfast.mcp")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    client: str | None
    """The name that the client gives itself."""
    report: Callable[[float, str], Awaitable[None]]
    """Tells the client of progress, if it wants to know."""


class Asker:
    """What one MCP client asks. `agent` and `session_id` say for whom, where Holdfast started the server."""

    def __init__(
        self,
        box: QuestionBox,
        settings: QuestionSettings,
        *,
        agent: str | None = None,
        session_id: SessionId | None = None,
        organization: str | None = None,
        working_directory: Path | None = None,
    ) -> None:
        self._box = box
        self._settings = settings
        self._agent = agent
        self._session_id = session_id
        self._organization = organization
        self._working_directory = str(working_directory or Path.cwd())
        self._finding = asyncio.Lock()
        self._owed: set[QuestionSetId] = set()
        """Sets whose asker was to wait, and has not heard the answer."""
        self._waiting: Counter[QuestionSetId] = Counter()

    async def ask(self, call: Call, questions: Sequence[Question], *, blocking: bool) -> list[str]:
        """The answers, or what to do to get them; then what was answered late to the same asker."""
        new = NewQuestionSet(
            questions=tuple(questions),
            agent=self._agent or call.client,
            session_id=self._session_id,
            organization=self._organization,
            working_directory=self._working_directory,
            call_id=str(uuid4()) if blocking else None,  # as the AUQ server does
        )
        await self._box.sweep()
        with anyio.CancelScope(shield=True):  # a set that were not known here could not be abandoned
            question_set = await self._find_or_ask(new)
        if blocking:
            question_set = await self._wait(call, question_set)
        elif question_set.status is QuestionStatus.PENDING:
            return [submitted_text(question_set), *await self._late_answers(new)]
        await self._heard(question_set)
        return [_told(question_set), *await self._late_answers(new)]

    async def fetch(self, call: Call, text: str, *, blocking: bool) -> str:
        """The answers to a set that was asked before, or how it stands.

        An asker that stands for one session hears of the sets of this session alone.
        """
        question_set = await self._box.get(await self._box.resolve(text))
        if self._session_id is not None and question_set.session_id != self._session_id:
            raise QuestionSetNotFound(text)
        if blocking and not question_set.is_settled:
            question_set = await self._wait(call, question_set)
            if not question_set.is_settled:
                return _still_open(question_set)
        await self._heard(question_set)
        return status_text(question_set) if question_set.answers is None else response_text(question_set)

    async def close(self) -> None:
        """The client is gone: nobody waits any more for what it still was owed."""
        async with self._finding:  # what is being asked at the moment is owed, too
            for set_id in tuple(self._owed):
                await self._abandon(set_id)

    async def _find_or_ask(self, new: NewQuestionSet) -> QuestionSet:
        async with self._finding:  # of two equal questions at once, the second finds the first
            question_set = await self._asked_before(new) or await self._box.ask(new)
            if new.call_id is not None:
                self._owed.add(question_set.id)
            return question_set

    async def _asked_before(self, new: NewQuestionSet) -> QuestionSet | None:
        """The set with the same questions of the same asker that is open, or settled and not yet heard."""
        for each in reversed(await self._box.list({QuestionStatus.PENDING, *SETTLED})):
            if _is_by_same(each, new) and each.questions == new.questions and each.read_at is None:
                return each
        return None

    async def _late_answers(self, new: NewQuestionSet) -> list[str]:
        """What people said to the same asker after it was gone, and it has not heard."""
        late = [
            each
            for each in await self._box.list(SETTLED)
            if each.late and each.read_at is None and _is_by_same(each, new)
        ]
        for each in late:
            await self._heard(each)
        return [status_text(each) if each.answers is None else response_text(each) for each in late]

    async def _heard(self, question_set: QuestionSet) -> None:
        """Note that the asker knows what the person said, if they have said something."""
        if not question_set.is_settled:
            return
        self._owed.discard(question_set.id)
        try:
            await self._box.mark_read(question_set.id)
        except HoldfastError as error:  # which must not keep the answer from the asker
            log.warning("The answers to %s could not be marked as read: %s", question_set.id, error)

    async def _wait(self, call: Call, question_set: QuestionSet) -> QuestionSet:
        """The set once it is settled, or as it is when the client's patience is at its end."""
        set_id = question_set.id
        try:
            async with self._heartbeats(call, question_set):
                return await self._settled(question_set, self._patience(call))
        except asyncio.CancelledError:
            if set_id in self._owed and not self._waiting[set_id]:
                with anyio.CancelScope(shield=True):  # the SDK cancels again until we are gone
                    await self._abandon(set_id)
            raise

    async def _settled(self, question_set: QuestionSet, patience: float | None) -> QuestionSet:
        time_left = self._time_left(question_set)
        limits = [limit for limit in (patience, time_left) if limit is not None]
        current = await self._box.until_settled(
            question_set.id, call_id=question_set.call_id, timeout=min(limits, default=None)
        )
        if current.is_settled or time_left is None or (patience is not None and patience < time_left):
            return current
        ended = await self._box.time_out(question_set.id)
        if not ended.is_settled:
            raise QuestionsTimedOut(question_set.id)
        return ended

    def _time_left(self, question_set: QuestionSet) -> float | None:
        """How long until a pending set times out, in however many calls it is waited for."""
        timeout = self._settings.timeout_seconds
        if not timeout or question_set.status is not QuestionStatus.PENDING:
            return None
        return max(0.0, timeout - (datetime.now(UTC) - question_set.created_at).total_seconds())

    def _patience(self, call: Call) -> float | None:
        chosen = self._settings.soft_return_seconds
        return patience(call.client) if chosen is None else chosen or None

    @asynccontextmanager
    async def _heartbeats(self, call: Call, question_set: QuestionSet) -> AsyncIterator[None]:
        """Tell the client at once and then every few seconds that a call waits, and for which set."""

        async def beat() -> None:
            for count in itertools.count(1):
                await call.report(count, _waiting(question_set))
                await asyncio.sleep(self._settings.heartbeat_seconds)

        self._waiting[question_set.id] += 1
        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            self._waiting[question_set.id] -= 1
            beating.cancel()
            await asyncio.wait([beating])

    async def _abandon(self, set_id: QuestionSetId) -> None:
        self._owed.discard(set_id)
        try:
            await self._box.abandon(set_id)
        except HoldfastError as error:
            log.warning("The question set %s could not be marked as abandoned: %s", set_id, error)


def _is_by_same(question_set: QuestionSet, new: NewQuestionSet) -> bool:
    return _asked_by(question_set) == _asked_by(new)


def _asked_by(asked: QuestionSet | NewQuestionSet) -> tuple[str | None, ...]:
    return asked.kind, asked.agent, asked.session_id, asked.working_directory


def _told(question_set: QuestionSet) -> str:
    """What an asker reads who waited."""
    if question_set.answers is not None:
        return response_text(question_set)
    if question_set.status is QuestionStatus.REJECTED:
        return rejection_text(question_set.rejection_reason)
    return _still_open(question_set)


def _waiting(question_set: QuestionSet) -> str:
    count = len(question_set.questions)
    return f"waiting for user · session {question_set.short_id} · {count} question{'s' * (count != 1)}"


def _still_open(question_set: QuestionSet) -> str:
    short, count = question_set.short_id, len(question_set.questions)
    return (
        f"[Session: {short} | Questions: {count} | Status: {question_set.status}]\n\n"
        "The user has not answered yet, and can still do so.\n"
        f'Use get_answered_questions(session_id="{short}", blocking=true) to go on waiting.'
    )
