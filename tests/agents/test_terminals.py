"""Terminals: real commands, run in a workspace and ended whole."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acp.schema import TerminalOutputResponse, WaitForTerminalExitResponse
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents import terminals as module
from holdfast.agents.command import Command
from holdfast.agents.process import start_time
from holdfast.agents.sandbox import Sandbox
from holdfast.agents.terminals import LIMIT, OUTPUT_KEPT, Terminals, TooManyTerminals
from holdfast.agents.workspace import OutsideWorkspace, Workspace
from holdfast.errors import Conflict, HoldfastError, InvalidInput, NotFound
from tests.agents.scripts import members
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.usefixtures("process")

IGNORES_SIGTERM = "trap '' TERM; echo ready; sleep 600 & wait; sleep 600"


@dataclass
class Variable:
    name: str
    value: str


def terminals_of(
    root: Path, started: Any, ended: Any, environment: Mapping[str, str] = os.environ
) -> Terminals:
    """Terminals in which every command may run."""

    async def decided(command: Command) -> None:
        pass

    async def exited(command: Command, code: int) -> None:
        pass

    return Terminals(
        Workspace(root),
        Sandbox.none(environment),
        decided=decided,
        exited=exited,
        started=started,
        ended=ended,
    )


class Record:
    """The process groups that are on record, and those that ever were."""

    def __init__(self) -> None:
        self.groups: dict[int, float] = {}
        self.all: list[int] = []

    async def started(self, group: int, start: float) -> None:
        self.groups[group] = start
        self.all.append(group)

    async def ended(self, group: int) -> None:
        del self.groups[group]


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
async def terminals(tmp_path: Path, record: Record) -> AsyncIterator[Terminals]:
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "repo" / "out").symlink_to(tmp_path)
    environment = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    opened = terminals_of(tmp_path / "repo", record.started, record.ended, environment)
    yield opened
    await opened.close()
    assert record.groups == {}
    assert [group for group in record.all if members(group)] == []


async def shell(terminals: Terminals, script: str, **options: Any) -> str:
    return await terminals.create("sh", ["-c", script], **options)


async def finished(terminals: Terminals, terminal: str) -> dict[str, Any]:
    """The whole answer to `terminal/output` once the command has exited."""
    async with asyncio.timeout(SECONDS):
        status = await terminals.wait_for_exit(terminal)
    WaitForTerminalExitResponse.model_validate(status)
    answer = terminals.output(terminal)
    TerminalOutputResponse.model_validate(answer)
    assert answer["exitStatus"] == status
    return answer


async def until_it_says(terminals: Terminals, terminal: str, word: str) -> None:
    await until(lambda: word in terminals.output(terminal)["output"])


async def test_a_command_runs_in_the_workspace_with_its_arguments_and_variables(
    terminals: Terminals, tmp_path: Path
) -> None:
    terminal = await shell(
        terminals,
        'echo "$GREETING $WHO in $(pwd)"; cat; echo error >&2; echo "$0 $1"; exit 3',
        env=[Variable("WHO", "world")],
    )
    assert await finished(terminals, terminal) == {
        "output": f"hello world in {tmp_path / 'repo'}\nerror\nsh \n",
        "truncated": False,
        "exitStatus": {"exitCode": 3, "signal": None},
    }


async def test_its_environment_is_exactly_what_was_given(
    terminals: Terminals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET", "x")
    answer = await finished(terminals, await terminals.create("env", env=[Variable("GREETING", "a=b")]))
    assert sorted(answer["output"].splitlines()) == ["GREETING=a=b", f"PATH={os.environ['PATH']}"]


async def test_a_directory_is_relative_or_absolute_and_inside_the_workspace(
    terminals: Terminals, tmp_path: Path
) -> None:
    inside = tmp_path / "repo" / "src"
    for cwd in ("src", str(inside), "out/repo/src"):
        answer = await finished(terminals, await terminals.create("pwd", cwd=cwd))
        assert answer["output"] == f"{inside}\n"
    for cwd in ("..", "out", "/", str(tmp_path), "src/../../x"):
        with pytest.raises(OutsideWorkspace):
            await terminals.create("pwd", cwd=cwd)
    with pytest.raises(NotFound, match="no directory missing"):
        await terminals.create("pwd", cwd="missing")


async def test_a_command_that_is_over_at_once_has_all_its_output(terminals: Terminals) -> None:
    for _ in range(50):
        terminal = await terminals.create("echo", ["x" * 10_000])
        assert len((await finished(terminals, terminal))["output"]) == 10_001
        await terminals.release(terminal)


async def test_a_line_for_a_shell_is_given_to_a_shell(terminals: Terminals) -> None:
    answer = await finished(terminals, await terminals.create("echo one && echo two | tr a-z A-Z"))
    assert answer["output"] == "one\nTWO\n"


async def test_a_program_with_a_space_in_its_name_is_a_program(terminals: Terminals, tmp_path: Path) -> None:
    shutil.copy(shutil.which("true") or "", tmp_path / "repo" / "my true")
    assert (await finished(terminals, await terminals.create("./my true")))["exitStatus"]["exitCode"] == 0


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "no command": {"command": ""},
    "an unknown program": {"command": "no-such-program"},
    "an unknown program with arguments": {"command": "no-such-program", "args": ["a b"]},
    "a file that is no program": {"command": "./data"},
    "a directory": {"command": "./src"},
    "a NUL in the command": {"command": "e\0cho"},
    "a NUL in an argument": {"command": "echo", "args": ["a\0b"]},
    "half of a surrogate pair": {"command": "echo", "args": ["\ud800"]},
    "a NUL in a variable": {"command": "env", "env": [Variable("A", "\0")]},
    "an equals sign in a name": {"command": "env", "env": [Variable("A=B", "c")]},
    "a variable without a name": {"command": "env", "env": [Variable("", "c")]},
    "a NUL in the directory": {"command": "echo", "cwd": "a\0b"},
    "a negative limit": {"command": "echo", "output_byte_limit": -1},
    "an argument that is too long": {"command": "echo", "args": ["x" * 3_000_000]},
}


@pytest.mark.parametrize("call", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_what_cannot_be_run_is_refused_in_a_sentence(
    terminals: Terminals, record: Record, tmp_path: Path, call: dict[str, Any]
) -> None:
    (tmp_path / "repo" / "data").write_text("no program")
    with pytest.raises(InvalidInput, match=r"\.$"):
        await terminals.create(**call)
    assert record.all == []


async def test_only_the_end_of_the_output_is_kept_and_it_is_read_all_along(terminals: Terminals) -> None:
    terminal = await shell(
        terminals, "head -c 50000000 /dev/zero | tr '\\0' x; echo the end", output_byte_limit=1000
    )
    answer = await finished(terminals, terminal)
    assert answer["truncated"] is True
    assert answer["output"] == "x" * 992 + "the end\n"


async def test_the_limit_has_a_cap_and_a_default(terminals: Terminals) -> None:
    for limit in (None, 10**12):
        terminal = await shell(terminals, "head -c 3000000 /dev/zero | tr '\\0' x", output_byte_limit=limit)
        assert len((await finished(terminals, terminal))["output"]) == OUTPUT_KEPT
    nothing = await terminals.create("echo", ["x"], output_byte_limit=0)
    assert (await finished(terminals, nothing))["output"] == ""


@given(st.text(max_size=40), st.integers(0, 200), st.integers(1, 7))
def test_what_is_kept_of_an_output_is_its_end_in_whole_characters(text: str, kept: int, size: int) -> None:
    data = text.encode(errors="replace")
    output = module._Output(kept)
    for start in range(0, len(data), size):
        output.data_received(data[start : start + size])
    end, truncated = output.text(complete=True)
    assert data.decode().endswith(end)
    assert truncated is (len(data) > kept)
    assert kept - 4 < len(end.encode()) <= kept if truncated else end == data.decode()


@given(st.binary(max_size=100), st.integers(0, 60))
def test_any_bytes_become_text(data: bytes, kept: int) -> None:
    output = module._Output(kept)
    output.data_received(data)
    half, _ = output.text(complete=False)
    whole, truncated = output.text(complete=True)
    assert whole.startswith(half)
    assert truncated is (len(data) > kept)


def test_half_a_character_waits_for_its_other_half() -> None:
    output = module._Output(100)
    output.data_received("aé".encode()[:2])
    assert output.text(complete=False) == ("a", False)
    output.data_received("é".encode()[1:])
    assert output.text(complete=False) == ("aé", False)


async def test_an_exit_is_seen_although_a_helper_holds_the_output(
    terminals: Terminals, record: Record
) -> None:
    terminal = await shell(terminals, "echo before; sleep 600 & exit 4")
    answer = await finished(terminals, terminal)
    assert (answer["output"], answer["exitStatus"]["exitCode"]) == ("before\n", 4)
    assert members(record.all[0]) != []
    await terminals.release(terminal)
    assert members(record.all[0]) == []


async def test_a_signal_is_told_by_its_name(terminals: Terminals) -> None:
    for sign in ("KILL", "SEGV"):
        answer = await finished(terminals, await shell(terminals, f"kill -{sign} $$"))
        assert answer["exitStatus"] == {"exitCode": None, "signal": f"SIG{sign}"}


@pytest.mark.parametrize("script", ["echo ready; sleep 600", IGNORES_SIGTERM])
async def test_a_killed_command_is_gone_with_its_group_and_can_still_be_read(
    terminals: Terminals, record: Record, script: str
) -> None:
    terminal = await shell(terminals, script)
    await until_it_says(terminals, terminal, "ready")
    waiting = asyncio.create_task(terminals.wait_for_exit(terminal))
    assert terminals.output(terminal)["exitStatus"] is None
    await asyncio.gather(terminals.kill(terminal), terminals.kill(terminal))
    assert members(record.all[0]) == []
    answer = await finished(terminals, terminal)
    assert await waiting == answer["exitStatus"]
    assert answer["exitStatus"]["signal"] in ("SIGTERM", "SIGKILL")
    assert answer["output"].startswith("ready\n")
    await terminals.kill(terminal)


async def test_a_released_terminal_is_forgotten(terminals: Terminals, record: Record) -> None:
    terminal = await shell(terminals, "sleep 600")
    await terminals.release(terminal)
    assert record.groups == {}
    with pytest.raises(NotFound):
        terminals.output(terminal)
    for method in (terminals.wait_for_exit, terminals.kill, terminals.release):
        with pytest.raises(NotFound, match="no terminal"):
            await method(terminal)


async def test_the_number_of_terminals_is_limited(terminals: Terminals) -> None:
    made = await asyncio.gather(*(shell(terminals, "sleep 600") for _ in range(LIMIT)))
    with pytest.raises(TooManyTerminals, match="release one"):
        await terminals.create("true")
    await terminals.release(made[0])
    await terminals.create("true")


async def test_closing_ends_all_of_them_and_no_other_starts(terminals: Terminals, record: Record) -> None:
    scripts = ["sleep 600", IGNORES_SIGTERM, "exit 0", "sleep 600 & exit 0", "kill -STOP $$"]
    made = [await shell(terminals, script) for script in scripts]
    await until_it_says(terminals, made[1], "ready")
    await terminals.close()
    assert [group for group in record.all if members(group)] == []
    assert record.groups == {}
    with pytest.raises(Conflict, match="session ends"):
        await terminals.create("true")


async def test_a_group_is_on_record_with_its_start_before_the_agent_hears_of_it(
    terminals: Terminals, record: Record
) -> None:
    await shell(terminals, "sleep 600")
    ((group, started),) = record.groups.items()
    assert started == start_time(group)
    assert os.getpgid(group) == group


class StoreFailed(HoldfastError):
    pass


async def test_a_command_that_cannot_be_recorded_is_ended(tmp_path: Path) -> None:
    groups: list[int] = []

    async def started(group: int, start: float) -> None:
        groups.append(group)
        raise StoreFailed("The store is full.")

    async def ended(group: int) -> None:
        pass

    terminals = terminals_of(tmp_path, started, ended)
    with pytest.raises(StoreFailed):
        await terminals.create("sleep", ["600"])
    assert members(groups[0]) == []


async def test_a_create_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    groups: asyncio.Queue[int] = asyncio.Queue()

    async def started(group: int, start: float) -> None:
        groups.put_nowait(group)
        await asyncio.Event().wait()

    async def ended(group: int) -> None:
        groups.put_nowait(group)

    terminals = terminals_of(tmp_path, started, ended)
    creating = asyncio.create_task(terminals.create("sleep", ["600"]))
    group = await groups.get()
    creating.cancel()
    await asyncio.wait([creating])
    assert creating.cancelled()
    assert await groups.get() == group
    assert members(group) == []


async def test_one_that_cannot_be_taken_off_the_record_does_not_keep_the_others(
    tmp_path: Path,
) -> None:
    groups: list[int] = []

    async def started(group: int, start: float) -> None:
        groups.append(group)

    async def ended(group: int) -> None:
        if group == groups[0]:
            raise StoreFailed("The store is full.")

    terminals = terminals_of(tmp_path, started, ended)
    for _ in range(3):
        await shell(terminals, "sleep 600")
    with pytest.raises(StoreFailed):
        await terminals.close()
    assert [group for group in groups if members(group)] == []
