"""The locks: who is let in, from where, and what is written down about those who are not."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast import Message, NewSession, Session, SessionPatch, Store, open_store
from holdfast.errors import StoreUnavailable
from holdfast.model.principal import LOCAL, Principal
from holdfast.model.question import Answer, NewQuestionSet, Option, Question
from holdfast.questions import QuestionBox
from holdfast.server import shapes
from holdfast.server.doorkeeper import Doorkeeper, Unauthenticated
from holdfast.server.inbox import Inbox
from tests.server.servers import Organization, Person, Served, decoded, owner_of, problem
from tests.waiting import SECONDS, until

OF_THE_PAGE = {"X-Holdfast-Page": "1"}

ANY_ID = "01a1e252-d321-7308-bdae-db93e6f71518"

OPEN = {("get", "/healthz"), ("get", "/sign-in")}
ADMINS = {
    ("get", "/metrics"),
    ("get", "/api/audit"),
    ("get", "/api/tokens"),
    ("post", "/api/tokens"),
    ("delete", "/api/tokens/{id}"),
}
BODIES: dict[str, Any] = {
    "/api/sessions": {"repoId": ANY_ID},
    "/api/sessions/{id}/prompt": {"text": "hello"},
    "/api/sessions/{id}/mode": {"mode": "m"},
    "/api/sessions/{id}/model": {"model": "m"},
    "/api/sessions/{id}/config": {"configId": "c", "value": True},
    "/api/questions/{id}/answer": {"answers": [{"questionIndex": 0, "customText": "x"}]},
    "/api/tokens": {"user": "u"},
}


async def routes(person: Person) -> list[tuple[str, str]]:
    """Every method and path that the server says it has."""
    paths = (await person.get("/api/openapi.json")).json()["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods]


def writes(method: str, path: str) -> bool:
    """Whether a route changes a session that it names. A copy may be made by whoever may read it."""
    return path.startswith("/api/sessions/{id}") and method != "get" and not path.endswith("/fork")


async def call(client: httpx2.AsyncClient, method: str, path: str, named: str = ANY_ID) -> httpx2.Response:
    body = None
    if method in ("post", "patch"):
        body = BODIES.get(path, {"title": "stolen"} if method == "patch" else {})
    url = path.replace("{id}", named).replace("{turnId}", ANY_ID).replace("{compactionId}", ANY_ID)
    return await client.request(
        method, url, json=body, params={"wait": 0} if path.endswith("/events") else None
    )


async def test_nobody_gets_in_anywhere(served: Served, org: Organization) -> None:
    async with httpx2.AsyncClient(base_url=served.url) as nobody:
        for method, path in await routes(org.admin):
            if (method, path) not in OPEN:
                response = await call(nobody, method, path)
                assert (response.status_code, path) == (401, path)
                assert response.headers["www-authenticate"] == "Bearer"
                problem(response)
        assert (await nobody.get("/nowhere")).status_code == 401


async def test_a_session_of_another_organization_or_user_is_not_there(
    org: Organization, other: Organization, session: Session
) -> None:
    for stranger in (other.admin, other.ada, org.bob):
        async with stranger.client() as client:
            for method, path in await routes(stranger):
                if path.startswith("/api/sessions/{id}"):
                    response = await call(client, method, path, session.id)
                    assert (response.status_code, method, path) == (404, method, path)
                    assert "Ada" not in response.text
            assert (await client.get("/api/sessions")).json()["total"] == 0
            assert (await client.get("/api/events?since=0&wait=0")).json()["sessions"] == []
    assert (await org.admin.get(f"/api/sessions/{session.id}")).json()["title"] == "Ada's"


async def test_who_asks_for_anothers_session_is_on_record_and_who_mistypes_is_not(
    org: Organization, other: Organization, session: Session
) -> None:
    for stranger, admin in ((other.ada, other.admin), (org.bob, org.admin)):
        assert (await stranger.get(f"/api/sessions/{session.id}/messages")).status_code == 404
        assert (await stranger.get(f"/api/sessions/{ANY_ID}")).status_code == 404
        (denied,) = await until(partial(denials, admin))
        assert (denied.user, denied.subject) == (
            stranger.principal.user,
            f"/api/sessions/{session.id}/messages",
        )
        assert denied.detail["code"] == "session_not_found"


async def denials(admin: Person) -> list[shapes.AuditEntry]:
    entries = decoded(await admin.get("/api/audit"), shapes.Audit).entries
    return [entry for entry in entries if entry.outcome == "denied"]


async def test_a_public_session_is_read_by_colleagues_and_written_by_its_owner(
    store: Store, org: Organization, other: Organization, session: Session
) -> None:
    await store.as_principal(org.ada.principal).patch(session.id, SessionPatch(is_public=True))
    path = f"/api/sessions/{session.id}"
    assert (await org.bob.get(path)).status_code == 200
    tried = [("delete", f"{path}?purge=true"), *(each for each in await routes(org.bob) if writes(*each))]
    async with org.bob.client() as bob:
        for method, place in tried:
            answer = await call(bob, method, place, session.id)
            assert (answer.status_code, method, place) == (403, method, place)
    assert problem(await other.ada.get(path))["status"] == 404
    denied = await denials(org.admin)
    assert [entry.user for entry in denied] == ["bob"] * len(tried)
    assert all(session.id in entry.detail["reason"] for entry in denied)


async def test_who_may_only_read_a_session_does_not_lead_its_agent(
    served: Served, org: Organization, store: Store
) -> None:
    repo = await org.project()
    made = await org.ada.post("/api/sessions", {"repoId": repo["id"], "agent": "demo"})
    path = f"/api/sessions/{made.json()['id']}"
    assert (await org.ada.call("PATCH", path, json={"isPublic": True})).status_code == 200
    before = (await org.ada.get(path)).json()
    async with org.bob.client() as bob:
        for method, place in await routes(org.bob):
            if writes(method, place):
                answer = await call(bob, method, place, made.json()["id"])
                assert (answer.status_code, method, place) == (403, method, place)
        assert (await bob.delete(f"{path}?purge=true")).status_code == 403
    assert (await org.ada.get(path)).json() == before
    # A session's id is the same in capital letters, and so is its agent.
    purged = await org.ada.call("DELETE", f"/api/sessions/{made.json()['id'].upper()}?purge=true")
    assert purged.json()["status"] == "cancelled"
    assert (await org.ada.get(path)).status_code == 404
    entries = decoded(await org.admin.get("/api/audit"), shapes.Audit).entries
    changes = [entry.detail for entry in entries if entry.action == "session.change"]
    assert changes == [{"fields": ["isPublic"]}]


async def test_members_are_kept_out_of_what_is_for_admins(org: Organization) -> None:
    async with org.ada.client() as client:
        for method, path in ADMINS:
            assert problem(await call(client, method, path))["status"] == 403
    assert len(await denials(org.admin)) == len(ADMINS)


async def test_tokens_are_made_used_and_revoked(
    served: Served, org: Organization, other: Organization
) -> None:
    made = decoded(await org.admin.post("/api/tokens", {"user": "cleo", "label": "laptop"}), shapes.NewToken)
    cleo = Person(served.url, org.ada.principal, made.secret)
    assert (await cleo.get("/api/me")).json() == {"organization": org.name, "user": "cleo", "role": "member"}
    listed = await org.admin.get("/api/tokens")
    assert made.secret not in listed.text
    assert made.token.id in [token.id for token in decoded(listed, shapes.Tokens).tokens]
    path = f"/api/tokens/{made.token.id}"
    assert problem(await other.admin.call("DELETE", path))["status"] == 404
    assert (await org.admin.call("DELETE", path)).json()["revokedAt"]
    assert "revoked" in problem(await cleo.get("/api/me"))["detail"]
    expired = await org.admin.post("/api/tokens", {"user": "c", "expiresAt": "2020-01-01T00:00:00Z"})
    late = Person(served.url, org.ada.principal, expired.json()["secret"])
    assert "expired" in problem(await late.get("/api/me"))["detail"]
    actions = [entry["action"] for entry in (await org.admin.get("/api/audit")).json()["entries"]]
    assert actions.count("token.create") == 2
    assert actions.count("token.revoke") == 1


@pytest.mark.usefixtures("process")
async def test_a_wrong_token_opens_nothing_however_often_it_is_tried(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        async with httpx2.AsyncClient(base_url=served.url) as client:
            for secret in ("hf_wrong", "a.b.c", "\xe9", "x" * 5000):
                guess = {b"Authorization": b"Bearer " + secret.encode("latin-1")}
                assert problem(await client.get("/api/me", headers=guess))["code"] == "unauthenticated"
            for _ in range(25):
                guessed = await client.get("/api/me", headers={"Authorization": "Bearer guess"})
                assert guessed.status_code == 401
        owner = Person(served.url, LOCAL, served.presence.token)
        entries = decoded(await owner.get("/api/audit"), shapes.Audit).entries
        assert {(entry.user, entry.outcome) for entry in entries} == {("nobody", "denied")}
        assert len(entries) <= 21
    finally:
        served.stop()


async def test_the_sign_in_link_works_once_and_gives_a_cookie_for_the_page(served: Served) -> None:
    person = Person(served.url, LOCAL, served.presence.token)
    link = await link_of(person)
    async with httpx2.AsyncClient(base_url=served.url) as browser:
        signed_in = await browser.get(link)
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/")
        cookie = signed_in.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await browser.get("/api/me")).json()["user"] == "local"
        forged = problem(await browser.post("/api/repos/scan"))
        assert (forged["code"], forged["status"]) == ("cross_site", 403)
        assert (await browser.post("/api/repos/scan", headers=OF_THE_PAGE)).status_code == 200
        ((name, secret),) = browser.cookies.items()
        assert name.startswith("holdfast-")
        assert (await browser.post("/api/sign-out", headers=OF_THE_PAGE)).status_code == 200
    async with httpx2.AsyncClient(base_url=served.url, cookies={name: secret}) as thief:
        assert problem(await thief.get("/api/me"))["status"] == 401
    async with httpx2.AsyncClient() as stranger:
        assert problem(await stranger.get(link))["status"] == 401


async def link_of(person: Person | httpx2.AsyncClient) -> str:
    answer = await person.post("/api/sign-in-links", headers=OF_THE_PAGE)
    link: str = decoded(answer, shapes.SignInLink).url
    return link


@asynccontextmanager
async def browser_of(person: Person | httpx2.AsyncClient, url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """The same person in a browser, by a link."""
    async with httpx2.AsyncClient(base_url=url) as browser:
        assert (await browser.get(await link_of(person))).status_code == 303
        yield browser


@pytest.mark.req("SEC-16")
async def test_what_a_browser_keeps_is_no_token_and_a_token_is_no_cookie(served: Served) -> None:
    """A browser shows a cookie to every port of a host."""
    owner = owner_of(served)
    async with browser_of(owner, served.url) as browser:
        ((name, secret),) = browser.cookies.items()
    thief = Person(served.url, owner.principal, secret)
    assert problem(await thief.get("/api/me"))["status"] == 401
    async with httpx2.AsyncClient(base_url=served.url, cookies={name: owner.secret}) as other:
        assert problem(await other.get("/api/me"))["status"] == 401


@pytest.mark.req("SEC-16")
@pytest.mark.usefixtures("process")
async def test_two_servers_of_one_host_have_cookies_of_their_own(served: Served, tmp_path: Path) -> None:
    second = Served(tmp_path)
    second.start()
    try:
        async with httpx2.AsyncClient() as browser:
            for server in (served, second):
                await browser.get(await link_of(owner_of(server)))
            assert len(browser.cookies) == 2
            for server in (served, second):
                assert (await browser.get(f"{server.url}/api/me")).json()["user"] == "local"
    finally:
        second.stop()


@pytest.mark.req("SEC-15")
async def test_a_sign_in_link_goes_with_the_token_that_made_it(served: Served, org: Organization) -> None:
    made = decoded(await org.admin.post("/api/tokens", {"user": "dora"}), shapes.NewToken)
    link = await link_of(Person(served.url, org.ada.principal, made.secret))
    await org.admin.call("DELETE", f"/api/tokens/{made.token.id}")
    async with httpx2.AsyncClient() as browser:
        refused = await browser.get(link)
        assert "was revoked" in problem(refused)["detail"]
        assert "set-cookie" not in refused.headers


@pytest.mark.req("SEC-15")
async def test_at_every_use_of_a_cookie_its_parent_is_looked_at(tmp_path: Path) -> None:
    ada = Principal("acme", "ada")
    file = tmp_path / "holdfast.db"
    async with open_store(f"sqlite:///{file}") as store:
        doorkeeper = Doorkeeper(store)
        _, secret = await doorkeeper.issue(ada, "a token")
        code = await doorkeeper.sign_in_code_of(await doorkeeper.admit(secret, None))
        _, cookie = await doorkeeper.redeem(code)
        assert (await doorkeeper.admit(None, cookie)).principal == ada
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            database.execute("UPDATE tokens SET revoked_at = 1 WHERE label = 'a token'")
        with pytest.raises(Unauthenticated, match="was revoked"):
            await Doorkeeper(store).admit(None, cookie)


@pytest.mark.req("SEC-15")
async def test_who_signed_in_with_a_token_goes_when_it_goes(served: Served, org: Organization) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="milliseconds")
    made = await org.admin.post("/api/tokens", {"user": "cleo", "expiresAt": soon.replace("+00:00", "Z")})
    token = decoded(made, shapes.NewToken)
    cleo = Person(served.url, org.ada.principal, token.secret)
    async with browser_of(cleo, served.url) as browser, browser_of(browser, served.url) as again:
        for each in (browser, again):  # a browser can pass it on, and not for longer
            assert (await each.get("/api/me")).json()["user"] == "cleo"
        listed = decoded(await org.admin.get("/api/tokens"), shapes.Tokens).tokens
        given = [each for each in listed if each.user == "cleo"]
        assert [each.expires_at for each in given] == [token.token.expires_at] * 3
        await org.admin.call("DELETE", f"/api/tokens/{token.token.id}")
        for person in (cleo, browser, again):
            assert "revoked" in problem(await person.get("/api/me"))["detail"]
    entries = decoded(await org.admin.get("/api/audit"), shapes.Audit).entries
    actions = Counter(entry.action for entry in entries if entry.user == "cleo")
    assert (actions["sign_in.link"], actions["sign_in"]) == (2, 2)


async def test_a_sign_in_link_is_not_followed_from_another_site(served: Served) -> None:
    """It would have somebody work in another's name without noticing."""
    person = Person(served.url, LOCAL, served.presence.token)
    link = (await person.post("/api/sign-in-links")).json()["url"]
    async with httpx2.AsyncClient(base_url=served.url) as browser:
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        refused = await browser.get(link, headers=headers)
        assert (problem(refused)["code"], "set-cookie" in refused.headers) == ("cross_site", False)
        typed = await browser.get(link, headers=headers | {"Sec-Fetch-Site": "none"})
        assert typed.status_code == 303


