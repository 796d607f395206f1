"""What the routes work with: the store and the services over it, opened together and closed in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.agents.opening import open_supervisor
from holdfast.agents.supervisor import Supervisor
from holdfast.blobs import Blobs, open_blobs
from holdfast.compaction.tokens import default_counter
from holdfast.config import ServerSettings, Settings
from holdfast.execution.opening import open_orchestrator
from holdfast.execution.orchestrator import Orchestrator
from holdfast.mcp import question_door
from holdfast.model.principal import LOCAL
from holdfast.questions import open_box
from holdfast.retrieval import Retrieval, open_retrieval
from holdfast.server.doorkeeper import Doorkeeper, cookie_name
from holdfast.server.files import ENOUGH
from holdfast.server.hub import Hub
from holdfast.server.inbox import Inbox
from holdfast.server.jwt import JwtVerifier
from holdfast.server.markdown import Renderer
from holdfast.server.metrics import Metrics
from holdfast.server.sse import Feeds
from holdfast.store import open_store
from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    store: Store
    blobs: Blobs
    retrieval: Retrieval
    orchestrator: Orchestrator
    supervisor: Supervisor
    inbox: Inbox
    hub: Hub
    feeds: Feeds
    doorkeeper: Doorkeeper
    renderer: Renderer
    metrics: Metrics


@asynccontextmanager
async def open_parts(
    settings: Settings, *, auth: bool = True, connections: int = ENOUGH
) -> AsyncIterator[Parts]:
    """Everything that serves so many connections at most."""
    counter = default_counter()
    blobs = open_blobs(settings.blobs_url)
    box = open_box(settings.questions)
    async with (
        await open_retrieval(settings) as retrieval,
        open_store(settings.store_url, durability=settings.durability, counter=counter) as store,
        open_supervisor(settings, store, box, question_door(box, settings), starts_agents=auth) as supervisor,
        open_orchestrator(settings, store, blobs, retrieval) as orchestrator,
    ):
        inbox = Inbox(box)
        metrics = Metrics()
        renderer = Renderer()
        hub = Hub(store, inbox, metrics.published)
        doorkeeper = Doorkeeper(
            store, jwt=_jwt(settings.server), everybody=None if auth else LOCAL, cookie=_cookie(settings)
        )
        recording = asyncio.create_task(inbox.record_others(store), name="holdfast-inbox")
        try:
            yield Parts(
                settings=settings,
                store=store,
                blobs=blobs,
                retrieval=retrieval,
                orchestrator=orchestrator,
                supervisor=supervisor,
                inbox=inbox,
                hub=hub,
                feeds=Feeds(hub, inbox, doorkeeper, places=connections // 2),
                doorkeeper=doorkeeper,
                renderer=renderer,
                metrics=metrics,
            )
        finally:
            recording.cancel()
            await asyncio.wait([recording])
            renderer.close()
            await hub.close()


def _cookie(settings: Settings) -> str:
    public = settings.server.public_url
    return cookie_name(public or str(settings.data_dir.resolve()), is_encrypted=settings.server.is_encrypted)


def _jwt(settings: ServerSettings) -> JwtVerifier | None:
    if settings.jwt_keys is None or settings.jwt_issuer is None or settings.jwt_audience is None:
        return None
    return JwtVerifier(issuer=settings.jwt_issuer, audience=settings.jwt_audience, keys=settings.jwt_keys)
