"""Who is calling, and what they may see."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from holdfast.model.text import label, one_of

if TYPE_CHECKING:
    from holdfast.model.session import Session


class PrincipalRole(StrEnum):
    MEMBER = "member"
    ADMIN = "admin"


class Principal(msgspec.Struct, frozen=True):
    """An organization's user. Members see what they own; admins see all of their organization."""

    organization: str
    user: str
    role: PrincipalRole = PrincipalRole.MEMBER

    def __post_init__(self) -> None:
        label(self.organization, "organization")
        label(self.user, "user")
        msgspec.structs.force_setattr(self, "role", one_of(PrincipalRole, self.role, "role"))

    @property
    def is_admin(self) -> bool:
        return self.role is PrincipalRole.ADMIN

    def may_read(self, session: Session) -> bool:
        return session.organization == self.organization and (
            self.is_admin or session.owner == self.user or session.is_public
        )

    def may_write(self, session: Session) -> bool:
        return session.organization == self.organization and (self.is_admin or session.owner == self.user)


EVERY_OTHER = "*"
"""Stands for all organizations that have no entry of their own."""

LOCAL = Principal("local", "local", PrincipalRole.ADMIN)
"""The person at this machine: who an embedded store acts for unless told otherwise."""