@pytest.mark.usefixtures("process")
async def test_behind_a_proxy_links_and_cookies_are_those_of_the_public_address(tmp_path: Path) -> None:
    served = Served(tmp_path, HOLDFAST_SERVER_PUBLIC_URL="https://holdfast.example.org")
    served.start()
    try:
        owner = Person(served.url, LOCAL, served.presence.token)
        proxied = {"Host": "holdfast.example.org", "Origin": "https://holdfast.example.org"}
        for headers in (proxied, {}):  # a proxy need not pass the name on
            link = (await owner.post("/api/sign-in-links")).json()["url"]
            assert link.startswith("https://holdfast.example.org/sign-in?code=")
            async with httpx2.AsyncClient(base_url=served.url, headers=headers) as browser:
                signed_in = await browser.get(link.removeprefix("https://holdfast.example.org"))
            assert signed_in.status_code == 303
            cookie = signed_in.headers["set-cookie"]
            assert cookie.startswith("__Host-holdfast-")
            assert "; secure" in cookie.lower()
        assert "https://holdfast.example.org/sign-in?code=" in served.printed
        # A proxy that does not pass the name on calls the server by its own.
        page = {"Origin": "https://holdfast.example.org", "Sec-Fetch-Site": "same-origin"}
        assert (await owner.get("/api/me", headers=page)).status_code == 200
    finally:
        served.stop()


