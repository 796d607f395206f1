"""A compaction that somebody asked for, by the policy of the session's agent."""

from __future__ import annotations

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import Compactor, Proposal
from holdfast.compaction.policy import CompactionPolicy
from holdfast.compaction.standing import SessionStanding
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.view import View
from holdfast.compaction.views import Weigh, read_view
from holdfast.model.records import Compaction
from holdfast.model.session import Session, SessionPatch
from holdfast.store.store import Store


async def compact_on_demand(
    store: Store, session: Session, policy: CompactionPolicy, weigh: Weigh | None = None
) -> Compaction | None:
    """Shorten what a model is shown of a session; None when there is nothing to gain."""
    compactor, budget, view = await _prepared(store, session, policy, weigh)
    compaction = await compactor.compact(session.id, budget, view)
    await start_afresh(store, session)
    return compaction


async def start_afresh(store: Store, session: Session) -> None:
    """Forget earlier failures, after a compaction that did not fail: it is tried by itself again."""
    standing = SessionStanding.of(session)
    if standing.failures:
        fresh = msgspec.structs.replace(standing, failures=0, stopped=None)
        await store.patch(session.id, SessionPatch(custom=fresh.custom()))


async def propose_on_demand(
    store: Store, session: Session, policy: CompactionPolicy, weigh: Weigh | None = None
) -> Proposal | None:
    """What `compact_on_demand` would do. Nothing is written, and no summary made."""
    compactor, budget, view = await _prepared(store, session, policy, weigh)
    return await compactor.propose(session.id, budget, view)


async def _prepared(
    store: Store, session: Session, policy: CompactionPolicy, weigh: Weigh | None
) -> tuple[Compactor, Budget, View]:
    counter = default_counter()
    view = await read_view(store, session.id, counter, weigh=weigh)
    compactor = Compactor(
        store,
        policy.planner(),
        summarizer=policy.summarizer(),
        counter=counter,
        timeout=policy.timeout_seconds,
    )
    return compactor, policy.on_demand(view, SessionStanding.of(session).token_ratio), view
