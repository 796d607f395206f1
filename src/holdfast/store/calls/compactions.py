"""Compactions: recorded, read, undone."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.ids import CompactionId
from holdfast.model.records import (
    Compaction,
    CompactionOutline,
    NewCompaction,
)
from holdfast.model.session import Session, SessionRef
from holdfast.store import (
    records,
)
from holdfast.store.calls.call import Calls
from holdfast.store.ids import new_id


class CompactionCalls(Calls):
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
