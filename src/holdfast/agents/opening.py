"""The supervisor that the settings describe. Every door opens it here, so every setting applies at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.agents.catalogue import Catalogue
from holdfast.agents.live import Limits
from holdfast.agents.repositories import Repositories
from holdfast.agents.supervisor import Supervisor

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.questions.box import QuestionBox
    from holdfast.store.store import Store


def open_repositories(settings: Settings) -> Repositories:
    return Repositories(settings.workspace.root, depth=settings.workspace.depth)


def open_supervisor(
    settings: Settings, store: Store, box: QuestionBox | None, *, starts_agents: bool = True
) -> Supervisor:
    """To be entered, and left before the store is closed."""
    return Supervisor(
        store,
        Catalogue.from_settings(settings.agents),
        open_repositories(settings),
        box=box,
        starts_agents=starts_agents,
        limit=settings.workspace.max_sessions,
        limits=Limits(idle=settings.workspace.idle_minutes * 60),
        providers=settings.providers,
    )
