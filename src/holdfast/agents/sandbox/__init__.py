"""Sandboxes: an agent has its repository, and not the rights of the server."""

from __future__ import annotations

from holdfast.agents.sandbox.kinds import Guard, Kind, SandboxRefused, Tools
from holdfast.agents.sandbox.places import Access, Place, read, write
from holdfast.agents.sandbox.sandbox import Sandbox, Sandboxes, Wanted

__all__ = [
    "Access",
    "Guard",
    "Kind",
    "Place",
    "Sandbox",
    "SandboxRefused",
    "Sandboxes",
    "Tools",
    "Wanted",
    "read",
    "write",
]
