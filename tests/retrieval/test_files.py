"""Which files a tree has: what git says, what ignore files say, and nothing that lies elsewhere."""

import os
from pathlib import Path

import pytest

from holdfast.errors import NotFound
from holdfast.retrieval.files import paths_in, read, text_of, tree_of
from tests.retrieval.trees import git, repository, written

pytestmark = pytest.mark.usefixtures("process")

OUTSIDE = ("../outside", "sub/../small", "/etc/passwd", "./small", "sub//deep/file", "")


def listed(path: Path) -> list[str]:
    return paths_in(tree_of(path))


def read_in(root: Path, path: str, limit: int = 1000) -> bytes | None:
    directory = os.open(root, os.O_RDONLY)
    try:
        return read(directory, path, limit)
    finally:
        os.close(directory)


def test_git_says_tracked_and_new_but_not_ignored(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"a.py": "a", "sub/b.py": "b", ".gitignore": "*.log\nbuild/\n"})
    written(root, {"new.py": "n", "x.log": "l", "build/out.py": "o"})
    git(root, "rm", "-q", "--cached", "a.py")
    assert listed(root) == [".gitignore", "a.py", "new.py", "sub/b.py"]


def test_a_part_of_a_repository_keeps_the_paths_of_the_whole(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"a.py": "a", "sub/b.py": "b"})
    tree = tree_of(root / "sub")
    assert (tree.root, tree.within, tree.branch) == (root, "sub", "main")
    assert paths_in(tree) == ["sub/b.py"]


def test_a_directory_that_git_ignores_is_taken_by_itself(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": "vendor/\n"})
    written(root, {"vendor/lib/x.py": "x"})
    tree = tree_of(root / "vendor" / "lib")
    assert (tree.root, tree.is_git) == (root / "vendor" / "lib", False)
    assert paths_in(tree) == ["x.py"]


def test_ignore_files_are_obeyed_without_git(tmp_path: Path) -> None:
    root = written(
        tmp_path / "plain",
        {
            ".gitignore": "*.log\n/only-here.txt\nout/\n",
            "a.log": "",
            "only-here.txt": "",
            "out/x.py": "",
            "sub/.gitignore": "!kept.log\nsecret.py\n",
            "sub/kept.log": "",
            "sub/secret.py": "",
            "sub/only-here.txt": "",
            "node_modules/m/index.js": "",
        },
    )
    assert listed(root) == [".gitignore", "sub/.gitignore", "sub/kept.log", "sub/only-here.txt"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    written(tmp_path / "outside", {"secret.py": "secret"})
    root = written(tmp_path / "plain", {"a.py": "a"})
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file.py").symlink_to(tmp_path / "outside" / "secret.py")
    assert listed(root) == ["a.py"]


def test_a_tracked_path_behind_a_link_is_not_read(tmp_path: Path) -> None:
    """A repository may track `a/secret.py` and have `a` as a link to another directory."""
    written(tmp_path / "outside", {"secret.py": "secret"})
    root = repository(tmp_path / "r", {"a/secret.py": "harmless"})
    (root / "a" / "secret.py").unlink()
    (root / "a").rmdir()
    (root / "a").symlink_to(tmp_path / "outside")
    assert read_in(root, "a/secret.py") is None


def test_a_repository_cannot_name_another_directory_as_its_top(tmp_path: Path) -> None:
    written(tmp_path / "outside", {"secret.py": "secret"})
    root = repository(tmp_path / "r", {"a.py": "a"})
    git(root, "config", "core.worktree", str(tmp_path / "outside"))
    tree = tree_of(root)
    assert (tree.root, paths_in(tree)) == (root, ["a.py"])


def test_only_plain_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    root = written(tmp_path, {"small": "x" * 10, "large": "x" * 1001, "sub/deep/file": "deep"})
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / "small")
    assert read_in(root, "small") == b"x" * 10
    assert read_in(root, "sub/deep/file") == b"deep"
    for path in ("large", "pipe", "link", "sub", "gone", "small/below", "sub/gone/file", *OUTSIDE):
        assert read_in(root, path) is None


@pytest.mark.parametrize(
    "name", ["new\nline.py", "-rf.py", "quo\"te'.py", "spa ce.py", "\u202egpj.py", "🐍.py"]
)
def test_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    root = repository(tmp_path / "r", {name: "x = 1\n"})
    assert listed(root) == [name]
    assert read_in(root, name) == b"x = 1\n"
    assert listed(written(tmp_path / "plain", {name: "x"})) == [name]


@pytest.mark.parametrize("in_git", [True, False])
def test_a_name_that_is_not_text_is_left_out(tmp_path: Path, in_git: bool) -> None:
    root = repository(tmp_path / "r", {"a.py": "a"}) if in_git else written(tmp_path / "r", {"a.py": "a"})
    Path(os.fsdecode(os.fsencode(root) + b"/b\xff.py")).write_text("b")
    assert listed(root) == ["a.py"]


def test_what_is_text() -> None:
    assert text_of(b"caf\xe9\n") == "caf\ufffd\n"
    assert text_of(b"\xef\xbb\xbfx") == "x"
    assert text_of(b"\x7fELF\0\0") is None


def test_there_must_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no directory"):
        tree_of(tmp_path / "nowhere")
