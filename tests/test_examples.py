"""The examples run as the README says."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

from holdfast import open_store

ROOT = Path(__file__).parent.parent


@pytest.mark.usefixtures("process")
def test_the_crash_example_shows_a_session_that_survives() -> None:
    command = [sys.executable, "examples/survive_a_crash.py"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "killed with SIGKILL after 25 words" in run.stdout
    for number in (1, 2, 3):
        assert f"{number}. user  'question {number}'" in run.stdout
    assert "[interrupted]" in run.stdout
    assert run.stdout.endswith("problems found: 0\n")


@pytest.mark.usefixtures("process")
def test_the_readme_example_runs_as_it_stands(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "hello" in run.stdout
    assert (tmp_path / "holdfast.db").exists()


async def test_the_chat_bot_sends_the_whole_of_a_long_answer(tmp_path: Path) -> None:
    listening = run_path(str(ROOT / "examples" / "chat_bot.py"))["listening"]
    question = "why? " * 1000
    async with (
        open_store(f"sqlite:///{tmp_path / 'chat.db'}") as store,
        listening(store, 0) as server,
    ):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(f"ada\n{question}\n\n".encode())
        answer = (await reader.readline()).decode()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer == f"That is your question number 1: {question.strip()}\n"


async def test_the_chat_bot_compacts_a_long_chat(tmp_path: Path) -> None:
    listening = run_path(str(ROOT / "examples" / "chat_bot.py"))["listening"]
    async with (
        open_store(f"sqlite:///{tmp_path / 'chat.db'}") as store,
        listening(store, 0) as server,
    ):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"ada\n")
        for number in range(12):
            writer.write(f"question {number} {'why? ' * 500}\n".encode())
            await reader.readline()
        (session,) = await store.list()
        while not (await store.get_session(session.id)).compaction_count:  # noqa: ASYNC110  # a condition
            await asyncio.sleep(0.01)
        writer.write(b"\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()


@pytest.mark.usefixtures("process")
def test_the_chat_bot_answers_with_two_agents() -> None:
    command = [sys.executable, "examples/chat_bot.py"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "ada: #books-old looms\n  bot: About 'looms' I have 35 books." in run.stdout
    assert "ada: still there?\n  bot: That is your question number 3: still there?" in run.stdout
    assert run.stdout.splitlines()[-4:] == [
        "  clerk:*:*:dm:ada: 6 messages, 0 tokens out",
        "  clerk:*:*:dm:bob: 2 messages, 0 tokens out",
        "  clerk:tcp:default:group:#garden: 2 messages, 0 tokens out",
        "  librarian:tcp:default:group:#books-old: 4 messages, 10 tokens out",
    ]


@pytest.mark.usefixtures("process")
def test_the_chat_bot_ends_without_a_traceback_on_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(ROOT / "examples" / "chat_bot.py"), "0"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as bot:
        assert bot.stdout is not None
        assert "listening" in bot.stdout.readline()
        bot.send_signal(signal.SIGINT)
        _, errors = bot.communicate()
    assert errors == ""


async def test_the_chat_bot_lets_go_of_who_gives_no_name(tmp_path: Path) -> None:
    listening = run_path(str(ROOT / "examples" / "chat_bot.py"))["listening"]
    async with (
        open_store(f"sqlite:///{tmp_path / 'chat.db'}") as store,
        listening(store, 0) as server,
    ):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"\nhello\n")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
