"""What an agent left behind is not believed when the next sandbox is made, or taken away."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from holdfast.agents.catalogue import AgentEntry
from holdfast.agents.sandbox import Access, Guard, Kind, SandboxRefused, Wanted, kinds, machine
from holdfast.agents.sandbox.kinds import Tools
from holdfast.agents.sandbox.proxy import _addresses
from holdfast.agents.sandbox.sandbox import Sandboxes
from holdfast.agents.session_files import kept
from holdfast.agents.supervisor import StartFailed
from holdfast.agents.workspace import Workspace
from holdfast.errors import InvalidInput
from tests.agents.scenes import CONFINING, SECRET, Scene
from tests.agents.worlds import World, git, repository, working
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("process")


# git


@pytest.mark.req("SEC-04")
async def test_a_git_directory_that_git_does_not_understand_is_not_guarded_by_half(scene: Scene) -> None:
    (scene.repository / ".git" / "HEAD").write_text("spoilt")
    with pytest.raises(SandboxRefused, match=r"git does not understand .*/\.git, so nothing"):
        await scene.open()


@pytest.mark.req("SEC-02", "SEC-04")
async def test_a_link_to_the_git_directory_of_another_repository_is_not_followed(scene: Scene) -> None:
    other = repository(scene.directory / "work" / "private")
    (scene.repository / ".git").rename(scene.directory / "away")
    (scene.repository / ".git").write_text(f"gitdir: {other / '.git'}\n")
    with pytest.raises(SandboxRefused, match=r"leads to .*/private/\.git, which names another working tree"):
        await scene.open()


async def test_a_linked_working_tree_and_a_git_directory_elsewhere_are_worked_in(scene: Scene) -> None:
    linked, apart = scene.directory / "work" / "linked", scene.directory / "work" / "apart"
    git(scene.repository, "worktree", "add", "--quiet", "-b", "linked", str(linked))
    git(scene.directory, "init", "--quiet", f"--separate-git-dir={scene.directory / 'elsewhere'}", str(apart))
    with pytest.raises(SandboxRefused, match=r"set core.worktree in its settings"):
        await scene.open(apart)
    git(apart, "config", "core.worktree", str(apart))
    for tree in (linked, apart):
        sandbox = await scene.open(tree)
        start = sandbox.start_of(["sh", "-c", "echo new > new && git add new"], tree)
        assert subprocess.run(start.line, env=start.environment, cwd=tree, check=False).returncode == 0
        await sandbox.close()


@pytest.mark.req("SEC-04", "SEC-06")
async def test_where_a_link_stands_for_what_git_believes_the_sandbox_says_that_it_holds_no_hooks(
    scene: Scene,
) -> None:
    hooks = scene.repository / ".git" / "hooks"
    hooks.rename(scene.repository / "hooks")
    hooks.symlink_to("../hooks")
    sandbox = await scene.open()
    await sandbox.close()
    assert Guard.GIT in sandbox.lacks
    with pytest.raises(SandboxRefused, match=r"replacing .*/\.git/hooks, which is a link"):
        await scene.open(sandbox=Wanted.REQUIRED)


@pytest.mark.req("SEC-04")
async def test_a_link_in_the_place_of_submodules_is_not_followed(scene: Scene) -> None:
    other = scene.directory / "work" / "other" / ".git"
    other.mkdir()
    (other / "HEAD").write_text("ref: refs/heads/main\n")
    (scene.repository / ".git" / "modules").symlink_to("../..")
    sandbox = await scene.open()
    await sandbox.close()
    assert [each.name for each in other.iterdir()] == ["HEAD"]
    assert Guard.GIT in sandbox.lacks


async def test_a_pipe_in_the_place_of_a_stand_in_keeps_nobody_waiting(scene: Scene) -> None:
    sandbox = await scene.open()
    stand_in = scene.repository / ".git" / "commondir"
    stand_in.unlink()  # as an agent can under Landlock
    os.mkfifo(stand_in)
    await sandbox.close()
    await scene.sandboxes.tidy()
    assert stand_in.is_fifo()


@pytest.mark.parametrize("hooks", [".husky/_", "tools/git/hooks"])
@pytest.mark.req("SEC-04")
async def test_hooks_that_the_settings_name_are_not_made_or_changed(scene: Scene, hooks: str) -> None:
    """husky runs what lies beside `_`."""
    git(scene.repository, "config", "core.hooksPath", hooks)
    sandbox = await scene.open()
    script = f"mkdir -p {hooks}; echo evil > {hooks}/pre-commit; echo evil > {hooks}/../pre-commit"
    scene.run(sandbox, "sh", "-c", script)
    await sandbox.close()
    left = [path for path in scene.repository.rglob("*") if path.name == "pre-commit"]
    assert left == []
    assert not (scene.repository / hooks).exists()


@pytest.mark.req("SEC-04")
async def test_hooks_that_the_persons_own_settings_name_are_guarded_in_each_repository(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(scene.home))
    (scene.home / ".gitconfig").write_text("[core]\n\thooksPath = team-hooks\n")
    sandbox = await scene.open()
    ended = scene.run(sandbox, "sh", "-c", "echo evil > team-hooks/pre-commit")
    await sandbox.close()
    assert ended.returncode != 0
    assert not (scene.repository / "team-hooks").exists()


@pytest.mark.req("SEC-02", "SEC-04")
async def test_a_shared_git_directory_is_where_it_belongs_or_nowhere(scene: Scene) -> None:
    linked = scene.directory / "work" / "linked"
    git(scene.repository, "worktree", "add", "--quiet", "-b", "linked", str(linked))
    other = repository(scene.directory / "work" / "private")
    (scene.repository / ".git" / "worktrees" / "linked" / "commondir").write_text(f"{other / '.git'}\n")
    with pytest.raises(SandboxRefused, match=r"commondir leads to .*/private/\.git"):
        await scene.open(linked)


async def test_a_working_tree_that_an_agent_does_not_see_is_not_pruned(scene: Scene) -> None:
    git(
        scene.repository,
        "worktree",
        "add",
        "--quiet",
        "-b",
        "linked",
        str(scene.directory / "work" / "linked"),
    )
    sandbox = await scene.open()
    scene.run(sandbox, "git", "worktree", "prune")
    await sandbox.close()
    kept = scene.repository / ".git" / "worktrees" / "linked"
    assert {path.name for path in kept.iterdir()} >= {"HEAD", "index", "gitdir", "commondir"}


async def test_a_git_directory_that_an_agent_spoils_is_named(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """git would look for another one, and take a working tree that looks like one."""
    sandbox = await scene.open()
    scene.run(sandbox, "sh", "-c", "echo spoilt > .git/HEAD")
    await sandbox.close()
    assert f"an agent spoilt {scene.repository}/.git" in caplog.text


async def test_sandboxes_of_a_repository_and_of_its_submodule_share_stand_ins(scene: Scene) -> None:
    module = scene.directory / "work" / "module"
    repository(module)
    git(
        scene.repository,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "--quiet",
        str(module),
        "sub",
    )
    outer, inner = await scene.open(), await scene.open(scene.repository / "sub")
    await outer.close()
    stand_in = scene.repository / ".git" / "modules" / "sub" / "commondir"
    assert stand_in.exists()
    start = inner.start_of(["sh", "-c", f"echo evil > {stand_in}"], scene.repository / "sub")
    ended = subprocess.run(start.line, env=start.environment, cwd=scene.repository / "sub", check=False)
    await inner.close()
    assert ended.returncode != 0
    assert not stand_in.exists()


async def test_files_of_a_repository_that_only_its_owner_may_read_are_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that lies in a directory of the system, whose private files are hidden."""
    monkeypatch.setattr(machine, "FOR_FEW", {scene.directory / "work": 3})
    machine._for_few.cache_clear()
    (scene.repository / "private").write_text("mine\n")
    (scene.repository / "private").chmod(0o600)
    sandbox = await scene.open()
    machine._for_few.cache_clear()
    ended = scene.run(sandbox, "cat", "private")
    await sandbox.close()
    assert ended.stdout == "mine\n"


