"""Sessions over REST, against a listening server."""

import asyncio
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Message,
    NewSession,
    NewTurn,
    Repo,
    Session,
    SessionPatch,
    SessionStatus,
    Store,
    TextContent,
    TurnAnswer,
)
from holdfast.model.principal import LOCAL
from holdfast.server import shapes
from tests.server.servers import (
    ON_BOTH_ENGINES,
    Organization,
    Person,
    Served,
    decoded,
    owner_of,
    problem,
    project,
)
from tests.waiting import SECONDS, until


async def started(person: Person, repo: dict[str, Any] | None = None) -> dict[str, Any]:
    """A session with the demo agent, created over REST."""
    repo_id = (repo or await project(person))["id"]
    response = await person.post("/api/sessions", {"repoId": repo_id, "agent": "demo"})
    assert response.status_code == 201, response.text
    session: dict[str, Any] = response.json()
    return session


async def until_ended(person: Person, session_id: str, turn_id: str) -> dict[str, Any]:
    async with asyncio.timeout(SECONDS):
        since = 0
        while True:
            changes = (await person.get(f"/api/sessions/{session_id}/events?since={since}&wait=10")).json()
            since = changes["rev"]
            for turn in changes["turns"]:
                if turn["id"] == turn_id and turn["status"] != "pending":
                    return dict(turn)


@ON_BOTH_ENGINES
@pytest.mark.req("SES-18")
async def test_a_session_is_created_in_a_repository(served: Served, org: Organization) -> None:
    repo = await org.project()
    response = await org.ada.post("/api/sessions", {"repoId": repo["id"], "agent": "demo", "title": "Try"})
    session = decoded(response, shapes.Session)
    assert response.status_code == 201
    assert response.headers["location"] == f"/api/sessions/{session.id}"
    assert (session.repo_id, session.status, session.title) == (repo["id"], "active", "Try")
    assert datetime.fromisoformat(session.created_at) <= datetime.now(UTC)
    assert session.created_at.endswith("Z")
    assert session.repo is not None
    assert session.repo.name == "project"
    await org.ada.call("DELETE", f"/api/sessions/{session.id}")


async def test_a_session_needs_a_known_repository_and_a_known_agent(org: Organization) -> None:
    unknown = "01a1e252-d321-7308-bdae-db93e6f71518"
    assert problem(await org.ada.post("/api/sessions", {"repoId": unknown, "agent": "demo"}))["status"] == 404
    repo = await org.project()
    assert problem(await org.ada.post("/api/sessions", {"repoId": repo["id"], "agent": "x"}))["status"] == 404
    missing = await org.ada.post("/api/sessions", {"repoId": repo["id"], "agent": "goose"})
    assert problem(missing)["code"] == "agent_not_installed"
    assert (await org.ada.get("/api/sessions")).json()["total"] == 0


@pytest.mark.req("SES-11", "SES-13")
async def test_a_repository_outside_the_workspace_is_refused_and_audited(
    store: Store, org: Organization
) -> None:
    outside = [Repo(name="passwd", path="../../../../etc"), Repo(name="etc", path="/etc")]
    for repo in await store.as_principal(org.ada.principal).save_repos(outside):
        assert repo.id is not None
        await store.as_principal(org.admin.principal).open_repo(repo.id, for_members=True)
        refused = await org.ada.post("/api/sessions", {"repoId": repo.id, "agent": "demo"})
        assert (problem(refused)["status"], problem(refused)["code"]) == (403, "outside_workspace")
    audit = decoded(await org.admin.get("/api/audit"), shapes.Audit)
    denied = [entry for entry in audit.entries if entry.outcome == "denied"]
    assert [(entry.user, entry.subject) for entry in denied] == [("ada", "/etc"), ("ada", "../../../../etc")]


