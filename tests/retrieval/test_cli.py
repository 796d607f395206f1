"""`holdfast index` and `holdfast search`, with and without a server."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.retrieval.trees import GREETING, repository, written
from tests.server.servers import Served

pytestmark = pytest.mark.usefixtures("process")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_a_tree_is_indexed_and_searched(cli: Cli, tmp_path: Path) -> None:
    root = repository(tmp_path / "hello", {"src/a.py": GREETING, "docs/a.md": "farewell\n"})
    indexed = cli("index", str(root))
    assert (indexed.returncode, indexed.stderr) == (0, "")
    assert indexed.stdout.startswith("hello: 2 of 2 files indexed in 5 chunks, 0 unchanged, 0 removed (")
    found = cli("search", "farewell", "--language", "python")
    assert "hello/src/a.py:11-12  farewell" in found.stdout
    assert 'return f"Goodbye, {name}"' in found.stdout
    assert "docs" not in found.stdout


def test_both_speak_json(cli: Cli, tmp_path: Path) -> None:
    root = repository(tmp_path / "hello", {"src/a.py": GREETING})
    assert json.loads(cli("index", str(root), "--repo", "other", "--json").stdout) == {
        **{"repository": "other", "files": 1, "changed": 1, "unchanged": 0, "removed": 0, "skipped": 0},
        **{"chunks": 4, "bytes": len(GREETING), "warnings": []},
    }
    (chunk,) = json.loads(cli("search", "goodbye", "--repo", "other", "--json").stdout)["chunks"]
    assert (chunk["path"], chunk["startLine"], chunk["endLine"]) == ("src/a.py", 11, 12)
    assert chunk["symbolType"] == "function"


def test_what_goes_wrong_is_a_sentence(cli: Cli, tmp_path: Path) -> None:
    before = cli("search", "farewell")
    assert (before.returncode, before.stdout) == (1, "")
    assert "holdfast index PATH" in before.stderr
    nowhere = cli("index", str(tmp_path / "nowhere"))
    assert nowhere.returncode == 1
    assert nowhere.stderr.startswith("holdfast: There is no directory")
    cli("index", str(repository(tmp_path / "hello", {"src/a.py": GREETING})))
    assert cli("search", "zebra").stderr == "Nothing was found.\n"
    assert "no workspace" in cli("search", "farewell", "--workspace", "w").stderr


def test_hostile_text_is_shown_and_not_obeyed(cli: Cli, tmp_path: Path) -> None:
    cli("index", str(written(tmp_path / "r", {"\x1b[2J.py": "def farewell(): '\x1b]0;owned\x07 [bold]x'\n"})))
    found = cli("search", "farewell")
    assert "\x1b" not in found.stdout
    assert "␛[2J.py:1-1" in found.stdout
    assert "[bold]x" in found.stdout


def test_changes_are_indexed_while_it_watches(cli: Cli, tmp_path: Path) -> None:
    root = repository(tmp_path / "hello", {"a.py": GREETING})
    with cli.running("index", str(root), "--watch") as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith("hello: 1 of 1 files indexed")
        assert watching.stderr.readline().startswith("watching ")
        written(root, {"b.py": "def welcome(): pass\n"})
        assert watching.stdout.readline().startswith("hello: 1 of 2 files indexed in 1 chunks, 1 unchanged")
        assert "b.py:1-1" in cli("search", "welcome").stdout
        watching.send_signal(signal.SIGINT)
        assert watching.wait() == 130
        assert "Traceback" not in watching.stderr.read()


def test_a_running_server_is_asked(tmp_path: Path) -> None:
    served = Served(tmp_path)
    written(served.repository(), {"a.py": GREETING})
    written(tmp_path / "elsewhere", {"secret.py": GREETING})
    served.start()
    try:
        cli = Cli(tmp_path)
        indexed = cli("index", str(served.workspace / "project"))
        assert indexed.stdout.startswith("project: 1 of 1 files indexed in 4 chunks")
        assert "project/a.py:11-12" in cli("search", "farewell").stdout
        outside = cli("index", str(tmp_path / "elsewhere"))
        assert outside.returncode == 1
        assert "is outside" in outside.stderr
    finally:
        assert served.stop() == 0
    assert "Traceback" not in served.complaints()
    assert "project/a.py:11-12" in cli("search", "farewell").stdout
