"""The repositories under the workspace root, and the agents that can work in them."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator, Field
from starlette.responses import Response

from holdfast.errors import InvalidInput
from holdfast.model.ids import RepoId
from holdfast.server import shapes
from holdfast.server.routes.common import (
    UUID,
    AdminOf,
    Body,
    PartsOf,
    View,
    answers,
    not_upwards,
    rendered,
)
from holdfast.server.routes.route import Route

router = APIRouter(prefix="/api", tags=["repositories"], route_class=Route)


RepoPath = Annotated[str, Path(alias="id", description="The repository's id.", pattern=UUID)]

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _repo_name(name: str) -> str:
    if not re.fullmatch(NAME, not_upwards(name)):
        raise InvalidInput(
            "A repository's name is 1 to 64 letters, digits, dots, hyphens and underscores, and begins with "
            "a letter or a digit."
        )
    return name


class NewRepo(Body):
    name: Annotated[
        str,
        AfterValidator(_repo_name),
        Field(json_schema_extra={"pattern": NAME}, examples=["notes"]),
    ]


class Members(Body):
    allowed: bool
    """Whether members may start agents in it, and index it."""


@router.get("/repos", responses=answers(shapes.Repos))
async def list_repos(view: View) -> Response:
    """The repositories that the last scan found."""
    return rendered(shapes.Repos(repos=tuple(map(shapes.Repo.of, await view.list_repos()))))


@router.post("/repos", status_code=201, responses=answers(shapes.Repo, 201, 409, 503))
async def create_repo(new: NewRepo, parts: PartsOf, view: View) -> Response:
    """Make a new, empty repository in the workspace root."""
    created = await parts.supervisor.repositories.create(view, new.name)
    await view.audit("repository.create", "done", subject=created.path)
    return rendered(shapes.Repo.of(created), 201)


@router.post("/repos/scan", responses=answers(shapes.Repos, 200, 503))
async def scan_repos(parts: PartsOf, view: View) -> Response:
    """Look for repositories under the workspace root."""
    found = await parts.supervisor.repositories.scan(view)
    return rendered(shapes.Repos(repos=tuple(map(shapes.Repo.of, found))))


@router.put("/repos/{id}/members", responses=answers(shapes.Repo, 200, 404))
async def open_repo(repo_id: RepoPath, members: Members, admin: AdminOf, view: View) -> Response:
    """Let members start agents in a repository, or no longer."""
    repo = await view.open_repo(RepoId(repo_id), for_members=members.allowed)
    return rendered(shapes.Repo.of(repo))


@router.get("/agents", responses=answers(shapes.Agents))
async def list_agents(parts: PartsOf) -> Response:
    """The agents of the catalogue, and which of them are installed."""
    catalogue = parts.supervisor.catalogue
    return rendered(
        shapes.Agents(
            agents=tuple(
                shapes.Agent(
                    name=name,
                    installed=catalogue[name].path() is not None,
                    install=catalogue[name].install,
                )
                for name in catalogue
            )
        )
    )
