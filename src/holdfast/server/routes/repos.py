"""The repositories under the workspace root, and the agents that can work in them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from holdfast.server import shapes
from holdfast.server.routes.common import Body, PartsOf, View, answers, rendered
from holdfast.server.routes.route import Route

router = APIRouter(prefix="/api", tags=["repositories"], route_class=Route)


class NewRepo(Body):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["notes"])]


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
