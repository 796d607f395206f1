"""Carrying a plan out.

The view is read, a strategy plans, the validator judges, the summaries are made with nothing locked
and no transaction open, and one transaction records it all, guarded by the compaction that it was
planned on: if somebody else compacted the session, or undid a compaction, the plan is given up. That
the session goes on meanwhile is no reason to: a plan speaks of messages that are final, and what is
said in between is behind them all, and stays. Until the commit nothing has changed, and after it
everything has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import TypeVar

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.errors import PlanRefused, StrategyFailed, SummaryFailed, Superseded
from holdfast.compaction.extractive import extractive
from holdfast.compaction.plan import Fold, Plan, plan_of
from holdfast.compaction.ranges import covers
from holdfast.compaction.strategies import NoCompaction
from holdfast.compaction.strategy import CompactionStrategy, parameters
from holdfast.compaction.summaries import Summarizer, SummaryRequest
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.validator import recounted, validate
from holdfast.compaction.view import View
from holdfast.compaction.views import read_view
from holdfast.errors import RevisionConflict
from holdfast.model.records import Compaction, NewCompaction
from holdfast.model.session import SessionRef
from holdfast.model.text import storable
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter
from holdfast.store.ending import to_its_end
from holdfast.store.store import Store

T = TypeVar("T")

TIMEOUT_SECONDS = 180.0
"""How long planning may take, and how long making the summaries."""


class Proposal(msgspec.Struct, frozen=True):
    """A plan that was judged, with the view before it and the one it would leave."""

    before: View
    plan: Plan
    after: View


class Compactor:
    def __init__(
        self,
        store: Store,
        strategy: CompactionStrategy,
        *,
        summarizer: Summarizer = extractive,
        counter: TokenCounter | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._store = store
        self._strategy = strategy
        self._summarizer = summarizer
        self._counter = counter or default_counter()
        self._timeout = timeout

    async def view(self, ref: SessionRef) -> View:
        return await read_view(self._store, ref, self._counter)

    async def propose(self, ref: SessionRef, budget: Budget, view: View | None = None) -> Proposal | None:
        """What compacting would do; None when there is nothing to gain. Nothing is written."""
        view = view or await self.view(ref)
        if view.tokens <= budget.room and self._left(view):
            return None
        try:
            async with asyncio.timeout(self._timeout):
                return await _apart(partial(self._planned, view, budget))
        except TimeoutError:
            reason = f"it took longer than {self._timeout:g} seconds"
            raise StrategyFailed(self._strategy.name, reason) from None

    async def compact(self, ref: SessionRef, budget: Budget, view: View | None = None) -> Compaction | None:
        """Shorten the session's view; None when there is nothing to gain."""
        proposal = await self.propose(ref, budget, view)
        if proposal is None:
            return None
        summarized = await self._summarized(proposal)
        return await self._commit(ref, proposal.before, summarized, budget)

    def _left(self, view: View) -> bool:
        """Whether the view is what this very strategy left, and nothing was said since."""
        head, known = view.layout.head, parameters(self._strategy)
        if head is None or known is None or (head.strategy, head.params) != (self._strategy.name, known):
            return False
        return plan_of(head).upto == view.last_seq

    def _planned(self, view: View, budget: Budget) -> Proposal | None:
        plan = self._plan(view, budget)
        if plan is None:
            if view.tokens > budget.room and not isinstance(self._strategy, NoCompaction):
                too_large = f"I6: the view takes {view.tokens:,} tokens where {budget.room:,} are allowed"
                raise PlanRefused(self._strategy.name, [f"{too_large}, and it finds nothing to leave out"])
            return None
        plan = msgspec.structs.replace(plan, upto=view.last_seq)
        return Proposal(view, plan, validate(self._strategy.name, view, plan, budget))

    def _plan(self, view: View, budget: Budget) -> Plan | None:
        """What the strategy plans. It is anybody's code: it may spoil only the view that it is given, is
        not believed what it counted, and its failure changes nothing, not even an attempt to exit."""
        try:
            plan: object = self._strategy.plan(view.copy(), budget, self._counter)
            if plan is None:
                return None
            if not isinstance(plan, Plan):
                raise TypeError(f"plan() gave a {type(plan).__name__}, and not a Plan")
            return recounted(view, plan.as_recorded())
        except msgspec.ValidationError as error:
            raise StrategyFailed(self._strategy.name, f"its plan cannot be recorded, {error}") from error
        except BaseException as error:
            raise StrategyFailed(self._strategy.name, f"it failed with {error!r}") from error

    async def _summarized(self, proposal: Proposal) -> Plan:
        try:
            async with asyncio.timeout(self._timeout):
                summaries = [await self._summary(proposal.before, fold) for fold in proposal.plan.folds]
        except TimeoutError:
            raise SummaryFailed(f"it took longer than {self._timeout:g} seconds") from None
        return proposal.plan.summarized(summaries)

    async def _summary(self, view: View, fold: Fold) -> tuple[str, int]:
        folded = tuple(
            item.message for item in view.items if item.ranges and covers(fold.ranges, item.ranges)
        )
        request = SummaryRequest(
            messages=folded,
            max_tokens=max(1, fold.tokens - MESSAGE_OVERHEAD),
            counter=self._counter,
            instructions=fold.instructions,
        )
        try:
            text = storable((await self._summarizer(request)).strip(), "summary")
        except SummaryFailed:
            raise
        except Exception as error:  # a summariser is anybody's code, and its failure changes nothing
            raise SummaryFailed(f"the summariser failed with {error!r}") from error
        if not text:
            raise SummaryFailed("the summariser gave an empty text")
        return text, self._counter.count(text) + MESSAGE_OVERHEAD

    async def _commit(self, ref: SessionRef, view: View, plan: Plan, budget: Budget) -> Compaction:
        after = await asyncio.to_thread(validate, self._strategy.name, view, plan, budget)
        touched = plan.touched
        new = NewCompaction(
            first_seq=touched[0][0],
            last_seq=touched[-1][1],
            strategy=self._strategy.name,
            params=parameters(self._strategy) or {"version": self._strategy.version},
            summary=plan.summary,
            tokens_before=view.tokens,
            tokens_after=after.tokens,
            tokenizer=self._counter.name,
            parent_id=view.head,
            edits=plan.edits(),
        )
        try:
            return await to_its_end(self._store.commit_compaction(ref, new, planned_at=view.rev))
        except RevisionConflict:
            raise Superseded from None


async def _apart(work: Callable[[], T]) -> T:
    """What some work gives, in a thread of its own that nobody waits for at the end: it may have none."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=run, name="holdfast-planning", daemon=True).start()
    return await asyncio.wrap_future(outcome)
