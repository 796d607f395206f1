"""The git repositories under the workspace root: found, described, and checked before each use."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from holdfast import git
from holdfast.agents.workspace import OutsideWorkspace
from holdfast.errors import AccessDenied, Conflict, HoldfastError, NotFound
from holdfast.model.ids import RepoId
from holdfast.model.principal import EVERY_OTHER, LOCAL
from holdfast.model.records import Repo
from holdfast.store.store import Store

log = logging.getLogger("holdfast.agents")

SCAN_DEPTH = 3
"""How many directories below the root a repository may lie."""

SKIPPED = frozenset({"node_modules", ".venv", "venv", "__pycache__"})

_PASSWORD = re.compile(r"://[^/@]*:[^/@]*@")


class NoWorkspaceRoot(HoldfastError):
    code = "no_workspace_root"
    status = 503


class NoRepositoriesHere(AccessDenied):
    """The organization has no directory on this machine."""

    code = "no_repositories_here"

    def __init__(self, organization: str) -> None:
        super().__init__(
            f"The organization {organization!r} has no repositories here; the operator of this server names "
            "a directory for it in [workspace.roots]."
        )


class PathTaken(Conflict):
    code = "path_taken"


class Repositories:
    """Each organization has a directory of its own; `root` is that of the person at this machine."""

    def __init__(
        self, root: Path, *, depth: int = SCAN_DEPTH, others: Mapping[str, Path] | None = None
    ) -> None:
        self.root = root
        self._depth = depth
        self._others = others or {}

    async def scan(self, store: Store) -> list[Repo]:
        """Find the repositories, store what was found, and forget those of this root that are gone."""
        store.require_admin("look for repositories")
        root, found = await asyncio.to_thread(self._found, store.organization)
        saved = list(await store.save_repos(found))
        kept = {repo.path for repo in saved}
        for repo in await store.list_repos():
            inside = root == Path(repo.path) or root in Path(repo.path).parents
            if inside and repo.path not in kept and repo.id is not None:
                with suppress(NotFound):  # another scan has noticed, too
                    await store.delete_repo(repo.id)
        return saved

    async def create(self, store: Store, name: str) -> Repo:
        """Make an empty repository directly under the root, where nothing of that name is yet."""
        store.require_admin("make a repository")
        path = self._real_root(store.organization) / name
        await asyncio.to_thread(_initialize, path)
        (created,) = await store.save_repos([await asyncio.to_thread(describe, path)])
        return created

    async def resolve(self, store: Store, repo_id: RepoId) -> tuple[Repo, Path]:
        """A known repository and its real path, for who may start agents in it. An escape is audited."""
        repo = await store.get_repo(repo_id)
        store.require_work(repo)
        try:
            return repo, await asyncio.to_thread(self.confined, repo.path, store.organization)
        except OutsideWorkspace as refusal:
            await store.audit("repository.use", "denied", subject=repo.path, detail={"reason": str(refusal)})
            refusal.on_record = True
            raise

    async def indexable(self, store: Store, path: str) -> Path:
        """The real path of a directory that the caller may index: admins any, members what is theirs."""
        real = await asyncio.to_thread(self.confined, path, store.organization)
        around = [each for each in await store.list_repos() if Path(each.path) in (real, *real.parents)]
        for repo in around:
            store.require_work(repo)
        if not around:
            store.require_admin("index what is no repository")
        return real

    def confined(self, path: str, organization: str = LOCAL.organization) -> Path:
        """The real path of a repository: links and `..` are resolved before it is judged."""
        root = self._real_root(organization)
        real = Path(os.path.realpath(root / path))
        if real != root and root not in real.parents:
            raise OutsideWorkspace(path, root)
        try:
            is_there = real.is_dir()
        except OSError:  # nothing can have such a name
            is_there = False
        if not is_there:
            raise NotFound(f"{path} is not there any more; scan the workspace again.")
        return real

    def _real_root(self, organization: str) -> Path:
        root = self._root_of(organization)
        try:
            return root.expanduser().resolve(strict=True)
        except OSError:
            raise NoWorkspaceRoot(
                f"The workspace root {root} is not there; set AGENT_WORKSPACE_ROOT to a directory."
            ) from None

    def _root_of(self, organization: str) -> Path:
        if organization == LOCAL.organization:
            return self.root
        if (own := self._others.get(organization)) is not None:
            return own
        pattern, name = self._others.get(EVERY_OTHER), quote(organization, safe="")
        if pattern is None or name in (".", ".."):
            raise NoRepositoriesHere(organization)
        return Path(str(pattern).replace("{organization}", name))

    def _found(self, organization: str) -> tuple[Path, list[Repo]]:
        root = self._real_root(organization)
        return root, [describe(path) for path in repository_paths(root, self._depth)]


def repository_paths(directory: Path, depth: int) -> Iterator[Path]:
    """Where repositories are, up to `depth` directories below. Links are not followed."""
    try:
        if (directory / ".git").exists():
            yield directory
            return
        below = sorted(_directories(directory)) if depth else []
    except OSError as error:
        log.info("%s is not looked into: %s", ascii(str(directory)), error.strerror)
        return
    for path in below:
        yield from repository_paths(Path(path), depth - 1)


def _directories(directory: Path) -> Iterator[str]:
    for entry in os.scandir(directory):
        if entry.name in SKIPPED or not entry.is_dir(follow_symlinks=False):
            continue
        if _is_text(entry.name):
            yield entry.path
        else:
            log.warning("%s is left out: its name is not UTF-8", ascii(entry.path))


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _initialize(path: Path) -> None:
    if git.said(path.parent, "rev-parse", "--show-toplevel") is not None:
        raise PathTaken(f"{path.parent} is itself inside a repository; work in that one.")
    try:
        path.mkdir()
    except FileExistsError:
        raise PathTaken(f"There is already something at {path}; choose another name.") from None
    git.said(path, "init", "--quiet", "--initial-branch=main")


def describe(path: Path) -> Repo:
    said = partial(git.said, path, "--git-dir=.git")  # and not a repository further up, if this one is broken
    return Repo(
        name=path.name,
        path=str(path),
        branch=said("symbolic-ref", "--short", "--quiet", "HEAD"),
        last_commit=said("log", "-1", "--no-show-signature", "--format=%H %<(200,trunc)%s"),
        remote=_without_password(said("config", "--get", "remote.origin.url")),
    )


def _without_password(url: str | None) -> str | None:
    return url and _PASSWORD.sub("://", url)
