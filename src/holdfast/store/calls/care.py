"""Figures, and the care of a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from holdfast.model.records import Contents
from holdfast.model.status import SessionStatus
from holdfast.store import (
    check,
    listing,
    payloads,
)
from holdfast.store.calls.call import Calls


class CareCalls(Calls):
    async def count_sessions(self) -> dict[SessionStatus, int]:
        """How many sessions there are in each status, of all organizations."""
        self._scope.admit_admin("count the sessions of all organizations")
        return await self._engine.read(listing.totals)

    @property
    def commits(self) -> tuple[int, int]:
        """How often this process has committed, and how many changes of sessions were in that."""
        return self._runtime.feed.commits, self._runtime.feed.changes

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

    async def ready(self) -> None:
        """Raise unless the database answers, and is the one that was opened, with the same schema."""
        await self._engine.ready()

    async def contents(self) -> Contents:
        """How much there is of all organizations."""
        self._scope.admit_admin("count what all organizations have")
        return await self._engine.read(listing.contents, snapshot=True)

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
