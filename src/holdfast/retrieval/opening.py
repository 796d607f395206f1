"""The retrieval that the settings describe. Every door opens it here, so every setting applies at all."""

from __future__ import annotations

import hashlib
import os
import re
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput
from holdfast.model.principal import LOCAL
from holdfast.retrieval.chunking import CHUNKING_VERSION
from holdfast.retrieval.edge import EdgeEngine
from holdfast.retrieval.embeddings import Embedder
from holdfast.retrieval.retrieval import Retrieval
from holdfast.retrieval.scope import Workspace
from holdfast.retrieval.served import ServedEngine, connected
from holdfast.retrieval.terms import TERMS_VERSION
from holdfast.retrieval.vector_index import VectorIndex
from holdfast.retrieval.vectors import Engine

if TYPE_CHECKING:
    from holdfast.config import Settings


async def open_retrieval(settings: Settings) -> Retrieval:
    """To be closed. Nothing is touched before the first search or the first run of an index."""
    chosen = settings.retrieval
    embedder = None
    if chosen.embeddings_url and chosen.embeddings_model and chosen.embeddings_dimensions:
        key = _key(chosen.embeddings_key_env)
        embedder = Embedder(chosen.embeddings_url, chosen.embeddings_model, chosen.embeddings_dimensions, key)
    version = index_version(embedder)
    dimensions = None if embedder is None else embedder.dimensions

    engine: Engine
    if chosen.url is None:
        directory = (chosen.directory or settings.data_dir / "index").expanduser()
        engine = EdgeEngine(directory, version, dimensions)
    else:
        connect = partial(connected, chosen.url, _key(chosen.key_env))
        engine = ServedEngine(connect, f"holdfast-{version}", dimensions)
    return Retrieval(
        VectorIndex(engine),
        version=version,
        embedder=embedder,
        workspaces={
            name: Workspace(each.repositories, each.paths) for name, each in chosen.workspaces.items()
        },
        max_file_bytes=chosen.max_file_bytes,
        serves=settings.workspace.serves,
    )


async def reach_server(settings: Settings) -> None:
    """Ask the Qdrant server that the settings name, if they do; nothing is changed there."""
    chosen = settings.retrieval
    if chosen.url is None:
        return
    engine = ServedEngine(partial(connected, chosen.url, _key(chosen.key_env)), "holdfast", None)
    try:
        await engine.collection(LOCAL.organization, create=False)
    finally:
        await engine.close()


def index_version(embedder: Embedder | None) -> str:
    """What an index was made with. Another version is another collection: its vectors cannot be compared."""
    version = f"c{CHUNKING_VERSION}t{TERMS_VERSION}"
    if embedder is None:
        return version
    model = re.sub(r"[^a-z0-9]+", "-", embedder.model.lower()).strip("-")[:40]
    exact = hashlib.sha256(embedder.model.encode()).hexdigest()[:8]
    return f"{version}-{model}-{exact}-{embedder.dimensions}"


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise InvalidInput(
            f"The settings in [retrieval] name {variable}, which is not set in the environment."
        )
    return key
