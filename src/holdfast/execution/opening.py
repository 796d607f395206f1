"""An orchestrator as the settings say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.agents.opening import open_repositories
from holdfast.agents.repositories import Repositories
from holdfast.agents.workspace import Workspace
from holdfast.blobs import Blobs
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.policy import policies_of
from holdfast.config import ProviderSettings, Settings
from holdfast.errors import HoldfastError
from holdfast.execution.contexts import DEFAULT, ContextSource
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.responses import Provider
from holdfast.execution.running import ExecutionLimits
from holdfast.retrieval import Retrieval
from holdfast.store.store import Store


@asynccontextmanager
async def open_orchestrator(
    settings: Settings, store: Store, blobs: Blobs, retrieval: Retrieval | None
) -> AsyncIterator[Orchestrator]:
    execution = settings.execution
    limits = ExecutionLimits(
        chunks=execution.chunks,
        max_file_bytes=execution.max_file_bytes,
        chain_days=execution.chain_days,
    )
    async with (
        BackgroundCompaction(
            store.as_system(), policies_of({}, settings.contexts, settings.providers)
        ) as compaction,
        Orchestrator(
            store,
            blobs,
            context_source(settings),
            providers_of(settings),
            retrieval=retrieval if execution.chunks else None,
            compaction=compaction,
            limits=limits,
            read_file=RepositoryFiles(open_repositories(settings)).read,
        ) as orchestrator,
    ):
        yield orchestrator


def context_source(settings: Settings) -> ContextSource:
    agents = {
        name: {field: value for field, value in table.items() if field != "compaction"}
        for name, table in settings.contexts.items()
    }
    return ContextSource(agents, settings.conversations, settings.model)


def providers_of(settings: Settings) -> dict[str, Provider]:
    named = {DEFAULT: ProviderSettings()} | settings.providers
    return {
        name: Provider(
            base_url=provider.base_url,
            api_key_env=provider.api_key_env,
            chains=provider.chains,
            timeout_seconds=provider.timeout_seconds,
        )
        for name, provider in named.items()
    }


class RepositoryFiles:
    """Files of the repositories under the workspace root, for clients that name them without content."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def read(self, organization: str, repository: str, path: str) -> bytes | str:
        """The content; or why it cannot be had."""
        try:
            inside = self._repositories.confined(repository, organization)
            return Workspace(inside).read_bytes(path)
        except HoldfastError as error:
            return f"{path} was not sent: {error}"
