"""Confinement: what is outside the repository stays outside, whatever the path looks like."""

import contextlib
import os
import shutil
import threading
from pathlib import Path

import pytest

from holdfast.agents.workspace import OutsideWorkspace, Workspace
from holdfast.errors import HoldfastError, InvalidInput, NotFound


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "repo-sibling").mkdir()
    (tmp_path / "repo" / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "repo" / "out").symlink_to(tmp_path)
    (tmp_path / "repo" / "out.txt").symlink_to(tmp_path / "secret")
    (tmp_path / "repo" / "inside").symlink_to(tmp_path / "repo" / "a.txt")
    (tmp_path / "repo" / "loop").symlink_to("loop")
    return Workspace(tmp_path / "repo")


ESCAPES = [
    "../secret",
    "src/../../secret",
    "/etc/passwd",
    "out/secret",
    "out.txt",
    "../repo-sibling/x",
    "src/../out/secret",
    "./././../secret",
    "/",
    "..",
    "out/new/deep/file",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_for_reading_or_writing(workspace: Workspace, path: str) -> None:
    with pytest.raises(OutsideWorkspace) as refusal:
        workspace.read_text(path)
    assert refusal.value.status == 403
    with pytest.raises(OutsideWorkspace):
        workspace.write_text(path, "intruder")
    assert (workspace.root.parent / "secret").read_text() == "secret"
    assert sorted(entry.name for entry in workspace.root.parent.iterdir()) == [
        "repo",
        "repo-sibling",
        "secret",
    ]


def test_reading_whole_files_and_ranges_of_lines(workspace: Workspace) -> None:
    assert workspace.read_text("a.txt") == "one\ntwo\nthree\n"
    assert workspace.read_text(str(workspace.root / "a.txt"), line=2, limit=1) == "two\n"
    assert workspace.read_text("a.txt", line=3) == "three\n"
    assert workspace.read_text("a.txt", limit=2) == "one\ntwo\n"
    assert workspace.read_text("a.txt", line=99) == ""
    assert workspace.read_text("inside") == "one\ntwo\nthree\n"


def test_writing_replaces_creates_directories_and_keeps_the_mode(workspace: Workspace) -> None:
    (workspace.root / "run.sh").write_text("old")
    (workspace.root / "run.sh").chmod(0o775)
    workspace.write_text("run.sh", "new")
    workspace.write_text("deep/er/file.txt", "made")
    assert (workspace.root / "run.sh").read_text() == "new"
    assert (workspace.root / "run.sh").stat().st_mode & 0o777 == 0o775
    assert (workspace.root / "deep" / "er" / "file.txt").read_text() == "made"
    assert [path.name for path in workspace.root.iterdir() if path.name.startswith(".")] == []


def test_a_name_may_be_as_long_as_the_system_allows_and_a_longer_one_is_refused_in_a_sentence(
    workspace: Workspace,
) -> None:
    longest = "字" * 85
    workspace.write_text(longest, "new")
    assert workspace.read_text(longest) == "new"
    for use in (workspace.read_text, lambda path: workspace.write_text(path, "new")):
        with pytest.raises(InvalidInput, match="File name too long"):
            use("a" * 256)


def test_a_link_inside_is_written_through_to_the_file_it_names(workspace: Workspace) -> None:
    workspace.write_text("inside", "changed")
    assert (workspace.root / "a.txt").read_text() == "changed"
    assert (workspace.root / "inside").is_symlink()


@pytest.mark.parametrize("path", ["", "a\0b", "src", "a.txt/below", "loop", "."])
def test_what_is_no_file_is_refused_in_a_sentence(workspace: Workspace, path: str) -> None:
    os.mkfifo(workspace.root / "pipe")
    for attempt in (path, "pipe"):
        with pytest.raises(HoldfastError):
            workspace.read_text(attempt)
    with pytest.raises(HoldfastError):
        workspace.write_text(path, "x")


def test_a_missing_file_is_not_found_and_a_huge_one_is_refused(workspace: Workspace) -> None:
    with pytest.raises(NotFound, match="no file nothing"):
        workspace.read_text("nothing")
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(InvalidInput, match="at most"):
        workspace.read_text("huge")
    with pytest.raises(InvalidInput, match="at most"):
        workspace.write_text("huge2", "x" * 20_000_000)
    assert not (workspace.root / "huge2").exists()


def test_a_link_swapped_in_during_the_call_leads_nowhere(workspace: Workspace) -> None:
    target, outside = workspace.root / "flip", workspace.root.parent / "repo-sibling"
    (outside / "f").write_text("outside")
    target.mkdir()
    (target / "f").write_text("inside")
    done = threading.Event()

    def flip() -> None:
        while not done.is_set():
            target.rename(workspace.root / "aside")
            with contextlib.suppress(FileExistsError):
                target.symlink_to(outside)
            # A write may have made the directory anew, inside; the link goes first, or the tree.
            while (workspace.root / "aside").exists():
                with contextlib.suppress(OSError):
                    target.unlink()
                shutil.rmtree(target, ignore_errors=True)
                with contextlib.suppress(OSError):
                    (workspace.root / "aside").rename(target)

    swapper = threading.Thread(target=flip)
    swapper.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                seen.add(workspace.read_text("flip/f"))
                workspace.write_text("flip/g", "inside")
            except HoldfastError:
                continue
    finally:
        done.set()
        swapper.join()
    assert seen <= {"inside"}
    assert [path.name for path in outside.iterdir()] == ["f"]
