"""Who a view of the store acts for. Every operation admits the session it found through here."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import AccessDenied, SessionNotFound
from holdfast.model.key import SessionKey
from holdfast.model.lease import Lease
from holdfast.model.principal import LOCAL, Principal
from holdfast.model.records import Repo
from holdfast.model.session import SessionRef
from holdfast.model.status import SessionStatus
from holdfast.model.text import label


class Found(msgspec.Struct, frozen=True):
    """As much of a session's row as it takes to admit a caller and to write."""

    pk: int
    id: bytes
    organization: str
    owner: str
    agent: str
    status: SessionStatus
    archived_from: SessionStatus | None
    is_public: bool


class Scope(msgspec.Struct, frozen=True):
    principal: Principal | None = LOCAL
    """None: the program itself, which may touch every organization's sessions."""
    agent: str | None = None
    lease: Lease | None = None
    """Given, every write to its session is refused once a later holder has come."""
    door: str | None = None
    """Where the caller stands, for the audit log."""

    @property
    def organization(self) -> str:
        return (self.principal or LOCAL).organization

    @property
    def user(self) -> str:
        return (self.principal or LOCAL).user

    def admit(self, session: Any, ref: SessionRef, *, writing: bool) -> None:
        """Let the caller at `session`, or say why not. What a caller may not see is not found."""
        if self.principal is not None and not self.principal.may_read(session):
            raise SessionNotFound(ref)
        self.admit_agent(session.agent, ref)
        if writing and self.principal is not None and not self.principal.may_write(session):
            raise AccessDenied(
                f"Session {ref} is public: {self.user} may read it, and only {session.owner} may write."
            )

    def admit_agent(self, agent: str, ref: SessionRef | None = None) -> None:
        if self.agent is not None and agent != self.agent:
            session = f"Session {ref}" if ref else "What was asked for"
            raise AccessDenied(
                f"{session} belongs to agent {agent!r}; agent {self.agent!r} has no access to it."
            )

    def of_agent(self, agent: str) -> Scope:
        """This view, of one agent. An agent's view is not another agent's."""
        label(agent, "agent id")
        self.admit_agent(agent)
        return msgspec.structs.replace(self, agent=agent)

    def of_principal(self, principal: Principal | None) -> Scope:
        """The view of somebody else, which only an admin can take; None is the program itself."""
        if principal != self.principal:
            self.admit_admin("act for somebody else")
        return msgspec.structs.replace(self, principal=principal)

    def admit_admin(self, what: str) -> None:
        if self.agent is not None or (self.principal is not None and not self.principal.is_admin):
            who = f"agent {self.agent!r}" if self.agent is not None else self.user
            raise AccessDenied(f"Only an admin may {what}; {who} is none.")

    def admit_work(self, repo: Repo) -> None:
        """Let the caller start agents in a repository, or say who may."""
        if self.principal is not None and not self.principal.is_admin and not repo.for_members:
            raise AccessDenied(
                f"Members may not start agents in {repo.name} or index it; an admin can allow it with: "
                f"holdfast repos --allow-members {repo.name}"
            )

    def may_list(self, owner: str | None) -> bool:
        """Whether this caller sees sessions of `owner` in a listing. Members list their own."""
        return self.principal is None or self.principal.is_admin or owner in (None, self.principal.user)

    def admit_key(self, ref: SessionRef) -> None:
        if isinstance(ref, SessionKey):
            self.admit_agent(ref.agent_id, ref)
