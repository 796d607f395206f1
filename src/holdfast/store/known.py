"""Sessions that were read before.

Whatever changes a session takes its next revision (`sessions.advance`), so a session at a revision is always
the same, whichever process wrote it. A listing asks which revisions its sessions are at, and reads only those
that were not seen at that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.model.session import Session
from holdfast.store.sessions import decode_metadata, session_from_row
from holdfast.store.transaction import Transaction

MAX_KNOWN = 4096
"""Some megabytes: the pages that people look at, and not every session there is."""

_AGENT_STATE, _CUSTOM = 24, 28
"""Their places in a row of `session_columns`."""


class _Known(NamedTuple):
    session: Session
    agent_state: str
    custom: str

    def own(self) -> Session:
        """The session, for a caller who may change what is in it."""
        return msgspec.structs.replace(
            self.session, agent_state=decode_metadata(self.agent_state), custom=decode_metadata(self.custom)
        )


class KnownSessions:
    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    async def at(self, tx: Transaction, places: Sequence[tuple[int, int]]) -> list[Session]:
        """Sessions by their keys and the revisions that they are at in this transaction, in that order."""
        found = {
            pk: known for pk, rev in places if (known := self._known.get(pk)) and known.session.rev == rev
        }
        if len(found) < len(places):
            missing = [pk for pk, _ in places if pk not in found]
            read = await tx.all("sessions_by_pk", msgspec.json.encode(missing).decode())
            new = {
                row[-1]: _Known(session_from_row(row[:-1]), row[_AGENT_STATE], row[_CUSTOM]) for row in read
            }
            if len(self._known) + len(new) > MAX_KNOWN:
                self._known.clear()
            self._known.update(new)
            found |= new
        return [found[pk].own() for pk, _ in places]