# Homes


@pytest.mark.req("SEC-02")
async def test_settings_that_are_linked_into_the_repository_are_only_read_there_too(scene: Scene) -> None:
    """As those that somebody keeps in a repository of dotfiles, and works on it."""
    for name in (".codex/config.toml", ".gitconfig"):
        kept = scene.repository / name.replace("/", "_")
        kept.write_text("mine\n")
        (scene.home / name).unlink(missing_ok=True)
        (scene.home / name).symlink_to(kept)
    sandbox = await scene.open()
    script = "for each in .codex_config.toml .gitconfig; do echo evil > $each; done"
    scene.run(sandbox, "sh", "-c", script)
    await sandbox.close()
    assert (scene.repository / ".codex_config.toml").read_text() == "mine\n"
    assert (scene.repository / ".gitconfig").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["/etc/x", "../x", "~/.mine", "", "."])
def test_configuration_is_named_below_a_home(name: str) -> None:
    with pytest.raises(ValueError, match="no path below a home"):
        AgentEntry(command="a", configuration=(name,))
    with pytest.raises(ValueError, match="no path below a home"):
        AgentEntry(command="a", credentials=(name,))


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("confining", CONFINING)
async def test_settings_that_an_agent_gives_itself_are_gone_at_its_next_start(
    tmp_path: Path, made_by: Tools, confining: Kind
) -> None:
    scene = Scene(tmp_path, confining, made_by)
    configuration = (".codex/config.toml", ".codex/hooks.json", ".codex/rules")
    put = "echo evil > ~/.codex/hooks.json; mkdir ~/.codex/rules; echo evil > ~/.codex/rules/x; ls ~/.codex"
    said = []
    for script in (put, "ls ~/.codex"):
        sandbox = await scene.open(configuration=configuration)
        said.append(scene.run(sandbox, "sh", "-c", script).stdout.split())
        await sandbox.close()
    assert said == [["auth.json", "config.toml", "hooks.json", "rules"], ["auth.json", "config.toml"]]


