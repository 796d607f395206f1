"""Compaction after an agent's run: when its session needs it, and never in anybody's way.

A run ends, `after_run` returns at once, and the work goes on in a task of its own. A new message
needs not wait for it: what is said meanwhile stays, and whoever would rather have the machine to
themselves cancels it. A failure is noted in the session's own metadata; after some in a row it is
not tried again by itself, the session says so, and a compaction on demand that succeeds starts
afresh.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeAlias

import msgspec

from holdfast.compaction.compactor import Compactor
from holdfast.compaction.errors import Superseded
from holdfast.compaction.on_demand import start_afresh
from holdfast.compaction.policy import CompactionPolicy, Policies
from holdfast.compaction.standing import SessionStanding
from holdfast.compaction.summaries import Summarizer
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.views import Weigh, read_view
from holdfast.errors import HoldfastError
from holdfast.model.ids import SessionId
from holdfast.model.records import Compaction
from holdfast.model.session import Session, SessionPatch
from holdfast.model.tokens import TokenCounter
from holdfast.store.ending import to_its_end
from holdfast.store.store import Store

log = logging.getLogger("holdfast.compaction")

Report: TypeAlias = Callable[[TokenCounter], Awaitable[tuple[int, int] | None]]
"""The tokens of what a model was sent, as we count them and as it reported; None where nobody can say."""


class BackgroundCompaction:
    def __init__(
        self,
        store: Store,
        policies: Policies,
        *,
        summarizer: Summarizer | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        """`summarizer` takes the place of the one that a policy names."""
        self._store = store
        self._policies = policies
        self._summarizer = summarizer
        self._counter = counter or default_counter()
        self._running: dict[SessionId, asyncio.Task[Compaction | None]] = {}

    def after_run(
        self, session_id: SessionId, report: Report | None = None, weigh: Weigh | None = None
    ) -> None:
        """See to the session in the background, unless that is under way; learn from a report first."""
        if session_id not in self._running:
            task = asyncio.get_running_loop().create_task(self._see_to(session_id, report, weigh))
            self._running[session_id] = task
            task.add_done_callback(lambda _: self._running.pop(session_id, None))

    async def settled(self, session_id: SessionId) -> Compaction | None:
        """What comes of the work that is under way; None when there is none, or nothing came of it."""
        task = self._running.get(session_id)
        return await asyncio.shield(task) if task else None

    async def cancel(self, session_id: SessionId) -> None:
        """Give up the work that is under way. The session is as it was, or as it would have been.

        What the work had begun to write is written, so that nothing changes the session afterwards.
        """
        if task := self._running.get(session_id):
            task.cancel()
            await asyncio.wait([task])

    async def compact(self, session_id: SessionId) -> Compaction | None:
        """Compact a session now, whether or not it is due and whatever happened before."""
        session = await self._store.get_session(session_id)
        policy = self._policies(session) or CompactionPolicy()
        return await self._compact(session, policy, None, on_demand=True)

    async def report_usage(self, session_id: SessionId, counted: int, reported: int) -> None:
        """Learn from the tokens that a model reported for a view that was counted."""
        session = await self._store.get_session(session_id)
        standing = SessionStanding.of(session)
        if (learned := standing.reported(counted, reported)) != standing:
            await to_its_end(self._store.patch(session_id, SessionPatch(custom=learned.custom())))

    async def close(self) -> None:
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _see_to(
        self, session_id: SessionId, report: Report | None, weigh: Weigh | None
    ) -> Compaction | None:
        try:
            session = await self._store.get_session(session_id)
            policy = self._policies(session)
            if policy is None or not policy.after_run or SessionStanding.of(session).stopped:
                return None
            if report is not None and (usage := await report(self._counter)):
                await self.report_usage(session_id, *usage)
                session = await self._store.get_session(session_id)
            return await self._compact(session, policy, weigh, on_demand=False)
        except Superseded:
            log.debug("session %s was compacted by somebody else", session_id)
        except Exception as error:  # nobody waits for this task, so it is told here or nowhere
            log.warning("session %s was not compacted: %s", session_id, _told(error))
        return None

    async def _compact(
        self, session: Session, policy: CompactionPolicy, weigh: Weigh | None, *, on_demand: bool
    ) -> Compaction | None:
        standing = SessionStanding.of(session)
        view = await read_view(self._store, session.id, self._counter, weigh=weigh)
        budget = (policy.on_demand if on_demand else policy.due)(view, standing.token_ratio)
        if budget is None:
            return None
        try:
            compactor = Compactor(
                self._store,
                policy.planner(),
                summarizer=self._summarizer or policy.summarizer(),
                counter=self._counter,
                timeout=policy.timeout_seconds,
            )
            compaction = await compactor.compact(session.id, budget, view)
        except Superseded:
            raise
        except Exception as error:
            await self._note_failure(session.id, standing, policy, error)
            raise
        await to_its_end(start_afresh(self._store, session))
        return compaction

    async def _note_failure(
        self, session_id: SessionId, standing: SessionStanding, policy: CompactionPolicy, error: Exception
    ) -> None:
        failures = standing.failures + 1
        stopped = None
        if failures >= policy.failures:
            stopped = f"Compaction failed {failures} times in a row and is not tried again: {_told(error)}"
            log.warning("session %s: %s", session_id, stopped)
        failed = msgspec.structs.replace(standing, failures=failures, stopped=stopped)
        await to_its_end(self._store.patch(session_id, SessionPatch(custom=failed.custom())))


def _told(error: Exception) -> str:
    """One sentence; an error that is not ours says too little without its kind."""
    return str(error) if isinstance(error, HoldfastError) else f"It failed with {error!r}."
