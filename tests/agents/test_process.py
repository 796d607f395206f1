"""Processes: started in a group of their own, drained, and ended whole."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.agents.process import SESSION_MARK, AgentProcess, start_time, strays, sweep
from holdfast.agents.sandbox import Sandbox
from tests.agents.scripts import members, script
from tests.waiting import SECONDS

pytestmark = pytest.mark.usefixtures("process")


async def start(tmp_path: Path, body: str, **environment: str) -> AgentProcess:
    clean = {"PATH": os.environ["PATH"], **environment}
    return await AgentProcess.start(script(tmp_path, body), tmp_path, Sandbox.none(clean))


async def read_line(process: AgentProcess) -> str:
    data = b""
    while not data.endswith(b"\n"):
        data += await process.read(1000)
    return data.decode().strip()


async def test_it_leads_its_own_group_in_its_directory_with_exactly_its_environment(tmp_path: Path) -> None:
    os.environ["HOLDFAST_SECRET"] = "x"
    process = await start(
        tmp_path, "send({'cwd': os.getcwd(), 'env': dict(os.environ), 'group': os.getpgid(0)})", A="1"
    )
    told = json.loads(await read_line(process))
    del os.environ["HOLDFAST_SECRET"]
    assert told["cwd"] == str(tmp_path)
    assert told["group"] == process.pid != os.getpgid(0)
    assert told["env"].keys() - {"LC_CTYPE", "PWD", "SHLVL", "_"} == {"PATH", "A"}
    assert await process.exited == 0
    await process.end()


async def test_standard_error_is_drained_and_its_end_kept(tmp_path: Path) -> None:
    process = await start(
        tmp_path, "sys.stderr.write('x' * 1_000_000 + 'the end'); sys.stderr.flush(); send('alive')"
    )
    assert await read_line(process) == "alive"
    assert await process.exited == 0
    await process.end()
    assert process.stderr_tail.endswith("the end")
    assert len(process.stderr_tail) <= 2 * 64 * 1024


@pytest.mark.parametrize(("body", "code"), [("sys.exit(7)", 7), ("os.kill(0, signal.SIGKILL)", -9), ("", 0)])
async def test_the_exit_is_seen_with_its_code_or_signal(tmp_path: Path, body: str, code: int) -> None:
    process = await start(tmp_path, body)
    assert await process.exited == code
    await process.end()


async def test_an_exit_is_seen_although_a_helper_holds_the_pipes(tmp_path: Path) -> None:
    helper = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); sys.exit(3)"
    process = await start(tmp_path, helper)
    async with asyncio.timeout(SECONDS):
        assert await process.exited == 3
    assert members(process.pid) != []
    await process.end()
    assert members(process.pid) == []


STUBBORN = {
    "waits for its input to end": "sys.stdin.read()",
    "heeds SIGTERM only": "time.sleep(600)",
    "ignores SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN); send('ready'); time.sleep(600)",
    "has helpers that ignore SIGTERM": """
code = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(600)"
)
for _ in range(3): subprocess.Popen([sys.executable, "-c", code])
time.sleep(600)
""",
    "ends and leaves helpers": "[subprocess.Popen(['sleep', '600']) for _ in range(3)]; send('ready')",
    "is stopped": "send('ready'); os.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.parametrize("kind", STUBBORN)
async def test_nothing_is_left_of_an_agent_that(tmp_path: Path, kind: str) -> None:
    process = await start(tmp_path, STUBBORN[kind])
    if "ready" in STUBBORN[kind]:
        assert "ready" in await read_line(process)
    await process.end()
    assert members(process.pid) == []
    assert await asyncio.wait_for(asyncio.shield(process.exited), SECONDS) is not None


async def test_what_a_dead_server_left_is_swept_and_a_stranger_is_not(tmp_path: Path) -> None:
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    started = start_time(left.pid)
    assert started is not None
    try:
        assert await sweep(stranger.pid, started - 1000) is False
        assert members(stranger.pid) == [stranger.pid]
        reaper = asyncio.create_task(asyncio.to_thread(left.wait))
        assert await sweep(left.pid, started) is True
        assert await reaper == -signal.SIGTERM
        assert await sweep(left.pid, started) is False
    finally:
        stranger.kill()
        stranger.wait()


async def test_what_left_its_group_is_swept_by_its_session(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}
    ours, other = (
        subprocess.Popen(["sleep", "600"], env=environment | {SESSION_MARK: session}, start_new_session=True)
        for session in ("ours", "other")
    )
    gone = subprocess.Popen(["true"], start_new_session=True)
    gone.wait()
    try:
        assert await sweep(gone.pid, 0, "nobody's") is False
        reaper = asyncio.create_task(asyncio.to_thread(ours.wait))
        assert await sweep(gone.pid, 0, "ours") is True
        assert await reaper == -signal.SIGTERM
        assert members(other.pid) == [other.pid]
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("steps", [1, 3])
async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path, steps: int) -> None:
    session = str(uuid4())
    environment = {**os.environ, SESSION_MARK: session}
    starting = asyncio.create_task(
        AgentProcess.start(script(tmp_path, "time.sleep(600)"), tmp_path, Sandbox.none(environment))
    )
    for _ in range(steps):
        await asyncio.sleep(0)
    while not strays(session):  # what it was started with can be read an instant after it runs
        pass
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    assert strays(session) == []


async def test_a_missing_program_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await AgentProcess.start([str(tmp_path / "missing")], tmp_path, Sandbox.none({}))
