"""What a search is limited to, as a filter of the index.

A workspace is a scope of the caller and no property of a chunk: it stands for repositories, and for paths
in them. One that nobody has described stands for nothing, and not for everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.errors import NotFound
from holdfast.retrieval.chunk import SearchFilter
from holdfast.retrieval.payload import LANGUAGE, PATH, REPOSITORY
from holdfast.retrieval.vectors import Condition, Filter, Match, MatchPrefix


class Workspace(msgspec.Struct, frozen=True):
    repositories: Sequence[str]
    paths: Sequence[str] = ()
    """Files or directories, in any of the repositories; all of them when none is given."""


class WorkspaceUnknown(NotFound):
    code = "workspace_unknown"

    def __init__(self, workspace: str) -> None:
        super().__init__(
            f"Nothing was searched: there is no workspace {workspace!r} in [retrieval.workspaces] of "
            "holdfast.toml."
        )


def filter_of(wanted: SearchFilter, workspaces: Mapping[str, Workspace]) -> Filter:
    conditions: list[Condition] = []
    if wanted.repository is not None:
        conditions.append(Match(REPOSITORY, [wanted.repository]))
    if wanted.language is not None:
        conditions.append(Match(LANGUAGE, [wanted.language]))
    if wanted.workspace is not None:
        workspace = workspaces.get(wanted.workspace)
        if workspace is None:
            raise WorkspaceUnknown(wanted.workspace)
        conditions.append(Match(REPOSITORY, workspace.repositories))
        conditions += within(*workspace.paths)
    return Filter(must=(*conditions, *within(wanted.path or "")))


def within(*paths: str) -> tuple[Condition, ...]:
    """The condition that a path is one of these, or below one of them; none for the whole tree."""
    cleaned = [path.removeprefix("./").strip("/") for path in paths]
    if not cleaned or any(path in ("", ".") for path in cleaned):
        return ()
    below = tuple(MatchPrefix(PATH, f"{path}/") for path in cleaned)
    return (Filter(should=(Match(PATH, cleaned), *below)),)