@pytest.mark.parametrize("foreign", ['a={"x":1}', "foo[bar]=1", "a=b c", "n\xe4me=1", "=", "a"])
async def test_the_cookie_is_found_among_those_of_other_programs(served: Served, foreign: str) -> None:
    """A browser sends the cookies of every port of a host."""
    async with browser_of(owner_of(served), served.url) as browser:
        ((name, secret),) = browser.cookies.items()
    async with httpx2.AsyncClient(base_url=served.url) as browser:
        for cookies in (f"{foreign}; {name}={secret}", f"{name}={secret};{foreign}"):
            answer = await browser.get("/api/me", headers={b"Cookie": cookies.encode("latin-1")})
            assert answer.json()["user"] == "local"


@pytest.mark.usefixtures("process")
async def test_what_any_page_can_cause_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        async with httpx2.AsyncClient(base_url=served.url) as page:
            for headers in ({"Origin": "https://evil.example"}, {"Host": "x" * 20_000}):
                for _ in range(30):
                    assert (await page.get("/healthz", headers=headers)).status_code == 403
        owner = Person(served.url, LOCAL, served.presence.token)
        entries = decoded(await owner.get("/api/audit?limit=1000"), shapes.Audit).entries
        codes = Counter(entry.detail["code"] for entry in entries)
        assert 20 <= codes["cross_site"] <= 22
        assert 20 <= codes["wrong_host"] <= 22
        assert all(len(entry.detail["reason"]) < 300 for entry in entries)
    finally:
        served.stop()


