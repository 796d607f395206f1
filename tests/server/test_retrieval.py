"""The index over HTTP: for the caller's organization only, and of the workspace only."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.retrieval import Found, Indexed
from holdfast.retrieval.payload import content_hash
from tests.retrieval.trees import GREETING, written
from tests.server.servers import Organization, Person, Served, decoded, events_of, problem


@pytest.fixture
def project(served: Served) -> Path:
    return written(served.workspace / "project", {"src/greeting.py": GREETING, "docs/a.md": "farewell\n"})


async def search(person: Person, query: str = "farewell", **wanted: Any) -> Found:
    found: Found = decoded(await person.post("/api/retrieval/search", {"query": query, **wanted}), Found)
    return found


async def test_a_repository_is_indexed_and_searched(org: Organization, project: Path) -> None:
    await org.project()
    assert "holdfast index PATH" in (await search(org.ada)).warnings[0]
    indexed = decoded(await org.ada.post("/api/retrieval/index", {"path": "project"}), Indexed)
    assert (indexed.repository, indexed.files, indexed.changed, indexed.chunks) == ("project", 2, 2, 5)
    chunk = (await search(org.bob, language="python", path="src", repository="project")).chunks[0]
    assert (chunk.path, chunk.start_line, chunk.symbol) == ("src/greeting.py", 11, "farewell")
    assert chunk.content_hash == content_hash(chunk.text)
    again = decoded(await org.ada.post("/api/retrieval/index", {"path": str(project)}), Indexed)
    assert (again.changed, again.unchanged) == (0, 2)
    entries = (await org.admin.get("/api/audit")).json()["entries"]
    assert [entry["subject"] for entry in entries if entry["action"] == "retrieval.index"] == [
        str(project)
    ] * 2


@pytest.mark.req("EXE-06")
async def test_another_organization_finds_nothing(
    org: Organization, other: Organization, project: Path
) -> None:
    await org.project()
    await org.ada.post("/api/retrieval/index", {"path": "project"})
    assert len((await search(org.ada)).chunks) == 2
    for stranger in (other.admin, other.ada):
        nothing = await search(stranger, repository="project")
        assert nothing.chunks == ()
        assert "holdfast index PATH" in nothing.warnings[0]


async def test_progress_comes_as_events(org: Organization, project: Path) -> None:
    await org.project()
    async with org.ada.client(headers={"Accept": "text/event-stream"}) as client:
        response = await client.post("/api/retrieval/index", json={"path": "project"})
    names = [(name, data) for name, _, data in events_of(response.text)]
    assert names[0] == ("progress", {"done": 2, "total": 2})
    assert names[-1][0] == "indexed"
    assert names[-1][1]["changed"] == 2


async def test_a_run_that_fails_says_so_in_the_stream(org: Organization, served: Served) -> None:
    for place in ("one", "two"):
        written(served.workspace / place / "same", {"a.py": GREETING})
    await org.admin.post("/api/retrieval/index", {"path": "one/same"})
    conflict = await org.admin.post("/api/retrieval/index", {"path": "two/same"})
    assert problem(conflict)["code"] == "repository_elsewhere"
    async with org.admin.client(headers={"Accept": "text/event-stream"}) as client:
        streamed = await client.post("/api/retrieval/index", json={"path": "two/same"})
    name, _, data = events_of(streamed.text)[-1]
    assert (name, data["code"]) == ("problem", "repository_elsewhere")


OUTSIDE = ("/etc", "..", "../..", "project/../../data", "link")


@pytest.mark.parametrize("path", OUTSIDE)
async def test_what_is_outside_of_the_workspace_is_refused_and_audited(
    org: Organization, served: Served, project: Path, path: str
) -> None:
    if not (served.workspace / "link").is_symlink():
        (served.workspace / "link").symlink_to(served.data)
    for person in (org.ada, org.admin):
        refused = await person.post("/api/retrieval/index", {"path": path})
        assert problem(refused)["code"] == "outside_workspace"
    entries = (await org.admin.get("/api/audit")).json()["entries"]
    assert {entry["outcome"] for entry in entries} == {"denied"}


BAD: list[tuple[str, Any]] = [
    ("search", {}),
    ("search", {"query": 5}),
    ("search", {"query": "x\0"}),
    ("search", {"query": "x", "limit": 0}),
    ("search", {"query": "x", "limit": 1000}),
    ("search", {"query": "x", "organization": "other"}),
    ("search", {"query": "x", "repository": ""}),
    ("index", {}),
    ("index", {"path": ""}),
    ("index", {"path": "a\0b"}),
    ("index", {"path": "project", "repository": "x" * 600}),
]


@pytest.mark.parametrize(("route", "body"), BAD)
async def test_bad_requests_are_refused(org: Organization, route: str, body: Any) -> None:
    assert problem(await org.ada.post(f"/api/retrieval/{route}", body))["status"] == 400


async def test_a_directory_that_is_not_there_is_not_found(org: Organization) -> None:
    for path in ("nowhere", "project/README", "x" * 300):
        assert problem(await org.ada.post("/api/retrieval/index", {"path": path}))["status"] == 404
