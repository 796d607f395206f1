"""Repositories under a root: found to a depth, described without running anything of theirs, forgotten."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast import Principal, PrincipalRole, Store
from holdfast.agents.repositories import NoWorkspaceRoot, Repositories, repository_paths
from holdfast.agents.workspace import OutsideWorkspace
from holdfast.errors import NotFound
from tests.agents.worlds import git, repository

pytestmark = pytest.mark.usefixtures("process")

NOBODY = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


async def names(store: Store, root: Path, depth: int = 3) -> list[str]:
    """The repositories that a scan finds, by their paths below the root."""
    found = await Repositories(root, depth=depth).scan(store)
    return [str(Path(repo.path).relative_to(root)) for repo in found]


@contextmanager
def without_privileges() -> Iterator[None]:
    """A superuser reads what nobody may read; so let nobody read for a while."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


async def test_a_repository_is_described_by_name_path_branch_commit_and_remote(
    store: Store, root: Path
) -> None:
    path = repository(root / "project")
    git(path, "checkout", "--quiet", "-b", "feature/heron")
    git(path, "remote", "add", "origin", "https://example.org/heron.git")
    (found,) = await Repositories(root).scan(store)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=path, text=True).strip()
    assert (found.name, found.path, found.branch) == ("project", str(path), "feature/heron")
    assert (found.last_commit, found.remote) == (f"{commit} first", "https://example.org/heron.git")
    assert found.id is not None
    assert await store.get_repo(found.id) == found


async def test_a_repository_without_a_commit_or_a_branch_is_found_all_the_same(
    store: Store, root: Path
) -> None:
    (root / "new").mkdir()
    git(root / "new", "init", "--quiet", "--initial-branch=main")
    git(repository(root / "detached"), "checkout", "--quiet", "--detach")
    detached, new = await Repositories(root).scan(store)
    assert (new.branch, new.last_commit, new.remote) == ("main", None, None)
    assert (detached.branch, (detached.last_commit or "").split()[1:]) == (None, ["first"])


async def test_the_scan_goes_so_deep_and_not_into_repositories(store: Store, root: Path) -> None:
    for path in ("a", "b/one", "b/c/two", "b/c/d/three", "a/inner", "node_modules/package"):
        repository(root / path)
    assert await names(store, root, 3) == ["a", "b/c/two", "b/one"]
    assert await names(store, root, 1) == ["a"]
    assert await names(store, root / "a", 0) == ["."]
    assert await names(store, root, 0) == []


async def test_links_are_not_followed(store: Store, root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "outside")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "circle").symlink_to(root)
    (root / "dangling").mkdir()
    (root / "dangling" / ".git").symlink_to(tmp_path / "nowhere")
    assert await names(store, root) == []


async def test_the_root_itself_may_be_a_link(store: Store, root: Path, tmp_path: Path) -> None:
    repository(root / "project")
    (tmp_path / "link").symlink_to(root)
    (found,) = await Repositories(tmp_path / "link").scan(store)
    assert found.path == str(root / "project")


async def test_worktrees_and_submodules_are_repositories_of_their_own(store: Store, root: Path) -> None:
    main = repository(root / "main")
    git(main, "worktree", "add", "--quiet", "-b", "side", str(root / "side"))
    repository(root / "library")
    outer = root / "group"
    outer.mkdir()
    git(outer, "-c", "protocol.file.allow=always", "clone", "--quiet", str(root / "library"), "clone")
    (outer / "sub").mkdir()
    (outer / "sub" / ".git").write_text(f"gitdir: {outer / 'clone' / '.git'}\n")
    found = {repo.name: repo for repo in await Repositories(root).scan(store)}
    assert set(found) == {"main", "side", "library", "clone", "sub"}
    assert (found["side"].branch, found["side"].last_commit) == ("side", found["main"].last_commit)
    assert found["sub"].branch == "main"


