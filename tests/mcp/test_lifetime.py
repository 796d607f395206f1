"""How the server begins and ends, and what becomes of the questions when the agent is gone."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model.question import QuestionStatus
from holdfast.questions import QuestionBox
from tests.mcp.clients import ANSWERED, ask, connected, fetch, raw_client, text, the_pending
from tests.questions.sets import RUST

pytestmark = pytest.mark.usefixtures("process")


async def test_standard_output_carries_nothing_but_the_protocol(directory: Path, box: QuestionBox) -> None:
    async with raw_client(directory, heartbeat_seconds=0.05) as client:
        greeting = await client.initialize()
        assert greeting["result"]["serverInfo"]["name"] == "holdfast"
        client.send(
            "tools/call",
            {
                "name": "ask_user_questions",
                "arguments": {"questions": "nonsense"},
                "_meta": {"progressToken": 7},
            },
            2,
        )
        answer = await client.line()
        assert (answer["jsonrpc"], answer["id"], answer["result"]["isError"]) == ("2.0", 2, True)
        client.send("no/such/method", {}, 3)
        assert (await client.line())["error"]["code"] == -32601
        assert await client.hang_up() == 0


async def test_a_client_that_hangs_up_while_it_waits_leaves_its_set_abandoned(
    directory: Path, box: QuestionBox
) -> None:
    async with raw_client(directory) as client:
        await client.initialize()
        client.ask()
        asked = await the_pending(box)
        assert await client.hang_up() == 0
    assert (await box.get(asked.id)).status is QuestionStatus.ABANDONED


async def test_a_client_that_hangs_up_after_a_soft_return_leaves_its_set_abandoned(
    directory: Path, box: QuestionBox
) -> None:
    async with raw_client(directory, soft_return_seconds=0.1) as client:
        await client.initialize()
        client.ask()
        await client.line()
        assert await client.hang_up() == 0
    (asked,) = await box.list()
    assert asked.status is QuestionStatus.ABANDONED


async def test_what_was_asked_without_waiting_stays_pending_when_the_client_is_gone(
    directory: Path, box: QuestionBox
) -> None:
    async with connected(directory) as client:
        await ask(client, nonBlocking=True)
    (asked,) = await box.list()
    assert asked.status is QuestionStatus.PENDING


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_server_that_is_told_to_end_leaves_its_set_abandoned(
    directory: Path, box: QuestionBox, number: signal.Signals
) -> None:
    async with raw_client(directory) as client:
        await client.initialize()
        client.ask()
        asked = await the_pending(box)
        client.process.send_signal(number)
        assert await client.ended() == -number
    assert (await box.get(asked.id)).status is QuestionStatus.ABANDONED


async def test_the_answer_to_a_client_that_hung_up_reaches_the_next_one(
    directory: Path, box: QuestionBox
) -> None:
    async with raw_client(directory) as client:
        await client.initialize()
        client.ask()
        asked = await the_pending(box)
        await client.hang_up()
    await box.answer(asked.id, [RUST], by="ada", door="test")
    late = f"[Session: {asked.short_id} | Questions: 1]\n\n{ANSWERED}"
    async with connected(directory, name="raw") as client_again:
        assert text(await ask(client_again)) == late
        assert text(await fetch(client_again, asked.short_id)) == late
    assert (await box.get(asked.id)).late
    assert len(await box.list()) == 1


@pytest.mark.parametrize("answered", ["before it is back", "while it waits again"])
async def test_an_asker_that_was_killed_finds_its_question_again(
    directory: Path, box: QuestionBox, answered: str
) -> None:
    async with raw_client(directory) as client:
        await client.initialize()
        client.ask()
        asked = await the_pending(box)
        client.process.kill()
        assert await client.ended() == -signal.SIGKILL
    assert (await box.get(asked.id)).status is QuestionStatus.PENDING
    async with raw_client(directory) as again:
        await again.initialize()
        if answered == "before it is back":
            await box.answer(asked.id, [RUST], by="ada", door="test")
            again.ask()
        else:
            again.ask()
            await box.answer(asked.id, [RUST], by="ada", door="test")
        result = (await again.line())["result"]
    assert result["content"][0]["text"] == f"[Session: {asked.short_id} | Questions: 1]\n\n{ANSWERED}"
    assert len(await box.list()) == 1


async def test_a_client_that_says_nothing_at_all_is_let_go(directory: Path) -> None:
    async with raw_client(directory) as client:
        assert await client.hang_up() == 0


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['holdfast', 'mcp'];"
        "from holdfast.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "pip install 'holdfast[mcp]'" in result.stderr
