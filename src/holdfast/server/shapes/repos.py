"""What there is to work with: repositories and agents."""

from __future__ import annotations

from holdfast.model import records
from holdfast.server.shapes.shape import Shape


class Repo(Shape, frozen=True, kw_only=True):
    id: str
    name: str
    path: str
    branch: str | None = None
    last_commit: str | None = None
    remote: str | None = None
    for_members: bool = False

    @classmethod
    def of(cls, repo: records.Repo) -> Repo:
        assert repo.id is not None
        return cls(
            id=repo.id,
            name=repo.name,
            path=repo.path,
            branch=repo.branch,
            last_commit=repo.last_commit,
            remote=repo.remote,
            for_members=repo.for_members,
        )


class Repos(Shape, frozen=True, kw_only=True):
    repos: tuple[Repo, ...]


class Agent(Shape, frozen=True, kw_only=True):
    name: str
    installed: bool
    install: str | None = None
    """How a person gets it."""


class Agents(Shape, frozen=True, kw_only=True):
    agents: tuple[Agent, ...]