async def test_directories_without_git_and_bare_repositories_are_not_workspaces(
    store: Store, root: Path
) -> None:
    (root / "plain" / "deeper").mkdir(parents=True)
    (root / "bare.git").mkdir()
    git(root / "bare.git", "init", "--quiet", "--bare")
    (root / "file").write_text("x")
    assert await names(store, root) == []


@pytest.mark.parametrize("broken", ["empty directory", "file of nonsense"])
async def test_a_broken_repository_says_nothing_of_one_further_up(
    store: Store, tmp_path: Path, broken: str
) -> None:
    root = repository(tmp_path / "home") / "workspace"
    inner = root / "broken"
    inner.mkdir(parents=True)
    if broken == "empty directory":
        (inner / ".git").mkdir()
    else:
        (inner / ".git").write_bytes(b"\xff\0nonsense")
    (found,) = await Repositories(root).scan(store)
    assert (found.name, found.branch, found.last_commit) == ("broken", None, None)


def test_a_directory_that_may_not_be_read_is_passed_over() -> None:
    with TemporaryDirectory(prefix="holdfast-") as directory:
        root = Path(directory)
        root.chmod(0o755)
        repository(root / "readable")
        for mode, name in ((0o000, "closed"), (0o444, "listed"), (0o111, "entered")):
            repository(root / name / "project")
            (root / name).chmod(mode)
        with without_privileges():
            found = [path.name for path in repository_paths(root, 3)]
        for name in ("closed", "listed", "entered"):
            (root / name).chmod(0o755)
    assert found == ["readable"]


ODD_NAMES = [
    "with space",
    "-rf",
    "quo'te\"",
    "new\nline",
    "$(touch run)",
    "ünï😀",
    "--git-dir=x",
    "a;b",
    "%s%n",
]


async def test_names_with_odd_characters_are_names(store: Store, root: Path) -> None:
    for name in ODD_NAMES:
        repository(root / name)
    found = await Repositories(root).scan(store)
    assert sorted(repo.name for repo in found) == sorted(ODD_NAMES)
    assert {(repo.branch, (repo.last_commit or "").endswith(" first")) for repo in found} == {("main", True)}
    assert not list(root.rglob("run"))


async def test_a_name_that_is_no_text_is_left_out_and_the_others_are_found(
    store: Store, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository(root / "fine")
    repository(Path(os.fsdecode(os.fsencode(root) + b"/odd\xff")))
    assert await names(store, root) == ["fine"]
    assert r"odd\udcff' is left out" in caplog.text


async def test_what_a_commit_says_is_shortened_and_made_text(store: Store, root: Path) -> None:
    path = repository(root / "project")
    git(path, "commit", "--quiet", "--allow-empty", "-m", "x" * 100_000)
    (found,) = await Repositories(root).scan(store)
    assert len(found.last_commit or "") == 40 + 1 + 200
    git(path, "-c", "i18n.commitEncoding=latin1", "commit", "--quiet", "--allow-empty", "-m", "caf\udce9")
    (found,) = await Repositories(root).scan(store)
    assert (found.last_commit or "").endswith(" café")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:s3cret@example.org/heron.git", "https://example.org/heron.git"),
        ("https://ada@example.org/heron.git", "https://ada@example.org/heron.git"),
        ("git@example.org:heron.git", "git@example.org:heron.git"),
    ],
)
async def test_a_password_in_the_remote_is_not_shown(store: Store, root: Path, url: str, shown: str) -> None:
    git(repository(root / "project"), "remote", "add", "origin", url)
    (found,) = await Repositories(root).scan(store)
    assert found.remote == shown


