"""Agents that Holdfast started ask through a relay and a socket: for their own session, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from holdfast import NewSession, Session, open_store
from holdfast.agents.sandbox.local_socket import SOCKET
from holdfast.config import QuestionSettings
from holdfast.mcp.door import CLIENTS, LINE_BYTES, McpDoor, OpenMcpDoor
from holdfast.model.question import Answer, QuestionStatus
from holdfast.questions import QuestionBox
from tests.mcp.clients import ANSWERED, ask, fetch, text, the_pending
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("process")


@pytest.fixture
def box(tmp_path: Path) -> QuestionBox:
    return QuestionBox(tmp_path / "questions")


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[list[Session]]:
    async with open_store(f"sqlite:///{tmp_path}/holdfast.db") as store:
        yield [await store.create_session(NewSession(agent=name)) for name in ("one", "two")]


@asynccontextmanager
async def door(box: QuestionBox, session: Session, workspace: Path) -> AsyncIterator[OpenMcpDoor]:
    opened = await McpDoor(box, QuestionSettings(), workspace / "sockets").open(session, workspace, "mark")
    try:
        yield opened
    finally:
        await opened.close()


def client(opened: OpenMcpDoor) -> Client:
    """What an agent starts: the server that it is told of, with the variables that it is told."""
    (server,) = opened.servers
    variables = {each["name"]: each["value"] for each in server["env"]}
    return Client(StdioServerParameters(command=server["command"], args=server["args"], env=variables))


@pytest.mark.req("SEC-10")
async def test_an_agent_asks_for_its_session_and_is_answered(
    box: QuestionBox, sessions: list[Session], tmp_path: Path
) -> None:
    async with door(box, sessions[0], tmp_path) as opened, client(opened) as asking:
        assert "holdfast mcp" not in str(opened.servers)
        assert str(box.directory) not in str(opened.servers)
        submitted = text(await ask(asking, nonBlocking=True))
        question_set = await the_pending(box)
        assert question_set.short_id in submitted
        assert (question_set.session_id, question_set.agent) == (sessions[0].id, "one")
        rust = Answer(question_index=0, selected_option="Rust")
        await box.answer(question_set.id, [rust], by="person", door="test")
        assert ANSWERED in text(await fetch(asking, question_set.id))


@pytest.mark.req("SEC-10")
async def test_an_agent_hears_of_no_other_sessions_answers(
    box: QuestionBox, sessions: list[Session], tmp_path: Path
) -> None:
    async with (
        door(box, sessions[0], tmp_path) as first,
        door(box, sessions[1], tmp_path) as second,
        client(first) as asking,
        client(second) as curious,
    ):
        await ask(asking, nonBlocking=True)
        question_set = await the_pending(box)
        for name in (question_set.id, question_set.short_id):
            refused = await fetch(curious, name)
            assert refused.is_error
            assert f"Session not found: {name}" in text(refused)


async def test_a_session_that_ends_leaves_its_questions_abandoned_and_no_socket(
    box: QuestionBox, sessions: list[Session], tmp_path: Path
) -> None:
    async with door(box, sessions[0], tmp_path) as opened:
        socket = opened.socket.directory / SOCKET
        assert socket.is_socket()
        assert [each.stat().st_mode & 0o777 for each in (socket.parent,)] == [0o700]
        async with client(opened) as asking:
            await ask(asking, nonBlocking=True)
            set_id = (await the_pending(box)).id
    assert not socket.parent.exists()
    assert (await box.get(set_id)).status is QuestionStatus.PENDING  # a person may still answer it


async def test_who_waits_when_the_agent_goes_leaves_an_abandoned_set(
    box: QuestionBox, sessions: list[Session], tmp_path: Path
) -> None:
    async with door(box, sessions[0], tmp_path) as opened:
        (server,) = opened.servers
        relay = await asyncio.create_subprocess_exec(
            server["command"],
            *server["args"],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert relay.stdin is not None
        assert relay.stdout is not None
        relay.stdin.write(HELLO)
        await relay.stdout.readline()
        relay.stdin.write(CALL)
        set_id = (await the_pending(box)).id
        relay.kill()
        await relay.wait()

        async def is_abandoned() -> bool:
            return (await box.get(set_id)).status is QuestionStatus.ABANDONED

        await until(is_abandoned)


@pytest.mark.req("SEC-10")
async def test_a_client_that_says_too_much_is_lost_alone_and_too_many_are_not_served(
    box: QuestionBox, sessions: list[Session], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with door(box, sessions[0], tmp_path) as opened:
        path = opened.socket.directory / SOCKET
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"x" * (2 * LINE_BYTES + 1))
        with suppress(ConnectionError):  # it is hung up while this is still written
            assert await reader.read() == b""
        assert "its MCP client is lost" in caplog.text
        clients = [await asyncio.open_unix_connection(path) for _ in range(CLIENTS + 1)]
        assert await clients[-1][0].read() == b""
        clients[0][1].write(HELLO)
        assert b"serverInfo" in await clients[0][0].readline()
        for _, each in (*clients, (reader, writer)):
            each.close()
    assert "Traceback" not in caplog.text


HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"a","version":"1"}}}\n'
)
CALL = (
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask_user_questions","arguments":'
    b'{"questions":[{"prompt":"Which?","title":"T","options":[{"label":"a"},{"label":"b"}],'
    b'"multiSelect":false}]}}}\n'
)
