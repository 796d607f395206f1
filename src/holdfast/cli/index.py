"""`holdfast index`: bring the index up to date with a directory, once or whenever something changes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from holdfast.cli.options import JsonOption, StoreOption, settings_for
from holdfast.cli.reach_index import Index, reached_index
from holdfast.config import Settings
from holdfast.questions.shown import one_line
from holdfast.retrieval import Indexed
from holdfast.retrieval.errors import IndexInUse

ARMED_MS = 500
"""How soon it is known that a directory in which nothing changes is watched."""

LOOK_SECONDS = 1.0
"""How soon an index is asked for again that another process has open."""


def index(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A directory; a part of a repository, too.")],
    repository: Annotated[
        str | None,
        typer.Option("--repo", metavar="NAME", help="What to call it, if not as the repository's directory."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and index again what changes.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Index the files of a directory, so that they are found by `holdfast search` and given to models.

    What git ignores is left out, and only what changed since the last time is read again.
    """
    errand = IndexErrand(settings_for(store), path.expanduser().resolve(), repository, as_json=as_json)
    asyncio.run(errand.run(watch=watch))


class IndexErrand:
    def __init__(self, settings: Settings, root: Path, repository: str | None, *, as_json: bool) -> None:
        self._settings = settings
        self._root = root
        self._repository = repository
        self._as_json = as_json
        self._notes = Console(stderr=True, highlight=False)

    async def run(self, *, watch: bool) -> None:
        async with reached_index(self._settings) as index:
            self._report(*await self._once(index))
        if watch:
            await self._follow()

    async def _once(self, index: Index) -> tuple[Indexed, float]:
        began = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        quiet = not self._notes.is_terminal
        with Progress(*columns, console=self._notes, transient=True, disable=quiet) as progress:
            task = progress.add_task("indexing", total=None)
            indexed = await index.index(
                self._root,
                self._repository,
                lambda done, total: progress.update(task, completed=done, total=total),
            )
        return indexed, time.monotonic() - began

    async def _follow(self) -> None:
        """Index again whenever something below the root has changed; in between, others may use the index."""
        from watchfiles import awatch

        is_watched = False
        async for changes in awatch(self._root, rust_timeout=ARMED_MS, yield_on_timeout=True):
            if changes or not is_watched:  # at first, for what changed before it was watched
                indexed, seconds = await self._again()
                if indexed.changed or indexed.removed:
                    self._report(indexed, seconds)
            if not is_watched:
                self._notes.print(f"watching {one_line(str(self._root))}; Ctrl-C ends it", markup=False)
                is_watched = True

    async def _again(self) -> tuple[Indexed, float]:
        while True:
            try:
                async with reached_index(self._settings) as index:
                    return await self._once(index)
            except IndexInUse as busy:
                self._notes.print(one_line(str(busy)), markup=False)
                await asyncio.sleep(LOOK_SECONDS)  # the system has no wait for another process's lock

    def _report(self, indexed: Indexed, seconds: float) -> None:
        for warning in indexed.warnings:
            self._notes.print(one_line(warning), style="yellow", markup=False)
        if self._as_json:
            typer.echo(msgspec.json.encode(indexed))
            return
        skipped = f", {indexed.skipped} skipped" if indexed.skipped else ""
        typer.echo(
            f"{one_line(indexed.repository)}: {indexed.changed} of {indexed.files} files indexed in "
            f"{indexed.chunks} chunks, {indexed.unchanged} unchanged, {indexed.removed} removed{skipped} "
            f"({seconds:.1f} s)"
        )
