"""Agents as settings describe them: the environment, `holdfast.toml`, and the defaults."""

import sys
from pathlib import Path

import pytest

from holdfast import SessionStatus, Store
from holdfast.agents.catalogue import Catalogue, default_entries
from holdfast.agents.opening import open_supervisor
from holdfast.agents.permissions import Decision, Policy, Rule, ToolKind
from holdfast.config import load_settings
from holdfast.errors import InvalidInput, NotFound
from tests.agents.worlds import World, repository
from tests.settings import configure
from tests.waiting import until


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))


@pytest.mark.req("SES-28")
async def test_the_idle_timeout_is_read_in_minutes_and_ends_every_session(
    store: Store, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().workspace.idle_minutes == 30
    repository(tmp_path / "workspace" / "project")
    monkeypatch.setenv("AGENT_WORKSPACE_ROOT", str(tmp_path / "workspace"))
    monkeypatch.setenv("AGENT_SESSION_IDLE_TIMEOUT", "0.01")
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path / "data"))
    async with open_supervisor(load_settings(), store, world.box, None) as supervisor:
        (repo,) = await supervisor.repositories.scan(store)
        assert repo.id is not None
        sessions = [await supervisor.create(store, repo.id, agent="demo") for _ in range(2)]

        async def all_completed() -> bool:
            current = [await store.get_session(session.id) for session in sessions]
            return all(each.status is SessionStatus.COMPLETED for each in current)

        await until(all_completed)
        ended = [await store.get_session(session.id) for session in sessions]
    assert [each.status_reason for each in ended] == ["idle_timeout"] * 2


@pytest.mark.req("SES-24")
async def test_the_limit_and_the_root_come_from_the_environment(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MAX_SESSIONS", "2")
    monkeypatch.setenv("AGENT_WORKSPACE_ROOT", str(tmp_path))
    supervisor = open_supervisor(load_settings(), store, None, None)
    assert (supervisor.limit, supervisor.repositories.root) == (2, tmp_path)
    monkeypatch.setenv("AGENT_MAX_SESSIONS", "0")
    with pytest.raises(InvalidInput, match="max_sessions"):
        load_settings()


@pytest.mark.req("ACP-02")
def test_gemini_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    gemini = default_entries({"GEMINI_CLI_PATH": "/opt/gemini"})["gemini"]
    assert (gemini.command, gemini.args) == ("/opt/gemini", ("--experimental-acp",))
    assert gemini.workspace_flag is None  # the program exits when it is given one


def test_an_agent_and_its_rules_are_added_by_the_file(tmp_path: Path) -> None:
    configure(
        tmp_path,
        f"""
[agents.mine]
command = "{sys.executable}"
args = ["-m", "mine"]
env = {{ MODEL = "large" }}
pass_env = ["MINE_*"]
permissions = "deny"

[[agents.mine.rules]]
kind = "edit"
path = "docs/**"
decision = "allow"
""",
    )
    mine = Catalogue.from_settings(load_settings().agents)["mine"]
    outside = {"PATH": "/bin", "MINE_KEY": "k", "AWS_SECRET": "s"}
    assert mine.environment(outside) == {"PATH": "/bin", "MINE_KEY": "k", "MODEL": "large"}
    rule = Rule(decision=Decision.ALLOW, kind=ToolKind.EDIT, path="docs/**")
    assert mine.policy == Policy(default=Decision.DENY, rules=(rule,))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[agents.x]\nargs = ["a"]', "[agents.x] in the settings is wrong: Object missing required field"),
        ('[agents.x]\ncommand = "a"\ncolour = "b"', "contains unknown field `colour`"),
        ('[agents.x]\ncommand = "a"\npermissions = "maybe"', "Invalid enum value 'maybe'"),
        (
            '[agents.x]\ncommand = "a"\n[[agents.x.rules]]\ndecision = "allow"',
            "a rule needs a kind, a path or a command",
        ),
    ],
)
def test_a_wrong_entry_is_named_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    configure(tmp_path, text)
    with pytest.raises(InvalidInput) as refused:
        Catalogue.from_settings(load_settings().agents)
    assert sentence in str(refused.value)


def test_an_unknown_agent_is_told_which_there_are() -> None:
    with pytest.raises(
        NotFound, match=r"known are claude, codex, demo, gemini, goose, hermes, opencode, qwen"
    ):
        Catalogue.from_settings({})["none"]
