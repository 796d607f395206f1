"""An agent's own files of a session, kept safe while it loads them.

Gemini CLI deletes a session's file when loading it fails. What it contained goes back then. The files are the
agent's, so no link is followed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain, islice
from pathlib import Path

from holdfast.agents.workspace import Workspace
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.agents")

MAX_FILES, MAX_BYTES = 8, 256 * 1024 * 1024


@asynccontextmanager
async def kept(home: Path, patterns: Sequence[str], agent_session: str) -> AsyncIterator[None]:
    """Whatever happens to the files inside the block, they are as they were if it raises."""
    copies = await asyncio.to_thread(_read, home, patterns, agent_session)
    try:
        yield
    except BaseException:
        await asyncio.to_thread(_restore, home, copies)
        raise


def _read(home: Path, patterns: Sequence[str], agent_session: str) -> Mapping[str, bytes]:
    if not patterns or not re.fullmatch(r"[A-Za-z0-9_-]+", agent_session):
        return {}
    names = {"id": agent_session, "id8": agent_session[:8]}
    workspace = Workspace(home)
    found = chain.from_iterable(workspace.root.glob(pattern.format(**names)) for pattern in patterns)
    copies = {}
    for path in islice(found, MAX_FILES):
        try:
            copies[str(path)] = workspace.read_bytes(str(path), most=MAX_BYTES)
        except HoldfastError as error:
            log.warning("a file of agent session %s is not kept: %s", agent_session, error)
    return copies


def _restore(home: Path, copies: Mapping[str, bytes]) -> None:
    for path, content in copies.items():
        try:
            Workspace(home).write_bytes(path, content)
        except HoldfastError as error:
            log.warning("a file of an agent is not put back: %s", error)
