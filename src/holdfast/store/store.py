"""The store: one face over both engines.

A store is always somebody's: `open_store` gives the one of the person at this machine,
`as_principal` and `as_agent` give views that see and change only what theirs may. Every method
is one operation in one transaction, and a write has been committed when its call returns.
"""

from __future__ import annotations

import msgspec

from holdfast.model.lease import Lease
from holdfast.model.principal import Principal
from holdfast.model.records import Repo
from holdfast.model.text import label
from holdfast.store.calls.care import CareCalls
from holdfast.store.calls.changes import ChangeCalls
from holdfast.store.calls.compactions import CompactionCalls
from holdfast.store.calls.leases import LeaseCalls
from holdfast.store.calls.messages import MessageCalls
from holdfast.store.calls.records import RecordCalls
from holdfast.store.calls.sessions import SessionCalls
from holdfast.store.calls.turns import TurnCalls


class Store(
    SessionCalls, MessageCalls, TurnCalls, LeaseCalls, CompactionCalls, ChangeCalls, RecordCalls, CareCalls
):
    @property
    def user(self) -> str:
        """Whose view this is."""
        return self._scope.user

    @property
    def organization(self) -> str:
        return self._scope.organization

    @property
    def incarnation(self) -> str:
        """A name of this opening of the store, which no other has, nor has one of a copy of it."""
        return self._engine.owner

    def require_admin(self, what: str) -> None:
        """Raise unless the caller is an admin of the organization."""
        self._scope.admit_admin(what)

    def require_work(self, repo: Repo) -> None:
        """Raise unless the caller may start agents in a repository and index it."""
        self._scope.admit_work(repo)

    def as_agent(self, agent_id: str) -> Store:
        """The view of one agent: the sessions of others answer `AccessDenied`."""
        return Store(self._runtime, self._scope.of_agent(agent_id))

    def as_principal(self, principal: Principal) -> Store:
        """The view of a caller: what they may not see is not found."""
        return Store(self._runtime, self._scope.of_principal(principal))

    def through(self, door: str) -> Store:
        """The same view, of a caller who came through this door; the audit log says so."""
        return Store(self._runtime, msgspec.structs.replace(self._scope, door=label(door, "door")))

    def as_system(self) -> Store:
        """The view of the program itself, across organizations: for recovery and supervision only."""
        return Store(self._runtime, self._scope.of_principal(None))

    def under_lease(self, lease: Lease) -> Store:
        """The view of who runs a session's turn: once another holder has come, it cannot write there."""
        return Store(self._runtime, msgspec.structs.replace(self._scope, lease=lease))
