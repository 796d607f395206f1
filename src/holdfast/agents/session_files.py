"""An agent's own files of a session, kept safe while it loads them.

Gemini CLI deletes a session's file when loading it fails. The copy goes back then.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@asynccontextmanager
async def kept(home: Path, patterns: Sequence[str], agent_session: str) -> AsyncIterator[None]:
    """Whatever happens to the files inside the block, they are as they were if it raises."""
    with TemporaryDirectory(prefix="holdfast-") as directory:
        copies = await asyncio.to_thread(_copy, home, patterns, agent_session, Path(directory))
        try:
            yield
        except BaseException:
            await asyncio.to_thread(_restore, copies)
            raise


def _copy(home: Path, patterns: Sequence[str], agent_session: str, to: Path) -> dict[Path, Path]:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", agent_session):
        return {}
    names = {"id": agent_session, "id8": agent_session[:8]}
    found = [path for pattern in patterns for path in home.glob(pattern.format(**names))]
    copies = {path: to / str(number) for number, path in enumerate(found)}
    for original, copy in copies.items():
        shutil.copy2(original, copy)
    return copies


def _restore(copies: dict[Path, Path]) -> None:
    for original, copy in copies.items():
        shutil.copy2(copy, original)
