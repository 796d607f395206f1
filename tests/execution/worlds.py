"""Instructions executed for real: a store, blobs on disk, and a model on loopback that answers by rule."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from holdfast import Store
from holdfast.blobs import Blobs, blob_id_of, open_blobs
from holdfast.execution.contexts import ContextSource
from holdfast.execution.demo import DemoModel
from holdfast.execution.input import ActiveFile, ExecutionInput
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.responses import Provider
from holdfast.model.turn import Turn

KEY_VARIABLE = "TEST_MODEL_KEY"
SECRET = "sk-secret-of-the-tests"

os.environ[KEY_VARIABLE] = SECRET


class World:
    def __init__(self, store: Store, path: Path, model: DemoModel) -> None:
        self.store = store
        self.path = path
        self.model = model
        self.blobs: Blobs = open_blobs((path / "blobs").as_uri())
        self.now = datetime(2026, 11, 16, tzinfo=UTC)

    def provider(self, *, chains: bool = True, key_variable: str = KEY_VARIABLE) -> Provider:
        return Provider(base_url=self.model.url, api_key_env=key_variable, chains=chains, timeout_seconds=60)

    @asynccontextmanager
    async def orchestrator(
        self,
        *,
        chains: bool = True,
        contexts: dict[str, dict[str, Any]] | None = None,
        conversations: dict[str, dict[str, Any]] | None = None,
        model: str | None = "demo",
        **options: Any,
    ) -> AsyncIterator[Orchestrator]:
        options.setdefault("blobs", self.blobs)
        async with Orchestrator(
            self.store,
            options.pop("blobs"),
            ContextSource(contexts or {}, conversations or {}, model),
            {"default": self.provider(chains=chains)},
            clock=lambda: self.now,
            **options,
        ) as orchestrator:
            yield orchestrator

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)

    async def read(self, url: str | None) -> bytes:
        """The blob that a turn refers to."""
        assert url is not None
        blob = blob_id_of(url)
        assert blob is not None
        return await self.blobs.get("local", blob)

    async def request_of(self, turn: Turn) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.json.decode(await self.read(turn.openai_request_payload_url))
        return body


def asked(instruction: str, **fields: Any) -> ExecutionInput:
    return ExecutionInput(instruction=instruction, **fields)


def file(path: str, content: str | None = None, **fields: Any) -> ActiveFile:
    return ActiveFile(path=path, content=content, **fields)


def said(request: dict[str, Any]) -> list[str]:
    """Every text of a request's input, with who said it."""
    return [
        f"{item['role']}: {part['text']}" for item in request["input"] for part in item.get("content", [])
    ]
