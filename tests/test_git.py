"""Asking git about a stranger's repository: nothing that it names is run, and the answers are git's own."""

import subprocess
from pathlib import Path

import pytest

from holdfast import git
from holdfast.agents.repositories import describe
from holdfast.retrieval.files import paths_in, tree_of
from tests.agents.worlds import git as run_git
from tests.agents.worlds import repository

pytestmark = pytest.mark.usefixtures("process")

FILTERS = """
[filter "trap"]
    clean = {trap}
    smudge = {trap}
    process = {trap}
    required = true
[diff "trap"]
    command = {trap}
    textconv = {trap}
[core]
    fsmonitor = {trap}
[submodule "sub"]
    update = !{trap}
[status]
    submoduleSummary = true
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def sprung(path: Path) -> bool:
    return (path.parent / "sprung").exists()


def planted(path: Path) -> None:
    """Settings that make git run a program at every look at a file; some are in a file that is included."""
    trap = path.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {path.parent / 'sprung'}\ncat\n")
    trap.chmod(0o755)
    (path / ".git" / "more").write_text(FILTERS.format(trap=trap))
    (path / "sub").mkdir()
    repository(path / "sub" / "inner")
    (path / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub/inner\n\turl = ./inner\n')
    (path / ".gitattributes").write_text("* filter=trap diff=trap\n")
    for number in range(20):
        (path / f"{number}.txt").write_text("one\n")
    run_git(path, "add", ".")
    run_git(path, "commit", "--quiet", "-m", "second")
    run_git(path, "config", "include.path", "more")
    for number in range(20):
        (path / f"{number}.txt").write_text("two\n")
    subprocess.run(["git", "status"], cwd=path, capture_output=True, check=False)
    assert sprung(path), "the trap works"
    (path.parent / "sprung").unlink()


async def test_no_filter_and_no_include_of_a_repository_runs_a_program(repo: Path) -> None:
    planted(repo)
    assert describe(repo).last_commit is not None
    assert "1.txt" in paths_in(tree_of(repo))
    assert repo / "1.txt" in git.changed(repo)
    assert not sprung(repo)


@pytest.mark.parametrize("subcommand", ["status", "diff", "add", "checkout", "fetch", "submodule", "show"])
def test_a_subcommand_that_may_run_programs_is_refused(repo: Path, subcommand: str) -> None:
    with pytest.raises(ValueError, match="may run programs"):
        git.output(repo, subcommand)


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])
def test_what_has_changed_is_what_git_says(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "with blanks"
    path.mkdir()
    run_git(path, "init", "--quiet", *options)
    assert git.changed(path) == []
    (path / "before the first commit").touch()
    assert git.changed(path) == [path / "before the first commit"]
    for name in ("kept", "changed", "staged", "removed", "line\nbreak"):
        (path / name).write_text("1")
    run_git(path, "add", ".")
    run_git(path, "commit", "--quiet", "-m", "first")
    (path / ".git" / "info" / "exclude").write_text("ignored\n")
    for name in ("changed", "staged", "line\nbreak", "new", "ignored"):
        (path / name).write_text("2")
    (path / "removed").unlink()
    run_git(path, "add", "staged")
    assert {each.name for each in git.changed(path)} == {"changed", "staged", "line\nbreak", "new"}


def test_a_worktree_and_a_split_index_are_read_too(repo: Path) -> None:
    run_git(repo, "worktree", "add", "--quiet", "../beside")
    run_git(repo, "update-index", "--split-index")
    for path in (repo, repo.parent / "beside"):
        (path / "README.md").write_text("other\n")
        assert git.changed(path) == [path / "README.md"]


def test_outside_a_repository_nothing_has_changed(tmp_path: Path) -> None:
    assert git.changed(tmp_path) == []