async def test_the_server_is_not_called_by_another_name(served: Served, org: Organization) -> None:
    for host in ("evil.example", "evil.example:4747", "127.0.0.1.evil.example", "", "[::2]"):
        async with org.ada.client(headers={"Host": host}) as client:
            assert problem(await client.get("/api/me"))["code"] == "wrong_host"
            assert problem(await client.get("/"))["code"] == "wrong_host"
    hosts = b"Host: evil.example\r\nHost: localhost\r\n"
    twice = await raw(served, b"GET /healthz HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
    assert b"wrong_host" in twice
    port = served.url.rsplit(":", 1)[1]
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "127.0.0.1"):
        async with org.ada.client(headers={"Host": host}) as client:
            assert (await client.get("/api/me")).status_code == 200


async def test_pages_of_other_sites_are_turned_away(served: Served, org: Organization) -> None:
    refused = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[evil"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ]
    for headers in refused:
        async with org.ada.client(headers=headers) as client:
            assert problem(await client.post("/api/repos/scan", json={}))["code"] == "cross_site"
            assert problem(await client.get("/api/me"))["code"] == "cross_site"
    allowed = [{"Origin": served.url, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]
    for headers in allowed:
        async with org.ada.client(headers=headers) as client:
            assert (await client.get("/api/me")).status_code == 200
    async with httpx2.AsyncClient(base_url=served.url) as browser:
        followed = await browser.get(
            "/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        )
        assert followed.status_code == 200


async def test_every_answer_is_guarded_against_being_misused(served: Served, org: Organization) -> None:
    async with httpx2.AsyncClient(base_url=served.url) as browser:
        page = await browser.get("/")
    api = await org.ada.get("/api/me")
    for response in (page, api):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert "'unsafe" not in page.headers["content-security-policy"]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert api.headers["cache-control"] == "no-store"


TRAVERSALS = (
    "/assets/../../../etc/passwd",
    "/assets/%2e%2e/%2e%2e/etc/passwd",
    "/assets/..%2f..%2fetc/passwd",
    "/assets/..%5c..%5cetc%5cpasswd",
    "/assets/%252e%252e/etc/passwd",
    "/api/sessions/../tokens",
    "/api/sessions/%2e%2e/tokens",
    "/assets/page.js%00.html",
)


@pytest.mark.parametrize("path", TRAVERSALS)
async def test_a_path_that_leads_out_is_refused_and_audited(served: Served, path: str) -> None:
    owner = Person(served.url, LOCAL, served.presence.token)
    refused = await raw(
        served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert refused.startswith(b"HTTP/1.1 403 ")
    assert b"path_traversal" in refused
    entries = decoded(await owner.get("/api/audit?limit=1"), shapes.Audit).entries
    assert (entries[0].user, entries[0].outcome) == ("nobody", "denied")
    assert entries[0].detail["code"] == "path_traversal"


async def raw(served: Served, request: bytes) -> bytes:
    """What the server answers to exactly these bytes."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(SECONDS):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def test_the_servers_own_file_is_for_its_owner_only(served: Served) -> None:
    file = served.data / "server.json"
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert set(json.loads(file.read_text())) == {"url", "pid", "token", "store"}
    assert served.presence.token not in served.printed


@pytest.mark.usefixtures("process")
async def test_without_authentication_the_server_listens_on_loopback_only_and_starts_no_agents(
    tmp_path: Path,
) -> None:
    served = Served(tmp_path, "--no-auth", "--host", "0.0.0.0")
    with pytest.raises(AssertionError, match="loopback only"):
        served.start()
    served.stop()
    served = Served(tmp_path, "--no-auth")
    served.repository()
    served.start()
    try:
        assert "anybody who reaches this port acts as you" in served.printed
        async with httpx2.AsyncClient(base_url=served.url) as anybody:
            assert (await anybody.get("/api/me")).json()["user"] == "local"
            hostile = await anybody.get("/api/me", headers={"Origin": "https://evil.example"})
            assert problem(hostile)["code"] == "cross_site"
            (repo,) = (await anybody.post("/api/repos/scan")).json()["repos"]
            refused = await anybody.post("/api/sessions", json={"repoId": repo["id"], "agent": "demo"})
            assert (refused.status_code, problem(refused)["code"]) == (403, "starts_no_agents")
            assert (await anybody.get("/api/sessions")).json()["total"] == 0
    finally:
        served.stop()


@pytest.mark.usefixtures("process")
async def test_a_user_may_not_call_too_often(tmp_path: Path) -> None:
    served = Served(tmp_path, HOLDFAST_SERVER_REQUESTS_PER_SECOND="1")
    served.start()
    try:
        person = Person(served.url, LOCAL, served.presence.token)
        assert (await person.get("/api/me")).status_code == 200
        # So many at once that even a machine under load receives more of them than are allowed meanwhile.
        responses = await asyncio.gather(*(person.get("/api/me") for _ in range(50)))
        refused = [response for response in responses if response.status_code != 200]
        assert problem(refused[0])["code"] == "too_many_requests"
        assert refused[0].headers["retry-after"] == "1"
    finally:
        served.stop()


async def test_questions_are_seen_and_answered_by_those_of_their_session(
    served: Served, store: Store, org: Organization, other: Organization, session: Session
) -> None:
    box = QuestionBox(served.questions)
    question = Question(prompt="Which?", title="Choice", options=(Option("a"), Option("b")))
    asked = await box.ask(NewQuestionSet(questions=(question,), session_id=session.id, agent="demo"))
    machines = await box.ask(NewQuestionSet(questions=(question,)))
    path = f"/api/questions/{asked.id}"
    body = {"answers": [{"questionIndex": 0, "selectedOption": "a"}]}
    for stranger in (other.admin, org.bob):
        assert (await stranger.get("/api/questions")).json() == {"questions": []}
        for question_set in (asked, machines):
            assert problem(await stranger.get(f"/api/questions/{question_set.id}"))["status"] == 404
            refused = await stranger.post(f"/api/questions/{question_set.id}/answer", body)
            assert problem(refused)["status"] == 404
    (seen,) = decoded(await org.ada.get("/api/questions?status=pending"), shapes.QuestionSets).questions
    assert (seen.id, seen.kind, seen.session_id) == (asked.id, "question", session.id)
    wrong = await org.ada.post(f"{path}/answer", {"answers": [{"questionIndex": 0, "selectedOption": "c"}]})
    assert problem(wrong)["code"] == "invalid_answers"
    answered = decoded(await org.ada.post(f"{path}/answer", body), shapes.QuestionSet)
    assert (answered.status, answered.answered_by, answered.answered_from) == ("completed", "ada", "http")
    late = await org.admin.post(f"{path}/reject", {"reason": "no"})
    assert (problem(late)["code"], problem(late)["status"]) == ("already_settled", 409)
    entries = decoded(await org.admin.get("/api/audit"), shapes.Audit).entries
    (decided,) = [entry for entry in entries if entry.action == "question.answer"]
    assert decided.detail["answers"] == [{"question": "Choice", "chosen": ["a"]}]
    denied = [entry for entry in entries if entry.outcome == "denied"]
    assert {(entry.user, entry.detail["code"]) for entry in denied} == {("bob", "question_set_not_found")}
    assert len(denied) == 4
    owner = Person(served.url, LOCAL, served.presence.token)
    carol = (await owner.post("/api/tokens", {"user": "carol"})).json()["secret"]
    guest = Person(served.url, LOCAL, carol)  # a member of the same organization, and not at this machine
    assert (await guest.get("/api/me")).json()["organization"] == "local"
    assert problem(await guest.post(f"/api/questions/{machines.id}/answer", body))["status"] == 404
    rejected = await owner.post(f"/api/questions/{machines.id}/reject", {"reason": "not now"})
    assert rejected.json()["rejectionReason"] == "not now"


async def answers_on_record(server: Served) -> list[tuple[str, str]]:
    entries = decoded(await owner_of(server).get("/api/audit"), shapes.Audit).entries
    return sorted((each.user, each.subject or "") for each in entries if each.action == "question.answer")


@pytest.mark.req("SEC-13")
async def test_an_answer_that_was_given_while_no_server_ran_is_on_record_once(
    tmp_path: Path, process: None
) -> None:
    """A server may also die between an answer's file and the audit log; the next one looks again."""
    box = QuestionBox(tmp_path / "questions")
    question = Question(prompt="Which?", title="Choice")
    asked, theirs = [await box.ask(NewQuestionSet(questions=(question,))) for _ in range(2)]
    await box.answer(asked.id, [Answer(question_index=0, custom_text="this")], by="ada", door="cli")
    both = sorted([("ada", asked.id), ("local", theirs.id)])
    server = Served(tmp_path)

    async def is_on_record() -> bool:
        return await answers_on_record(server) == both

    server.start()
    try:
        body = {"answers": [{"questionIndex": 0, "customText": "that"}]}
        answered = await owner_of(server).post(f"/api/questions/{theirs.id}/answer", body)
        assert answered.status_code == 200
        await until(is_on_record)
    finally:
        server.stop()
    server.start()
    try:
        later = await box.ask(NewQuestionSet(questions=(question,)))
        await box.answer(later.id, [Answer(question_index=0, custom_text="more")], by="bob", door="cli")
        both = sorted([*both, ("bob", later.id)])
        await until(is_on_record)  # by then, the first two were looked at again
    finally:
        server.stop()


@pytest.mark.req("SEC-13")
async def test_an_answer_given_while_the_store_is_away_is_on_record_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.ending.RETRY_SECONDS", 0.01)
    box = QuestionBox(tmp_path / "questions")
    away = asyncio.Event()
    audit = Store.audit

    async def audit_once_it_is_back(store: Store, *args: Any, **more: Any) -> None:
        if not away.is_set():
            away.set()
            raise StoreUnavailable("The store is away.")
        await audit(store, *args, **more)

    monkeypatch.setattr(Store, "audit", audit_once_it_is_back)
    async with open_store(f"sqlite:///{tmp_path}/holdfast.db") as store:
        recording = asyncio.create_task(Inbox(box).record_others(store))
        asked = await box.ask(NewQuestionSet(questions=(Question(prompt="Which?", title="Choice"),)))
        await box.answer(asked.id, [Answer(question_index=0, custom_text="this")], by="ada", door="cli")

        async def is_on_record() -> bool:
            return [entry.subject for entry in await store.list_audit()] == [asked.id]

        await until(is_on_record)
        assert away.is_set()
        recording.cancel()
        await asyncio.wait([recording])


async def test_what_is_decided_at_another_door_is_on_record_too(
    served: Served, org: Organization, session: Session
) -> None:
    box = QuestionBox(served.questions)
    asked = await box.ask(
        NewQuestionSet(questions=(Question(prompt="Which?", title="Choice"),), session_id=session.id)
    )
    answer = Answer(question_index=0, custom_text="x" * 1000)
    await box.answer(asked.id, [answer], by="ada", door="cli")

    async def is_on_record() -> bool:
        entries = decoded(await org.admin.get("/api/audit"), shapes.Audit).entries
        return [(each.user, each.action, each.detail["door"], each.subject) for each in entries] == [
            ("ada", "question.answer", "cli", asked.id)
        ]

    await until(is_on_record)


@pytest.mark.usefixtures("process")
async def test_a_guessed_sign_in_code_is_on_record(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        async with httpx2.AsyncClient(base_url=served.url) as browser:
            for accept in ("text/html", "application/json"):
                await browser.get("/sign-in?code=guessed", headers={"Accept": accept})

        async def is_on_record() -> bool:
            entries = decoded(await owner_of(served).get("/api/audit"), shapes.Audit).entries
            return [(each.user, each.subject) for each in entries] == [("nobody", "/sign-in")] * 2

        await until(is_on_record)
    finally:
        served.stop()


async def test_what_a_person_sent_is_kept_for_nobody_else(store: Store, org: Organization) -> None:
    """A message with everything that may go wrong in it comes back as it was."""
    view = store.as_principal(org.ada.principal)
    session = await view.create_session(NewSession())
    text = "<script>alert(1)</script>\r\n\u2028 event: gone\ndata: x\n\n"
    await view.append_messages(session.id, [Message.user(text)])
    response = await org.ada.get(f"/api/sessions/{session.id}/events?wait=0")
    assert response.json()["messages"][0]["content"]["text"] == text
