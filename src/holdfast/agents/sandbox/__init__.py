"""Sandboxes: an agent has its repository, and not the rights of the server."""

from __future__ import annotations

from holdfast.agents.sandbox.kinds import Guard, Kind, Tools
from holdfast.agents.sandbox.places import Place, read, write
from holdfast.agents.sandbox.sandbox import Sandbox, Sandboxes, SandboxRefused, Wanted

__all__ = [
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
