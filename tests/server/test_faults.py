"""What a server does while its store cannot: it says so in a sentence, goes on reading, and recovers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest

from holdfast import Message, Session, Store
from holdfast.client import Client, SessionCopy
from tests.conftest import PostgresServer
from tests.server.servers import Organization, Person, Served, owner_of, problem
from tests.waiting import SECONDS

MEGABYTE = 1 << 20


@pytest.fixture
def own_server(tmp_path: Path, process: None) -> Iterator[Served]:
    """A server of the test's own, in SQLite."""
    served = Served(tmp_path)
    served.repository()
    served.start()
    yield served
    assert served.stop() == 0
    assert "Traceback" not in served.complaints()


@asynccontextmanager
async def full_disk(served: Served) -> AsyncIterator[None]:
    """While inside, none of the server's files can grow."""
    assert served.process is not None
    process = psutil.Process(served.process.pid)
    usual = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (1, usual[1]))
    yield
    process.rlimit(psutil.RLIMIT_FSIZE, usual)


async def with_session(person: Person) -> str:
    """The path of a session with the demo agent."""
    repo = (await person.post("/api/repos/scan")).json()["repos"][0]
    created = await person.post("/api/sessions", {"repoId": repo["id"], "agent": "demo"})
    return f"/api/sessions/{created.json()['id']}"


async def test_on_a_full_disk_writes_are_refused_reads_go_on_and_space_is_used_again(
    own_server: Served,
) -> None:
    person = owner_of(own_server)
    path = await with_session(person)
    async with full_disk(own_server):
        for method, place, body in (
            ("PATCH", path, {"title": "x" * 1000}),
            ("POST", f"{path}/prompt", {"text": "say hello"}),
            ("POST", "/api/tokens", {"user": "ada"}),
        ):
            refused = await person.call(method, place, json=body)
            assert (problem(refused)["status"], problem(refused)["code"]) == (507, "store_full")
            # Where the database is, the log says, and not a caller's answer.
            assert problem(refused)["detail"].startswith("The disk that holds the store is full;")
        assert (await person.get(path)).json()["turnCount"] == 0
        assert (await person.get("/api/sessions")).json()["total"] == 1
        stranger = Person(own_server.url, person.principal, "hf_wrong")
        assert problem(await stranger.get("/api/me"))["status"] == 401
    patched = await person.call("PATCH", path, json={"title": "there is room"})
    assert patched.json()["title"] == "there is room"
    assert (await person.post(f"{path}/prompt", {"text": "say hello"})).status_code == 202


@pytest.fixture
def on_own_postgres(tmp_path: Path, own_postgres_server: PostgresServer, process: None) -> Iterator[Served]:
    """A server whose PostgreSQL the test may stop."""
    served = Served(tmp_path, HOLDFAST_STORE=own_postgres_server.url())
    served.repository()
    served.start()
    yield served
    assert served.stop() == 0
    assert "uvicorn" not in served.complaints()  # which would tell of what nobody has answered


async def test_while_postgres_is_away_every_answer_says_so_and_its_return_is_noticed(
    on_own_postgres: Served, own_postgres_server: PostgresServer
) -> None:
    person = owner_of(on_own_postgres)
    path = await with_session(person)
    copy = SessionCopy()
    client = Client(person.url, person.secret)
    async with client, aclosing(client.follow(path.rsplit("/", 1)[1])) as items:
        copy.apply(await anext(items))
        own_postgres_server.stop("immediate")
        for method, place, body in (
            ("PATCH", path, {"title": "lost"}),
            ("GET", path, None),
            ("GET", "/readyz", None),
        ):
            refused = await person.call(method, place, json=body)
            assert (problem(refused)["status"], problem(refused)["code"]) == (503, "store_unavailable")
        assert (await person.get("/healthz")).status_code == 200
        own_postgres_server.start()
        async with asyncio.timeout(SECONDS):
            while (await person.get("/readyz")).status_code != 200:
                pass
            patched = await person.call("PATCH", path, json={"title": "back"})
            while copy.session is None or copy.session.title != "back":
                copy.apply(await anext(items))
        assert copy.rev == patched.json()["rev"]


async def test_a_postgres_that_takes_no_changes_is_still_read(
    on_own_postgres: Served, own_postgres_server: PostgresServer
) -> None:
    person = owner_of(on_own_postgres)
    path = await with_session(person)
    await allow_changes(own_postgres_server, on=False)
    async with asyncio.timeout(SECONDS):
        while (refused := await person.call("PATCH", path, json={"title": "no"})).status_code == 200:
            pass  # connections notice a new setting one after the other
    assert (problem(refused)["status"], problem(refused)["code"]) == (503, "store_read_only")
    assert (await person.get(path)).status_code == 200
    await allow_changes(own_postgres_server, on=True)
    async with asyncio.timeout(SECONDS):
        while (patched := await person.call("PATCH", path, json={"title": "yes"})).status_code != 200:
            pass
    assert patched.json()["title"] == "yes"


async def allow_changes(server: PostgresServer, *, on: bool) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'off' if on else 'on'}")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


async def test_listeners_that_read_nothing_cost_little_memory(
    served: Served, store: Store, org: Organization, session: Session
) -> None:
    assert served.process is not None
    server = psutil.Process(served.process.pid)
    view = store.as_principal(org.ada.principal)
    idle = [listening_without_reading(org.ada, session.id) for _ in range(40)]
    try:
        before = server.memory_info().rss
        for number in range(400):  # 20 MB, and 800 MB if it were kept for each
            await view.append_messages(session.id, [Message.user(f"{number} " + "x" * 50_000)])
        copy, last = SessionCopy(), (await view.get_session(session.id)).rev
        client = Client(org.ada.url, org.ada.secret)
        async with client, asyncio.timeout(SECONDS), aclosing(client.follow(session.id)) as items:
            while copy.rev < last:
                copy.apply(await anext(items))
        assert server.memory_info().rss - before < 150 * MEGABYTE
    finally:
        for connection in idle:
            connection.close()


def listening_without_reading(person: Person, session_id: str) -> socket.socket:
    host, port = person.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    request = (
        f"GET /api/sessions/{session_id}/events HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {person.secret}\r\n\r\n"
    )
    connection.sendall(request.encode())
    connection.recv(100)  # the head of the answer: from here on it listens
    return connection
