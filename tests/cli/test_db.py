"""`holdfast db`, as a person runs it: a real process, its output and its exit code."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from holdfast import Message, PeerKind, SessionKey, open_store
from holdfast.blobs import open_blobs
from holdfast.server.presence import Presence, store_name
from holdfast.store.migrations import HEAD
from tests.cli.command import Cli
from tests.settings import configure

KEY = SessionKey("main", "irc", "bot", PeerKind.GROUP, "#holdfast")


def say(url: str, *texts: str) -> None:
    async def append() -> None:
        async with open_store(url) as store:
            await store.get_or_create(KEY)
            await store.append_messages(KEY, [Message.user(text) for text in texts])

    asyncio.run(append())


def said(url: str) -> list[str]:
    async def read() -> list[str]:
        async with open_store(url) as store:
            return [message.text for message in await store.get_history(KEY)]

    return asyncio.run(read())


def test_a_first_look_at_an_empty_machine(cli: Cli) -> None:
    current = cli("db", "current")
    assert (current.returncode, current.stdout) == (
        0,
        f"The database is empty; this program works with revision {HEAD}.\n",
    )
    assert json.loads(cli("db", "current", "--json").stdout) == {"revision": None, "head": HEAD}
    upgraded = cli("db", "upgrade")
    assert upgraded.stdout == f"The schema went from base to {HEAD}.\n"
    assert cli("db", "upgrade").stdout == f"The schema is at {HEAD}.\n"
    assert (cli.home / "data" / "holdfast.db").exists()


@pytest.mark.parametrize(
    "command", ["check", "backup copy.db", "vacuum", "collect", "downgrade base --yes"], ids=str
)
def test_a_mistyped_store_is_not_made_by_looking_after_it(cli: Cli, command: str) -> None:
    cli.environment["HOLDFAST_STORE"] = f"sqlite:///{cli.home}/holdfsat.db"
    missing = cli("db", *command.split())
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith(f"holdfast: There is no database at {cli.home}/holdfsat.db")
    assert not (cli.home / "holdfsat.db").exists()


def test_the_tables_are_not_dropped_under_a_running_server(cli: Cli) -> None:
    url = f"sqlite:///{cli.home}/my.db"
    say(url, "kept")
    Presence("http://127.0.0.1:1", os.getpid(), "hf_x", store_name(url)).write(cli.home / "data")
    refused = cli("db", "downgrade", "base", "--yes", "--store", url)
    assert (refused.returncode, refused.stderr) == (
        1,
        "holdfast: A server is running at http://127.0.0.1:1 with this database; stop it first.\n",
    )
    assert said(url) == ["kept"]


@pytest.mark.req("SEC-23")
def test_a_command_that_changes_something_names_its_store_and_takes_no_other_than_the_servers(
    cli: Cli,
) -> None:
    made = cli("token", "create", "--user", "ada")
    ours = f"sqlite:///{cli.home}/data/holdfast.db"
    assert (made.returncode, f"Store: {ours}" in made.stderr.splitlines()) == (0, True)
    Presence("http://127.0.0.1:1", os.getpid(), "hf_x", "postgresql://a@b/c").write(cli.home / "data")
    for command in (("token", "create", "--user", "ada"), ("sessions", "list"), ("token", "list")):
        refused = cli(*command)
        assert refused.returncode == 1
        assert (
            "http://127.0.0.1:1 with the store postgresql://a@b/c, and this command would" in refused.stderr
        )
        assert cli(*command, "--store", ours).returncode == 0
    cli.environment["HOLDFAST_STORE"] = ours
    assert cli("token", "list").returncode == 0


@pytest.mark.parametrize("target", ["base", "0001"])
def test_up_never_goes_down_nor_down_up(cli: Cli, target: str) -> None:
    url = f"sqlite:///{cli.home}/my.db"
    say(url, "kept")
    refused = cli("db", "upgrade", target, "--store", url)
    assert (refused.returncode, f"holdfast db downgrade {target}" in refused.stderr) == (1, True)
    assert said(url) == ["kept"]
    assert cli("db", "downgrade", target, "--yes", "--store", url).returncode == 0
    wrong = cli("db", "downgrade", HEAD, "--yes", "--store", url)
    assert (wrong.returncode, f"holdfast db upgrade {HEAD}" in wrong.stderr) == (1, True)
    assert cli("db", "upgrade", HEAD, "--store", url).returncode == 0


@pytest.mark.req("SEC-22")
def test_down_and_up_again(cli: Cli) -> None:
    url = f"sqlite:///{cli.home}/my.db"
    say(url, "kept")
    refused = cli("db", "downgrade", "0001", "--store", url, typed="n\n")
    assert refused.returncode == 1
    held = "1 sessions of 1 organizations with 1 messages, 0 tokens and 0 audit entries. "
    assert f"The database holds {held}What revision 0001 has no place for is lost." in refused.stdout
    assert "So are all tokens and the audit log." in refused.stdout
    before = json.loads(cli("db", "current", "--json", "--store", url).stdout)
    assert cli("db", "downgrade", "0001", "--store", url, typed="y\n").returncode == 0
    assert json.loads(cli("db", "current", "--json", "--store", url).stdout)["revision"] == "0001"
    checked = cli("db", "check", "--store", url)
    assert (checked.returncode, "checking would bring it to" in checked.stderr) == (1, True)
    assert json.loads(cli("db", "current", "--json", "--store", url).stdout)["revision"] == "0001"
    assert before["revision"] == HEAD
    assert cli("db", "upgrade", "--store", url).stdout == f"The schema went from 0001 to {HEAD}.\n"
    assert said(url) == ["kept"]
    wrong = cli("db", "downgrade", "7777", "--yes", "--store", url)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == f"holdfast: There is no schema revision '7777'; it is base, or 0001 to {HEAD}.\n"


def test_check_finds_nothing_in_a_healthy_store_and_names_what_is_broken(cli: Cli) -> None:
    import apsw

    url = f"sqlite:///{cli.home}/my.db"
    say(url, "a", "b")
    healthy = cli("db", "check", "--store", url)
    assert (healthy.returncode, healthy.stdout) == (0, "Nothing is wrong.\n")
    connection = apsw.Connection(str(cli.home / "my.db"))
    connection.execute("DELETE FROM messages WHERE seq = 1")
    connection.close()
    broken = cli("db", "check", "--json", "--store", url)
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["problems"] == [
        "session 1: the head says 2 messages, but the messages end at 2 and number 1"
    ]


def test_a_backup_is_a_store_of_its_own_and_never_overwrites(cli: Cli) -> None:
    url = f"sqlite:///{cli.home}/my.db"
    say(url, "before")
    backup = cli("db", "backup", "copy.db", "--store", url)
    assert backup.returncode == 0
    assert backup.stdout.startswith("copy.db holds ")
    say(url, "after")
    assert said(f"sqlite:///{cli.home}/copy.db") == ["before"]
    again = cli("db", "backup", "copy.db", "--store", url)
    assert (again.returncode, again.stderr) == (
        1,
        "holdfast: copy.db already exists; a backup never overwrites.\n",
    )


def test_vacuum_keeps_everything(cli: Cli) -> None:
    url = f"sqlite:///{cli.home}/my.db"
    say(url, "kept")
    assert cli("db", "vacuum", "--store", url).stdout == "Done.\n"
    assert said(url) == ["kept"]


def test_blobs_that_no_turn_refers_to_are_collected(cli: Cli) -> None:
    place = cli.home / "data" / "blobs"
    asyncio.run(open_blobs(place.as_uri()).put("local", b"nobody's"))
    say(f"sqlite:///{cli.home}/data/holdfast.db", "hello")
    (blob,) = place.rglob("*.zst")
    os.utime(blob, (1, 1))
    collected = cli("db", "collect")
    assert (collected.returncode, collected.stdout) == (0, "1 set aside, 0 put back, 0 deleted.\n")
    nothing = {"set_aside": 0, "put_back": 0, "deleted": 0}
    assert json.loads(cli("db", "collect", "--json").stdout) == nothing
    for hours in ("0.1", "1e300"):
        assert cli("db", "collect", "--older-than", hours).returncode == 2


def test_the_blobs_of_one_store_are_no_orphans_of_another(cli: Cli) -> None:
    other = f"sqlite:///{cli.home / 'other.db'}"
    refused = cli("db", "collect", "--store", other)
    assert refused.returncode == 1
    assert "and not of this one" in refused.stderr
    data = cli.home / "data"
    Presence("http://127.0.0.1:1", 1, "hf_x", store_name(f"sqlite:///{data / 'holdfast.db'}")).write(data)
    cli.environment["HOLDFAST_STORE"] = other
    assert "and not of this one" in cli("db", "collect").stderr
    say(other, "hello")
    cli.environment["HOLDFAST_BLOBS_URL"] = (cli.home / "others").as_uri()
    assert cli("db", "collect").returncode == 0


@pytest.mark.parametrize("command", ["current", "check", "vacuum", "upgrade", "collect"])
def test_every_command_works_on_postgresql(cli: Cli, postgres_url: str, command: str) -> None:
    say(postgres_url, "hello")
    cli.environment["HOLDFAST_BLOBS_URL"] = (cli.home / "blobs").as_uri()
    result = cli("db", command, "--store", postgres_url)
    changes = command in ("upgrade", "vacuum", "collect")
    assert (result.returncode, result.stderr) == (0, f"Store: {postgres_url}\n" if changes else "")
    assert said(postgres_url) == ["hello"]


def test_a_bad_address_is_one_sentence_and_no_traceback(cli: Cli) -> None:
    result = cli("db", "check", "--store", "mysql://x")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("holdfast: 'mysql' is not the beginning of a store's address")


def test_settings_come_from_the_flag_then_the_environment_then_the_file(cli: Cli) -> None:
    configure(cli.home, 'store = "sqlite:///from_file.db"\n')
    cli("db", "upgrade")
    cli.environment["HOLDFAST_STORE"] = "sqlite:///from_environment.db"
    cli("db", "upgrade")
    cli("db", "upgrade", "--store", "sqlite:///from_flag.db")
    cli.environment["HOLDFAST_CONFIG"] = str(cli.home / "other.toml")
    del cli.environment["HOLDFAST_STORE"]
    (cli.home / "other.toml").write_text('store = "sqlite:///from_other_file.db"\n')
    cli("db", "upgrade")
    made = sorted(path.name for path in cli.home.glob("*.db"))
    assert made == ["from_environment.db", "from_file.db", "from_flag.db", "from_other_file.db"]


def test_a_wrong_setting_is_named(cli: Cli) -> None:
    configure(cli.home, 'durability = "sometimes"\n')
    result = cli("db", "current")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("holdfast: The setting 'durability' is wrong")


def test_the_version_and_the_help(cli: Cli) -> None:
    assert cli("--version").stdout == "holdfast 0.1.0\n"
    assert "Durable sessions for AI agents" in cli("--help").stdout
    commands = cli("db", "-h").stdout
    assert all(name in commands for name in ("upgrade", "downgrade", "current", "check", "backup"))


def test_without_the_extra_the_command_says_what_to_install(cli: Cli) -> None:
    code = "import sys; sys.modules['typer'] = None; from holdfast.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "pip install 'holdfast[cli]'" in result.stderr