@pytest.mark.req("SEC-02")
@pytest.mark.parametrize("confining", CONFINING)
async def test_links_that_an_agent_left_in_its_home_lead_nowhere(
    tmp_path: Path, made_by: Tools, confining: Kind
) -> None:
    scene = Scene(tmp_path, confining, made_by)
    (await scene.open()).home.joinpath(".keep").touch()
    sandbox = await scene.open()
    own = sandbox.home
    await sandbox.close()
    subprocess.run(["rm", "-rf", own / ".codex", own / ".config", own / ".local"], check=True)
    for name in (".codex", ".config", ".local"):
        (own / name).symlink_to(scene.home / ".ssh")
    sandbox = await scene.open()
    ended = scene.run(sandbox, "sh", "-c", "cat ~/.codex/config.toml; ls -d ~/.config/git ~/.local/bin")
    await sandbox.close()
    assert ended.returncode == 0, ended
    assert [each.name for each in (scene.home / ".ssh").iterdir()] == ["id_ed25519"]


@pytest.mark.req("SEC-07")
async def test_each_person_of_an_organization_has_homes_of_their_own(scene: Scene) -> None:
    homes = []
    for organization, user in (
        ("acme", "ada"),
        ("acme", "bob"),
        ("..", "ada"),
        ("git-x", "a/b"),
        (".", ".."),
    ):
        sandbox = await scene.sandboxes.open(
            scene.entry, scene.repository, scene.entry.environment(), owner=(organization, user, "agent")
        )
        await sandbox.close()
        homes.append(sandbox.home)
    assert len({home.parent for home in homes}) == len(homes)
    assert {home.parents[3] for home in homes} == {scene.data / "sandboxes" / "homes"}
    await scene.sandboxes.tidy()
    assert all(home.is_dir() for home in homes)


@pytest.mark.req("SEC-02")
async def test_a_link_in_the_place_of_its_sessions_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "shell"
    home.mkdir()
    outside.write_text("mine")

    async def load() -> None:
        async with kept(home, ["*-{id}"], "1"):
            for name in ("a-1", "b-1"):
                (home / name).unlink()
                (home / name).symlink_to(outside)
            raise StartFailed("it did not load")

    (home / "a-1").write_text("the agent's")
    (home / "b-1").symlink_to(outside)
    with pytest.raises(StartFailed):
        await load()
    assert outside.read_text() == "mine"


async def test_settings_of_git_that_are_a_link_are_read(scene: Scene) -> None:
    """As those that somebody keeps in a repository of dotfiles."""
    (scene.home / "dotfiles").mkdir()
    (scene.home / "dotfiles" / "git").write_text("[user]\n\tname = linked\n")
    (scene.home / ".gitconfig").symlink_to("dotfiles/git")
    sandbox = await scene.open()
    ended = scene.run(sandbox, "git", "config", "user.name")
    await sandbox.close()
    assert ended.stdout == "linked\n"


# Starting


