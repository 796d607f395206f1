"""Sessions: found, created, listed, changed, deleted."""

from __future__ import annotations

import asyncio

from holdfast.model.ids import SessionId
from holdfast.model.key import SessionKey
from holdfast.model.session import NewSession, Session, SessionPatch, SessionRef
from holdfast.store import (
    listing,
    moves,
    search,
    sessions,
)
from holdfast.store.calls.call import Calls
from holdfast.store.ids import new_id
from holdfast.store.options import (
    SessionFilter,
    SessionPage,
)


class SessionCalls(Calls):
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

    async def _create(self, new: NewSession, *, reuse: bool) -> Session:
        session_id = new.id or SessionId(new_id())
        return await self._write(sessions.create, new, session_id, self._runtime.clock(), reuse=reuse)
