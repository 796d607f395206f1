"""The right to run a session's turn: one holder at a time, across processes and machines.

A lease is renewed while its turn runs and ends by itself when its holder is gone. Its token grows
with every holder. What is written in the name of a lease is refused once a later token is out, so a
holder that was only slow, and thought dead, cannot write into the turn of another.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import Conflict
from holdfast.model.ids import SessionId


class Lease(msgspec.Struct, frozen=True):
    session_id: SessionId
    token: int


class LeaseLost(Conflict):
    code = "lease_lost"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"The turn of session {session_id} went to somebody else, because this one was not heard of in "
            "time; nothing more of it is stored."
        )
