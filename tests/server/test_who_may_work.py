"""Who may look for repositories, start agents in them, and index them."""

from pathlib import Path

import pytest

from holdfast.agents.repositories import NoRepositoriesHere, Repositories
from holdfast.server import shapes
from tests.retrieval.trees import GREETING, written
from tests.server.servers import Organization, Person, Served, decoded, problem, project


async def starts(person: Person, repo_id: str) -> int:
    answer = await person.post("/api/sessions", {"repoId": repo_id, "agent": "demo"})
    if answer.status_code == 201:
        await person.call("DELETE", f"/api/sessions/{answer.json()['id']}")
    return answer.status_code


@pytest.mark.req("SEC-12")
async def test_members_start_agents_only_where_an_admin_allowed_it(org: Organization) -> None:
    repo = await project(org.admin)
    refused = await org.ada.post("/api/sessions", {"repoId": repo["id"], "agent": "demo"})
    assert problem(refused)["status"] == 403
    assert "holdfast repos --allow-members project" in problem(refused)["detail"]
    assert (
        await org.ada.call("PUT", f"/api/repos/{repo['id']}/members", json={"allowed": True})
    ).status_code == 403
    assert [await starts(person, repo["id"]) for person in (org.admin, org.ada)] == [201, 403]

    assert (await org.project())["forMembers"] is True
    assert await starts(org.ada, repo["id"]) == 201
    closed = await org.admin.call("PUT", f"/api/repos/{repo['id']}/members", json={"allowed": False})
    assert decoded(closed, shapes.Repo).for_members is False
    assert await starts(org.ada, repo["id"]) == 403
    entries = (await org.admin.get("/api/audit")).json()["entries"]
    opened = [entry["detail"] for entry in entries if entry["action"] == "repository.open"]
    assert opened == [{"forMembers": False}, {"forMembers": True}]
    assert [entry["user"] for entry in entries if entry["outcome"] == "denied"] == ["ada"] * 4


@pytest.mark.req("SEC-12")
async def test_members_neither_scan_nor_make_repositories_nor_index_what_is_not_theirs(
    org: Organization, served: Served
) -> None:
    await project(org.admin)
    written(served.workspace / "loose", {"a.py": GREETING})
    for path, body in (
        ("/api/repos/scan", {}),
        ("/api/repos", {"name": "mine"}),
        ("/api/retrieval/index", {"path": "project"}),
        ("/api/retrieval/index", {"path": "loose"}),
    ):
        assert problem(await org.ada.post(path, body))["status"] == 403, path
    assert not (served.workspace / "mine").exists()


@pytest.mark.req("SEC-12")
async def test_an_organization_without_a_directory_has_no_repositories(
    org: Organization, other: Organization, served: Served
) -> None:
    repo = await org.project()
    (served.home / "of" / other.name).unlink()
    refused = problem(await other.admin.post("/api/repos/scan"))
    assert refused["status"] == 503
    assert problem(await other.admin.post("/api/sessions", {"repoId": repo["id"]}))["status"] == 404
    indexed = await other.admin.post("/api/retrieval/index", {"path": str(served.workspace / "project")})
    assert indexed.status_code == 503


def test_directories_of_organizations_are_their_own(tmp_path: Path) -> None:
    for name in ("home", "acme", "of/a%2Fb"):
        (tmp_path / name / "r").mkdir(parents=True)
    others = {"acme": tmp_path / "acme", "*": tmp_path / "of" / "{organization}"}
    found = Repositories(tmp_path / "home", others=others)
    assert [found.confined("r", name).parent.name for name in ("local", "acme", "a/b")] == [
        "home",
        "acme",
        "a%2Fb",
    ]
    with pytest.raises(NoRepositoriesHere):
        found.confined("r", "..")
    with pytest.raises(NoRepositoriesHere, match=r"\[workspace.roots\]"):
        Repositories(tmp_path / "home").confined("r", "acme")
