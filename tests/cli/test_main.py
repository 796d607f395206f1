"""How the command line ends when something outside of it is in the way: a sentence, and no traceback."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.command import Cli


def test_an_output_that_is_full_is_said_in_a_sentence(cli: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast", "db", "current"],
            env=cli.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (
        1,
        "holdfast: The output cannot be written: No space left on device.\n",
    )


def test_a_character_that_the_output_lacks_is_replaced(cli: Cli) -> None:
    cli.environment |= {"PYTHONIOENCODING": "latin-1", "AUQ_SESSION_DIR": str(cli.home / "questions")}
    asked = cli("ask", "--simple", "Ship → it?", "yes", "no", "--no-wait")
    shown = cli("questions", "list")
    assert (asked.returncode, shown.returncode, shown.stderr) == (0, 0, "")
    assert "Ship ? it?" in shown.stdout


def test_an_interrupt_ends_a_command_without_a_traceback(cli: Cli) -> None:
    interrupted = (
        "import sys, signal; sys.argv = ['holdfast', 'db', 'current']\n"
        "import importlib.abc\n"
        "class Press(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'holdfast.cli.app': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Press())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from holdfast.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", interrupted], env=cli.environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGINT, "")


def test_the_version_is_told_without_loading_a_command(cli: Cli) -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "holdfast", "--version"],
        env=cli.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.startswith("holdfast ")
    assert "typer" not in told.stderr
