"""`holdfast inbox` as a person starts it: a real process in a real terminal."""

import asyncio
import fcntl
import getpass
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyte
import pytest

from holdfast.model.question import Answer, QuestionStatus
from tests.tui.driver import Desk
from tests.tui.sets import EDIT, ONE, PLAN
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.usefixtures("process")

COLUMNS, LINES = 80, 24
ENTER, ESCAPE, DOWN, LEFT, CTRL_S, CTRL_Q = "\r", "\x1b", "\x1b[B", "\x1b[D", "\x13", "\x11"
COLOURS = re.compile(r"\x1b\[[\d;]*?\b(?:3[0-7]|38|4[0-7]|48|9[0-7]|10[0-7])[;m]")


class Terminal:
    """A program's screen, as a terminal makes it of what the program writes."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self.written = b""
        self._master = master
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(" ".join(line.split()) for line in self._screen.display)

    def read(self) -> None:
        try:
            content = os.read(self._master, 65536)
        except OSError:  # the program has closed its side
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self.written += content
        # Private modes with a ">" or "=" are keyboard protocols, which this terminal does not know.
        self._stream.feed(re.sub(rb"\x1b\[[>=<][\d;]*[a-z]", b"", content))

    @property
    def rang(self) -> bool:
        """Whether the program rang the bell, whose sign also ends some sequences."""
        return b"\x07" in re.sub(rb"\x1b\].*?(?:\x07|\x1b\\)", b"", self.written)

    async def sees(self, text: str) -> None:
        try:
            await until(lambda: text in self.text)
        except TimeoutError:
            raise AssertionError(f"{text!r} cannot be read in the terminal:\n{self.text}") from None

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def ends(self) -> int:
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def terminal(desk: Desk, *arguments: str, **environment: str) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "inbox", *arguments),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        cwd=desk.directory.parent.parent,
        env={
            "AUQ_SESSION_DIR": str(desk.directory),
            "HOLDFAST_DATA_DIR": str(desk.drafts.parent),
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            **environment,
        },
    )
    os.close(slave)
    child = Terminal(process, master)
    loop = asyncio.get_running_loop()
    loop.add_reader(master, child.read)
    try:
        yield child
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        loop.remove_reader(master)
        os.close(master)


@pytest.mark.req("ASK-05", "ASK-16")
async def test_a_question_is_read_and_answered_by_keys(desk: Desk) -> None:
    async with terminal(desk) as screen:
        await screen.sees("No questions are waiting.")
        asked = await desk.box.ask(ONE)
        waiting = asyncio.create_task(desk.box.wait(asked.id))
        await screen.sees("claude · now · question")
        await until(lambda: screen.rang)
        screen.type(ENTER)
        await screen.sees("Which language?")
        screen.type(DOWN)
        await screen.sees("› ( ) Rust")
        screen.type(ENTER)
        await screen.sees("→ Rust")
        screen.type(ENTER)
        answered = await waiting
        await screen.sees("No questions are waiting.")
        screen.type("q")
        assert await screen.ends() == 0
    assert answered.answers == (Answer(question_index=0, selected_option="Rust"),)
    assert (answered.answered_by, answered.answered_from) == (getpass.getuser(), "terminal")


async def test_what_was_entered_survives_a_killed_inbox(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with terminal(desk) as screen:
        await screen.sees("claude · now")
        screen.type(ENTER)
        await screen.sees("Which language?")
        screen.type("o")
        await screen.sees("Leave the text")
        screen.type("Zig, of course")
        draft = desk.drafts / f"{asked.id}.json"
        await until(lambda: draft.exists() and "of course" in draft.read_text())
        screen.process.kill()
        await screen.ends()
    async with terminal(desk) as screen:
        await screen.sees("claude · now · draft")
        screen.type(ENTER)
        await screen.sees("(•) Zig, of course")
        screen.type(CTRL_S)
        await screen.sees("2 of 3 questions are unanswered")
        screen.type(LEFT)
        screen.type(ENTER)
        await screen.sees("No questions are waiting.")
        screen.type(CTRL_Q)
        assert await screen.ends() == 0
    assert (await desk.box.get(asked.id)).answers == (Answer(question_index=0, custom_text="Zig, of course"),)
    assert desk.draft_files() == []


async def test_without_colour_everything_can_be_told_apart(desk: Desk) -> None:
    asked = await desk.box.ask(EDIT)
    async with terminal(desk, NO_COLOR="1") as screen:
        await screen.sees("! Writing to build.py")
        screen.type(ENTER)
        await screen.sees("1 - import os")
        await screen.sees("1 + from pathlib import Path")
        await screen.sees("› ( ) Allow")
        screen.type(" ")
        await screen.sees("› (•) Allow")
        screen.type(CTRL_S)
        await screen.sees("→ Allow")
        screen.type(ENTER)
        await screen.sees("No questions are waiting.")
        screen.type(CTRL_Q)
        assert await screen.ends() == 0
        assert COLOURS.findall(screen.written.decode(errors="replace")) == []
    assert (await desk.box.get(asked.id)).status is QuestionStatus.COMPLETED


async def test_the_bell_is_a_setting_and_a_flag(desk: Desk) -> None:
    async with terminal(desk, HOLDFAST_INBOX_BELL="false") as silent, terminal(desk, "--no-bell") as silenced:
        for screen in (silent, silenced):
            await screen.sees("No questions are waiting.")
        await desk.box.ask(ONE)
        for screen in (silent, silenced):
            await screen.sees("claude · now · question")
            screen.type("q")
            await screen.ends()
            assert not screen.rang


async def test_a_hostile_question_reaches_no_real_terminal(desk: Desk) -> None:
    asked = await desk.box.ask(EDIT)
    path = desk.directory / asked.id / "request.json"
    request = json.loads(path.read_text())
    request["agent"] = request["questions"][0]["prompt"] = "\x1b]0;owned\x07\x1b[2Jwiped [red]x"
    path.write_text(json.dumps(request))
    async with terminal(desk) as screen:
        await screen.sees("wiped [red]x · now")
        screen.type(ENTER)
        await screen.sees("wiped [red]x asks for permission")
        assert b"\x1b]0;owned" not in screen.written
        assert b"\x1b[2Jwiped" not in screen.written


def inbox_without_a_terminal(desk: Desk, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"HOLDFAST_DATA_DIR": str(desk.drafts.parent), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


INBOX = "import sys; from holdfast.cli import main; sys.argv[1:] = ['inbox']; "


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (f"{INBOX} main()", "The inbox needs a terminal; without one, use `holdfast questions list`."),
        (f"{INBOX} sys.modules['textual'] = None; main()", "pip install 'holdfast[tui]'"),
    ],
)
def test_what_is_missing_is_one_sentence(desk: Desk, code: str, sentence: str) -> None:
    result = inbox_without_a_terminal(desk, code)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert sentence in result.stderr