@ON_BOTH_ENGINES
@pytest.mark.req("SES-21", "SES-14", "SES-15")
async def test_a_prompt_is_accepted_at_once_and_answered_in_its_turn(org: Organization) -> None:
    session = await started(org.ada, await org.project())
    response = await org.ada.post(f"/api/sessions/{session['id']}/prompt", {"text": "Say hello"})
    accepted = decoded(response, shapes.Accepted)
    assert (response.status_code, accepted.turn.status, accepted.session_id) == (
        202,
        "pending",
        session["id"],
    )
    turn = await until_ended(org.ada, session["id"], accepted.turn.id)
    assert turn["status"] == "completed"
    messages = (await org.ada.get(f"/api/sessions/{session['id']}/messages")).json()["messages"]
    assert messages[0]["role"] == "user"
    assert messages[0]["content"] == {"type": "text", "text": "Say hello"}
    said = [each["content"] for each in messages if each["role"] == "agent"]
    assert said
    assert all(content.get("partial") is False for content in said if content["type"] == "text")
    await org.ada.call("DELETE", f"/api/sessions/{session['id']}")


@pytest.mark.req("SES-21")
async def test_a_session_that_has_ended_takes_no_prompt(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    await view.patch(session.id, SessionPatch(status=SessionStatus.COMPLETED))
    refused = await org.ada.post(f"/api/sessions/{session.id}/prompt", {"text": "more"})
    assert (problem(refused)["status"], problem(refused)["sessionStatus"]) == (409, "completed")
    assert await view.last_turn(session.id) is None


@ON_BOTH_ENGINES
@pytest.mark.req("SES-23", "SES-06")
async def test_deleting_cancels_the_session_and_ends_its_agent(org: Organization) -> None:
    session = await started(org.ada, await org.project())
    response = await org.ada.call("DELETE", f"/api/sessions/{session['id']}")
    assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    messages = (await org.ada.get(f"/api/sessions/{session['id']}/messages")).json()["messages"]
    assert messages[-1]["role"] == "system"
    refused = await org.ada.post(f"/api/sessions/{session['id']}/prompt", {"text": "more"})
    assert problem(refused)["sessionStatus"] == "cancelled"


async def test_purging_deletes_a_session_and_its_messages(
    store: Store, org: Organization, session: Session
) -> None:
    response = await org.ada.call("DELETE", f"/api/sessions/{session.id}?purge=true")
    assert (response.status_code, response.json()["id"]) == (200, session.id)
    assert problem(await org.ada.get(f"/api/sessions/{session.id}"))["status"] == 404


@ON_BOTH_ENGINES
async def test_a_cancelled_session_is_resumed_and_a_completed_one_is_forked(org: Organization) -> None:
    session = await started(org.ada, await org.project())
    path = f"/api/sessions/{session['id']}"
    await org.ada.call("DELETE", path)
    assert (await org.ada.post(f"{path}/resume")).json()["status"] == "active"
    assert (await org.ada.post(f"{path}/complete")).json()["status"] == "completed"
    forked = await org.ada.post(f"{path}/fork")
    assert (forked.status_code, forked.json()["custom"]["forkedFrom"]["session"]) == (201, session["id"])
    await org.ada.call("DELETE", f"/api/sessions/{forked.json()['id']}")


@pytest.mark.usefixtures("process")
async def test_a_session_is_resumed_after_its_server_was_killed(
    tmp_path: Path, own_store: dict[str, str]
) -> None:
    served = Served(tmp_path, **own_store)
    served.repository()
    served.start()
    session = await started(owner_of(served))
    path = f"/api/sessions/{session['id']}"
    done = (await owner_of(served).post(f"{path}/prompt", {"text": "say before"})).json()["turn"]["id"]
    await until_ended(owner_of(served), session["id"], done)
    running = (await owner_of(served).post(f"{path}/prompt", {"text": "say more\nwait"})).json()["turn"]["id"]
    served.stop(signal.SIGKILL)
    served.start()
    try:
        person = owner_of(served)
        ended = (await person.get(path)).json()
        assert (ended["status"], ended["statusReason"]) == ("cancelled", "server_restart")
        statuses = {
            turn["id"]: turn["status"] for turn in (await person.get(f"{path}/turns")).json()["turns"]
        }
        assert statuses == {done: "completed", running: "failed"}
        assert problem(await person.post(f"{path}/prompt", {"text": "say more"}))["status"] == 409
        assert (await person.post(f"{path}/resume")).json()["status"] == "active"
        accepted = (await person.post(f"{path}/prompt", {"text": "say after"})).json()
        turn = await until_ended(person, session["id"], accepted["turn"]["id"])
        assert (turn["sequenceNumber"], turn["agentAnswerSummary"]) == (3, "after ")
    finally:
        assert served.stop() == 0


@pytest.mark.usefixtures("process")
@pytest.mark.req("SES-24", "SES-25")
async def test_at_the_limit_no_more_sessions_are_created_until_one_has_ended(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    served = Served(tmp_path_factory.mktemp("limited"), AGENT_MAX_SESSIONS="1")
    served.repository()
    served.start()
    try:
        person = Person(served.url, LOCAL, served.presence.token)
        session = await started(person)
        refused = await person.post("/api/sessions", {"repoId": session["repoId"], "agent": "demo"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        assert problem(refused)["retryAfter"] == 60
        assert "limit" in problem(refused)["detail"]
        await person.call("DELETE", f"/api/sessions/{session['id']}")
        again = await person.post("/api/sessions", {"repoId": session["repoId"], "agent": "demo"})
        assert again.status_code == 201
    finally:
        assert served.stop() == 0


@ON_BOTH_ENGINES
@pytest.mark.req("SES-08", "SES-19")
async def test_a_list_gives_the_newest_first_in_pages_of_twenty(store: Store, org: Organization) -> None:
    view = store.as_principal(org.ada.principal)
    created = [await view.create_session(NewSession(title=str(number))) for number in range(25)]
    await view.append_messages(created[0].id, [Message.user("activity does not change the order")])
    page = decoded(await org.ada.get("/api/sessions"), shapes.SessionPage)
    assert [each.title for each in page.sessions] == [str(number) for number in range(24, 4, -1)]
    assert (page.total, page.limit, page.offset) == (25, 20, 0)
    assert all(each.messages is None for each in page.sessions)
    rest = decoded(await org.ada.get("/api/sessions", params={"before": page.next}), shapes.SessionPage)
    assert [each.title for each in rest.sessions] == ["4", "3", "2", "1", "0"]
    assert rest.next is None
    middle = decoded(await org.ada.get("/api/sessions?limit=2&offset=3"), shapes.SessionPage)
    assert ([each.title for each in middle.sessions], middle.total) == (["21", "20"], 25)


@pytest.mark.req("SES-09", "SES-10", "SES-19")
async def test_a_list_is_filtered_by_repository_status_agent_and_title(
    store: Store, org: Organization
) -> None:
    view = store.as_principal(org.ada.principal)
    repos = await view.save_repos([Repo(name="a", path="/a"), Repo(name="b", path="/b")])
    for repo in repos:
        for number, status in enumerate(("active", "completed", "error")):
            new = NewSession(repo_id=repo.id, title=f"{repo.name} 100% {number}", agent=f"agent-{number}")
            session = await view.create_session(new)
            await view.patch(session.id, SessionPatch(status=SessionStatus(status)))

    async def titles(query: str) -> set[str | None]:
        page = decoded(await org.ada.get(f"/api/sessions?{query}"), shapes.SessionPage)
        assert page.total == len(page.sessions)
        return {each.title for each in page.sessions}

    assert await titles(f"repoId={repos[0].id}") == {"a 100% 0", "a 100% 1", "a 100% 2"}
    assert await titles("status=error") == {"a 100% 2", "b 100% 2"}
    assert await titles(f"status=active,completed&repoId={repos[1].id}") == {"b 100% 0", "b 100% 1"}
    assert await titles("agent=agent-1") == {"a 100% 1", "b 100% 1"}
    assert await titles("q=B%20100%25") == {"b 100% 0", "b 100% 1", "b 100% 2"}
    assert await titles("q=_") == set()
    unknown = await org.ada.get("/api/sessions?repoId=01a1e252-d321-7308-bdae-db93e6f71518")
    assert problem(unknown)["status"] == 404
    assert problem(await org.ada.get("/api/sessions?status=busy"))["status"] == 400


@ON_BOTH_ENGINES
async def test_a_search_gives_the_message_that_was_found_and_only_of_the_callers_own_sessions(
    store: Store, org: Organization, other: Organization
) -> None:
    everybody = (org.ada, org.bob, org.admin, other.ada)
    ids = {}
    for person in everybody:
        view = store.as_principal(person.principal)
        session = await view.create_session(NewSession(title=person.principal.user))
        said = [Message.user("Hello"), Message.agent("The <b>Stripe</b> webhook failed"), Message.user("Oh")]
        await view.append_messages(session.id, said)
        ids[person] = session.id

    async def found(person: Person, query: str) -> list[str]:
        async def all_is_read() -> shapes.SessionPage | None:
            page = decoded(await person.get(f"/api/sessions?{query}"), shapes.SessionPage)
            return None if page.unread else page

        page = await until(all_is_read)  # a search answers before that, if reading takes long
        assert (page.is_all, page.total) == (True, len(page.sessions))
        return [each.id for each in page.sessions]

    assert await found(org.ada, "q=stripe%20webh") == [ids[org.ada]]
    assert await found(org.bob, "q=stripe%20webh") == [ids[org.bob]]
    assert await found(other.ada, "q=stripe%20webh") == [ids[other.ada]]
    assert await found(other.bob, "q=stripe%20webh") == []
    assert set(await found(org.admin, "q=stripe")) == {ids[org.ada], ids[org.bob], ids[org.admin]}
    assert await found(org.ada, "q=stripe&status=completed") == []
    assert await found(org.ada, "q=stripe&agent=another") == []
    (session,) = (await org.ada.get("/api/sessions?q=webh")).json()["sessions"]
    message = (await org.ada.get(f"/api/sessions/{ids[org.ada]}/messages")).json()["messages"][1]
    assert session["match"] == {
        "messageId": message["id"],
        "seq": 2,
        "snippet": [{"text": "The <b>Stripe</b> "}, {"text": "webhook", "hit": True}, {"text": " failed"}],
    }
    (titled,) = (await org.ada.get("/api/sessions?q=ADA")).json()["sessions"]
    assert "match" not in titled


@ON_BOTH_ENGINES
@pytest.mark.req("SES-20", "SES-03")
async def test_a_session_comes_with_its_repository_and_all_its_messages(
    store: Store, org: Organization
) -> None:
    view = store.as_principal(org.ada.principal)
    (repo,) = await view.save_repos([Repo(name="r", path="/r", branch="main")])
    created = await view.create_session(NewSession(repo_id=repo.id))
    texts = [f'{number} \n"quoted" 🦀' for number in range(2500)]
    await view.append_messages(created.id, [Message.user(text) for text in texts])
    session = decoded(await org.ada.get(f"/api/sessions/{created.id}"), shapes.Session)
    assert session.repo == shapes.Repo(id=str(repo.id), name="r", path="/r", branch="main")
    assert [each.content["text"] for each in session.messages] == texts
    latest = decoded(await org.ada.get(f"/api/sessions/{created.id}?messages=latest"), shapes.Session)
    assert [each.seq for each in latest.messages] == list(range(2451, 2501))
    bare = decoded(await org.ada.get(f"/api/sessions/{created.id}?messages=none"), shapes.Session)
    assert (bare.messages, bare.message_count) == (None, 2500)
    unknown = await org.ada.get("/api/sessions/01a1e252-d321-7308-bdae-db93e6f71518")
    assert problem(unknown)["code"] == "session_not_found"


@ON_BOTH_ENGINES
@pytest.mark.req("SES-22")
async def test_messages_come_in_order_and_since_a_time(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    moments = [noon + timedelta(minutes=number) for number in range(10)]
    await view.append_messages(session.id, [Message.user(m.isoformat(), timestamp=m) for m in moments])
    path = f"/api/sessions/{session.id}/messages"

    async def seqs(query: str) -> tuple[list[int], int | None]:
        page = decoded(await org.ada.get(path + query), shapes.MessagePage)
        return [each.seq for each in page.messages], page.next

    assert await seqs("") == (list(range(1, 11)), None)
    assert await seqs("?since=2026-01-01T12:06:00.000Z") == ([8, 9, 10], None)
    assert await seqs("?limit=4") == ([1, 2, 3, 4], 4)
    assert await seqs("?limit=4&after=4") == ([5, 6, 7, 8], 8)
    assert await seqs("?limit=4&after=8") == ([9, 10], None)
    assert await seqs("?limit=4&before=11") == ([7, 8, 9, 10], 7)
    assert await seqs("?limit=4&before=3") == ([1, 2], None)


async def test_a_session_is_patched_completed_and_archived(org: Organization, session: Session) -> None:
    path = f"/api/sessions/{session.id}"
    body = {"title": "New", "custom": {"a": 1, "b": {"c": 2}}, "metadata": {"m": True}, "isPublic": True}
    patched = decoded(await org.ada.call("PATCH", path, json=body), shapes.Session)
    assert (patched.title, patched.is_public) == ("New", True)
    assert patched.custom == {"a": 1, "b": {"c": 2}, "metadata": {"m": True}}
    cleared = await org.ada.call("PATCH", path, json={"title": None, "custom": {"a": None}})
    assert (cleared.json()["title"], cleared.json()["custom"]) == (
        None,
        {"b": {"c": 2}, "metadata": {"m": True}},
    )
    assert (await org.ada.call("PATCH", path, json={"status": "completed"})).json()["status"] == "completed"
    assert (await org.ada.call("PATCH", path, json={"status": "archived"})).json()["status"] == "archived"
    refused = await org.ada.post(f"{path}/prompt", {"text": "more"})
    assert problem(refused)["sessionStatus"] == "archived"


async def test_a_patch_is_done_whole_or_not_at_all(org: Organization, session: Session) -> None:
    path = f"/api/sessions/{session.id}"
    await org.ada.call("DELETE", path)
    refused = await org.ada.call("PATCH", path, json={"title": "after", "status": "completed"})
    assert problem(refused)["sessionStatus"] == "cancelled"
    assert (await org.ada.get(path)).json()["title"] == "Ada's"
    entries = decoded(await org.admin.get("/api/audit"), shapes.Audit).entries
    assert "session.change" not in [entry.action for entry in entries]


async def test_turns_are_listed_summed_up_and_found(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    path = f"/api/sessions/{session.id}/turns"
    assert problem(await org.ada.get(f"{path}/last"))["status"] == 404
    first = await view.add_turn(session.id, NewTurn(instruction_summary="one", openai_model="m"))
    await view.complete_turn(
        session.id, first.id, TurnAnswer(agent_answer_summary="1", openai_response_id="r")
    )
    second = await view.add_turn(session.id, NewTurn(instruction_summary="two"))
    turns = decoded(await org.ada.get(path), shapes.Turns)
    assert [(turn.sequence_number, turn.status) for turn in turns.turns] == [(1, "completed"), (2, "pending")]
    raw = (await org.ada.get(f"{path}/{first.id}")).json()
    assert (raw["openAIResponseId"], raw["openAIModel"], raw["chunkRefs"]) == ("r", "m", [])
    assert (await org.ada.get(f"{path}/last")).json()["id"] == second.id
    summary = (await org.ada.get(f"{path}/{first.id}/summary")).json()
    assert (summary["instructionSummary"], summary["agentAnswerSummary"]) == ("one", "1")
    page = decoded(await org.ada.get(f"{path}?limit=1"), shapes.Turns)
    assert ([turn.id for turn in page.turns], page.next) == ([first.id], 1)
    assert problem(await org.ada.get(f"{path}/{session.id}"))["status"] == 404


async def test_a_long_session_is_compacted_and_expanded_again(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    path = f"/api/sessions/{session.id}"
    assert (await org.ada.post(f"{path}/compact")).json() == {"compaction": None}
    long = TextContent(text="word " * 50)
    said = [Message.of(role, long) for _ in range(40) for role in ("user", "agent")]
    await view.append_messages(session.id, said)
    compacted = await org.ada.post(f"{path}/compact", {"strategy": "summarize"})
    done = decoded(compacted, shapes.Compacted).compaction
    assert done is not None
    assert done.tokens_after < done.tokens_before
    assert (await org.ada.get(path)).json()["messageCount"] == 80
    undone = await org.ada.post(f"{path}/compactions/{done.id}/undo")
    assert undone.json()["undoneAt"]
    unknown = await org.ada.post(f"{path}/compact", {"strategy": "magic"})
    assert problem(unknown)["status"] == 400


async def test_a_prompt_without_an_agent_is_a_conflict(org: Organization, session: Session) -> None:
    refused = await org.ada.post(f"/api/sessions/{session.id}/prompt", {"text": "hello"})
    assert problem(refused)["code"] == "agent_not_running"
    bodies = {
        "cancel": {},
        "mode": {"mode": "x"},
        "model": {"model": "x"},
        "config": {"configId": "x", "value": 1},
    }
    for action, body in bodies.items():
        assert problem(await org.ada.post(f"/api/sessions/{session.id}/{action}", body))["status"] == 409