async def test_other_users_read_no_variable_of_a_command(scene: Scene) -> None:
    sandbox = await scene.open()
    start = sandbox.start_of(["env"], scene.repository, {"TOKEN": SECRET, "LINES": "a\nb"})
    said = scene.run(sandbox, "env", "-0", TOKEN=SECRET, LINES="a\nb").stdout.split("\0")
    await sandbox.close()
    assert SECRET not in " ".join(start.line)
    assert {f"TOKEN={SECRET}", "LINES=a\nb"} < set(said)
    assert not any(each.startswith("HOLDFAST_VARIABLES") for each in said)


async def test_an_exit_code_of_a_programs_own_is_no_signal(scene: Scene) -> None:
    sandbox = await scene.open()
    codes = [
        sandbox.exit_code(scene.run(sandbox, "sh", "-c", f"exit {code}").returncode) for code in (129, 255)
    ]
    await sandbox.close()
    assert codes == [129, 255]


async def test_a_machine_that_starts_no_program_now_is_not_one_without_sandboxes(
    tmp_path: Path, made_by: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds._tools.cache_clear()
    launcher = kinds.launcher
    monkeypatch.setattr(kinds, "launcher", lambda *arguments: ["/nowhere/python"])
    sandboxes = Sandboxes(tmp_path / "sandboxes")
    with pytest.raises(SandboxRefused, match="It cannot be found out which sandboxes"):
        await sandboxes.tools()
    monkeypatch.setattr(kinds, "launcher", launcher)
    assert await sandboxes.tools() == made_by


def test_a_host_may_be_an_address_of_ipv6() -> None:
    assert _addresses("[::1]:8080") == [("::1", 8080)]
    assert _addresses("Example.org") == [("example.org", 443), ("example.org", 80)]


# Through Holdfast


@pytest.mark.req("SEC-04")
async def test_what_an_agent_may_not_write_itself_a_person_decides(world: World) -> None:
    git(await _made(world), "config", "core.hooksPath", "team/hooks")
    (world.repository / "team" / "hooks").mkdir(parents=True)
    world.trust()
    async with working(world) as (supervisor, session):
        asked = asyncio.create_task(world.ask(supervisor, session, "write team/hooks/pre-commit evil"))

        async def a_question() -> bool:
            return bool(await world.box.list())

        await until(a_question)
        (question,) = await world.box.list()
        await world.box.reject(question.id, "no", by="person", door="test")
        await asked
    assert not (world.repository / "team" / "hooks" / "pre-commit").exists()


def test_a_path_that_leads_elsewhere_after_it_was_judged_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "a").symlink_to("plain")
    workspace = Workspace(tmp_path)
    judged = workspace.confined("a/x")
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to("hooks")
    with pytest.raises(InvalidInput, match="leads elsewhere now"):
        workspace.write_text("a/x", "evil", judged=judged)
    with pytest.raises(InvalidInput, match="leads elsewhere now"):
        workspace.read_text("a/x", judged=judged)


async def test_what_an_agent_may_do_with_a_file_is_what_its_sandbox_says(scene: Scene) -> None:
    git(scene.home, "init", "--quiet")
    sandbox = await scene.open(scene.home)
    await sandbox.close()
    places = (".ssh/id_ed25519", "diary.txt", ".git/config", ".codex/config.toml")
    found = [sandbox.access((scene.home / place).resolve()) for place in places]
    assert found == [Access.HIDDEN, Access.WRITE, Access.READ, Access.READ]


async def _made(world: World) -> Path:
    await world.repo()
    return world.repository


async def test_sandboxes_of_one_agent_are_opened_side_by_side(scene: Scene) -> None:
    sandboxes = await asyncio.gather(*(scene.open() for _ in range(6)))
    ended = await asyncio.gather(*(asyncio.to_thread(scene.run, each, "true") for each in sandboxes))
    await asyncio.gather(*(each.close() for each in sandboxes))
    assert [each.returncode for each in ended] == [0] * 6
    left = {path.name for path in (scene.repository / ".git").iterdir()}
    assert not left & {"commondir", "config.worktree", "modules", "worktrees"}


async def test_sandboxes_of_two_data_directories_share_stand_ins_in_one_repository(scene: Scene) -> None:
    first, second = [
        Sandboxes(scene.data / name, made_by=scene.tools, records=scene.data / "records") for name in "ab"
    ]
    owner = ("local", "person", "agent")
    opened = [
        await each.open(scene.entry, scene.repository, scene.entry.environment(), owner=owner)
        for each in (first, second)
    ]
    await opened[0].close()
    assert scene.run(opened[1], "sh", "-c", "echo evil > .git/commondir").returncode != 0
    await opened[1].close()
    assert not (scene.repository / ".git" / "commondir").exists()