async def test_no_program_that_a_repository_names_is_run(store: Store, root: Path, tmp_path: Path) -> None:
    """Looking at a repository of a stranger must not run the stranger's code."""
    path = repository(root / "trap")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path / 'sprung'}\n")
    trap.chmod(0o755)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=path, text=True).strip()
    signed = subprocess.check_output(["git", "cat-file", "commit", commit], cwd=path, text=True)
    signed = signed.replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    made = subprocess.check_output(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"], cwd=path, text=True, input=signed
    )
    git(path, "update-ref", "HEAD", made.strip())
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (path / ".git" / "hooks" / hook).write_text(trap.read_text())
        (path / ".git" / "hooks" / hook).chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass",
                    "gpg.program", "diff.external", "credential.helper", "alias.log", "pager.log",
                    "core.gitProxy", "remote.origin.uploadpack"):  # fmt: skip
        git(path, "config", setting, str(trap))
    git(path, "config", "log.showSignature", "true")
    subprocess.run(["git", "log", "-1"], cwd=path, capture_output=True, check=True)
    assert (tmp_path / "sprung").exists(), "the trap works"
    (tmp_path / "sprung").unlink()
    (found,) = await Repositories(root).scan(store)
    assert (found.last_commit or "").endswith(" first")
    assert not (tmp_path / "sprung").exists()


async def test_what_is_missing_in_a_partial_clone_is_not_fetched(
    store: Store, root: Path, tmp_path: Path
) -> None:
    path = repository(root / "partial")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path / 'sprung'}\n")
    trap.chmod(0o755)
    for setting, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(tmp_path)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(trap)),
    ):
        git(path, "config", setting, value)
    (path / ".git" / "refs" / "heads" / "main").write_text("1" * 40 + "\n")
    subprocess.run(["git", "log", "-1"], cwd=path, capture_output=True, check=False)
    assert (tmp_path / "sprung").exists(), "the trap works"
    (tmp_path / "sprung").unlink()
    (found,) = await Repositories(root).scan(store)
    assert (found.branch, found.last_commit) == ("main", None)
    assert not (tmp_path / "sprung").exists()


async def test_a_rescan_keeps_ids_brings_up_to_date_and_forgets_what_is_gone(
    store: Store, root: Path
) -> None:
    kept, gone = repository(root / "kept"), repository(root / "gone")
    first = {repo.name: repo for repo in await Repositories(root).scan(store)}
    git(kept, "checkout", "--quiet", "-b", "next")
    gone.rename(root.parent / "elsewhere")
    (again,) = await Repositories(root).scan(store)
    assert (again.id, again.branch) == (first["kept"].id, "next")
    assert [repo.name for repo in await store.list_repos()] == ["kept"]
    assert first["gone"].id is not None
    with pytest.raises(NotFound):
        await Repositories(root).resolve(store, first["gone"].id)


async def test_a_rescan_forgets_only_what_was_under_this_root_and_the_callers(
    store: Store, root: Path, tmp_path: Path
) -> None:
    repository(root / "mine")
    repository(tmp_path / "workspace-2" / "other")
    await Repositories(root).scan(store)
    await Repositories(tmp_path / "workspace-2").scan(store)
    stranger = store.as_principal(Principal("elsewhere", "eve", PrincipalRole.ADMIN))
    await Repositories(tmp_path / "home", others={"elsewhere": root}).scan(stranger)
    (root / "mine").rename(tmp_path / "moved")
    assert await names(store, root) == []
    assert [repo.name for repo in await store.list_repos()] == ["other"]
    assert [repo.name for repo in await stranger.list_repos()] == ["mine"]


async def test_a_root_that_is_not_there_is_an_error_that_names_the_setting(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(NoWorkspaceRoot, match="AGENT_WORKSPACE_ROOT"):
        await Repositories(tmp_path / "missing").scan(store)


async def test_a_known_repository_that_became_a_link_to_the_outside_is_refused(
    store: Store, root: Path, tmp_path: Path
) -> None:
    path = repository(root / "project")
    (found,) = await Repositories(root).scan(store)
    assert found.id is not None
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(OutsideWorkspace):
        await Repositories(root).resolve(store, found.id)
    (entry,) = await store.list_audit()
    assert (entry.action, entry.outcome, entry.subject) == ("repository.use", "denied", str(path))


async def test_without_git_repositories_are_found_by_name(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root / "project")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent / "no-such-directory"))
    (found,) = await Repositories(root).scan(store)
    assert (found.name, found.branch) == ("project", None)
