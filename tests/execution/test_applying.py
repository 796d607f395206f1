"""Applying a bundle: shown before, all or nothing, and nowhere but inside."""

import hashlib
import json
import resource
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.agents.workspace import Workspace
from holdfast.errors import Conflict, HoldfastError, InvalidInput, NotFound
from holdfast.execution.applying import STAGING, FileChanged, NotApplied, plan
from holdfast.execution.bundle import FileBundle
from holdfast.execution.journal import Ending, Journal, Record, recover
from tests.long_plugin import Trials


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (root / "run.sh").write_text("old\n")
    (root / "run.sh").chmod(0o755)
    (root / "binary").write_bytes(b"\xff\x00\xfe")
    return root


def bundle(*files: dict[str, Any], root: str = ".") -> FileBundle:
    return msgspec.convert({"root": root, "files": files}, FileBundle)


def change(path: str, operation: str, content: str | None = None, **more: Any) -> dict[str, Any]:
    return {"path": path, "operation": operation, "content": content, **more}


def patch(path: str, *replacements: tuple[str, str], limit: str = "once") -> dict[str, Any]:
    patches = [{"find": find, "replace": replace, "limit": limit} for find, replace in replacements]
    return {"path": path, "operation": "patch", "patches": patches}


def journals(tree: Path) -> Path:
    return tree.parent / "journals"


def contents(root: Path) -> dict[str, bytes | None]:
    """Everything in a directory: files with what they hold, directories with nothing."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


def test_a_plan_shows_everything_and_changes_nothing(tree: Path) -> None:
    before = contents(tree)
    planned = plan(
        bundle(
            change("new/b.py", "create", "hello"),
            patch("src/a.py", ("two", "TWO")),
            change("run.sh", "delete"),
        ),
        tree,
    )
    assert contents(tree) == before
    assert planned.diff == (
        "--- /dev/null\n+++ b/new/b.py\n@@ -0,0 +1 @@\n+hello\n\\ No newline at end of file\n"
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
        "--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
    )


@pytest.mark.usefixtures("process")
def test_the_diff_that_is_shown_does_what_applying_does(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(tree), str(copy)], check=True)
    planned = plan(
        bundle(
            change("new/b.py", "create", "a\tb\n\u2028c"),
            patch("src/a.py", ("three\n", "four")),
            change("run.sh", "delete"),
        ),
        tree,
    )
    planned.apply(journals(tree))
    subprocess.run(["git", "apply", "-"], cwd=copy, input=planned.diff.encode(), check=True)
    assert contents(copy) == contents(tree)


def test_nothing_can_be_hidden_from_the_person_who_is_shown_the_diff(tree: Path) -> None:
    hidden = "rm -rf /\r\x1b[2K\x9b1A\x7f\u202eharmless\n"
    diff = plan(bundle(change("run.sh", "replace", hidden)), tree).diff
    assert "+rm -rf /␍␛[2K⟨U+009B⟩1A⟨U+007F⟩⟨U+202E⟩harmless\n" in diff
    plan(bundle(change("run.sh", "replace", hidden)), tree).apply(journals(tree))
    assert (tree / "run.sh").read_bytes() == hidden.encode()


def test_every_operation_is_applied_and_modes_are_kept(tree: Path) -> None:
    plan(
        bundle(
            change("new/deep/b.py", "create", "hello\n"),
            change("run.sh", "replace", "new\n"),
            change("binary", "delete"),
            {"path": "either", "content": ""},
            patch("src/a.py", ("o", "0"), limit="all"),
        ),
        tree,
    ).apply(journals(tree))
    assert contents(tree) == {
        "src": None,
        "src/a.py": b"0ne\ntw0\nthree\n",
        "run.sh": b"new\n",
        "new": None,
        "new/deep": None,
        "new/deep/b.py": b"hello\n",
        "either": b"",
    }
    assert stat.S_IMODE((tree / "run.sh").stat().st_mode) == 0o755


def test_paths_are_relative_to_the_root_of_the_bundle(tree: Path) -> None:
    plan(bundle(change("a.py", "replace", "x"), root="src"), tree).apply(journals(tree))
    assert (tree / "src" / "a.py").read_text() == "x"


def test_a_patch_that_finds_nothing_is_a_warning_and_the_others_are_applied(tree: Path) -> None:
    planned = plan(bundle(patch("src/a.py", ("absent", "x"), ("one", "1"))), tree)
    assert planned.warnings == ("Patch 1 of src/a.py changed nothing: what it looks for is not there.",)
    planned.apply(journals(tree))
    assert (tree / "src" / "a.py").read_text() == "1\ntwo\nthree\n"


def test_once_is_the_first_occurrence(tree: Path) -> None:
    plan(bundle(patch("src/a.py", ("t", "T"))), tree).apply(journals(tree))
    assert (tree / "src" / "a.py").read_text() == "one\nTwo\nthree\n"


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    "diff",
    [
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        "diff --git a/src/a.py b/src/a.py\nindex 1..2 100644\n"
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        "--- src/a.py\n+++ src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three",
        "@@ -1,9 +1,7 @@\n one\n-two\n+TWO\n three\n",
    ],
    ids=["plain", "git", "without prefixes or last newline", "without head, counted wrong"],
)
def test_a_diff_is_applied_by_git(tree: Path, diff: str) -> None:
    plan(bundle(change("src/a.py", "gitPatch", diff)), tree).apply(journals(tree))
    assert (tree / "src" / "a.py").read_text() == "one\nTWO\nthree\n"


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("named", ["a.py", "src/a.py"])
def test_a_diff_may_name_its_file_from_the_root_of_the_bundle_on(tree: Path, named: str) -> None:
    diff = f"--- a/{named}\n+++ b/{named}\n@@ -1,3 +1,3 @@\n-one\n+ONE\n two\n three\n"
    plan(bundle(change("a.py", "gitPatch", diff), root="src"), tree).apply(journals(tree))
    assert (tree / "src" / "a.py").read_text() == "ONE\ntwo\nthree\n"


@pytest.mark.usefixtures("process")
def test_a_diff_may_make_and_delete_its_file(tree: Path) -> None:
    made = "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+hello\n"
    gone = "--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
    plan(bundle(change("new.py", "gitPatch", made), change("run.sh", "gitPatch", gone)), tree).apply(
        journals(tree)
    )
    assert (tree / "new.py").read_text() == "hello\n"
    assert not (tree / "run.sh").exists()


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    "diff",
    [
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-not there\n+x\n",
        "--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-old\n+new\n",
        "--- /dev/null\n+++ b/../../outside\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/second\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/src/a.py b/other\nsimilarity index 100%\nrename from src/a.py\nrename to other\n",
        "no diff at all",
        "",
    ],
)
def test_a_diff_that_does_not_fit_or_reaches_elsewhere_is_refused(tree: Path, diff: str) -> None:
    before = contents(tree.parent)
    with pytest.raises(InvalidInput):
        plan(bundle(change("src/a.py", "gitPatch", diff)), tree)
    assert contents(tree.parent) == before


@pytest.mark.usefixtures("process")
def test_a_diff_that_makes_a_link_is_refused(tree: Path) -> None:
    diff = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n"
    with pytest.raises(InvalidInput, match="no other"):
        plan(bundle(change("l", "gitPatch", diff)), tree)


def test_a_change_made_for_another_version_of_the_file_is_refused(tree: Path) -> None:
    current = hashlib.sha256((tree / "run.sh").read_bytes()).hexdigest()
    plan(bundle(change("run.sh", "replace", "x", originalSha256=current)), tree)
    for path in ("run.sh", "absent"):
        wrong = {"path": path, "content": "x", "originalSha256": "00" * 32}
        with pytest.raises(FileChanged, match=path):
            plan(bundle(wrong), tree)


def test_a_file_that_changed_since_it_was_shown_stops_everything(tree: Path) -> None:
    planned = plan(bundle(change("new", "create", "x"), change("run.sh", "replace", "x")), tree)
    (tree / "run.sh").write_text("somebody else's\n")
    with pytest.raises(FileChanged, match=r"run\.sh"):
        planned.apply(journals(tree))
    assert not (tree / "new").exists()
    assert (tree / "run.sh").read_text() == "somebody else's\n"


@pytest.mark.parametrize(
    ("file", "error"),
    [
        (change("run.sh", "create", "x"), Conflict),
        (change("absent", "replace", "x"), NotFound),
        (change("absent", "delete"), NotFound),
        (patch("absent", ("x", "y")), NotFound),
        (patch("binary", ("x", "y")), InvalidInput),
        (change("src", "replace", "x"), InvalidInput),
        (change("run.sh/below", "create", "x"), InvalidInput),
        (change("huge", "create", "x" * 20_000_000), InvalidInput),
    ],
)
def test_what_does_not_fit_the_directory_is_refused_before_anything_happens(
    tree: Path, file: dict[str, Any], error: type[HoldfastError]
) -> None:
    before = contents(tree)
    with pytest.raises(error):
        plan(bundle(change("first", "create", "x"), file), tree)
    assert contents(tree) == before


@pytest.mark.parametrize("path", ["out/x", "out.txt", "inside", "hooks/pre-commit"])
def test_a_link_is_never_written_through(tree: Path, path: str) -> None:
    (tree / ".git" / "hooks").mkdir(parents=True)
    (tree.parent / "secret").write_text("secret")
    (tree / "out").symlink_to(tree.parent)
    (tree / "out.txt").symlink_to(tree.parent / "secret")
    (tree / "inside").symlink_to(tree / "run.sh")
    (tree / "hooks").symlink_to(tree / ".git" / "hooks")
    before = contents(tree.parent)
    with pytest.raises(HoldfastError):
        plan(bundle({"path": path, "content": "intruder"}), tree)
    assert contents(tree.parent) == before


class Failing(Workspace):
    """A workspace on a disk that fails at one of its renames."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.left = at

    def rename(self, source: str, target: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(5, "Input/output error")
        super().rename(source, target)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_when_a_step_fails_everything_is_put_back(tree: Path, at: int) -> None:
    before = contents(tree)
    planned = plan(
        bundle(
            change("new/deep/b.py", "create", "x"),
            change("run.sh", "replace", "x"),
            change("binary", "delete"),
            patch("src/a.py", ("one", "1")),
        ),
        tree,
    )
    with pytest.raises(NotApplied, match="Nothing was changed"):
        msgspec.structs.replace(planned, workspace=Failing(tree, at)).apply(journals(tree))
    assert contents(tree) == before
    assert stat.S_IMODE((tree / "run.sh").stat().st_mode) == 0o755
    planned.apply(journals(tree))
    assert (tree / "run.sh").read_text() == "x"


@pytest.fixture
def full_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_on_a_full_disk_nothing_is_changed(tree: Path, full_disk: None) -> None:
    before = contents(tree)
    planned = plan(bundle(change("run.sh", "replace", "x"), change("big", "create", "x" * 2_000_000)), tree)
    with pytest.raises(NotApplied, match="Nothing was changed"):
        planned.apply(journals(tree))
    assert contents(tree) == before


KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.agents.workspace import Workspace
from holdfast.execution.applying import plan
from holdfast.execution.bundle import parse_bundle

left = int(sys.argv[2])
rename = Workspace.rename

def counted(self, source, target):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(self, source, target)

Workspace.rename = counted
plan(parse_bundle(sys.stdin.read()), Path(sys.argv[1])).apply(Path(sys.argv[3]))
"""


FILES = 60


@pytest.mark.req("SEC-25")
@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("at", [1, 2, 3])
def test_killed_before_any_of_its_renames_it_is_finished_later(tree: Path, at: int) -> None:
    files = [
        {"path": "run.sh", "content": "new"},
        {"path": "src/a.py", "operation": "delete"},
        {"path": "made/here.py", "content": "new"},
    ]
    answer = f"```json\n{json.dumps({'files': files})}\n```"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tree), str(at), str(journals(tree))],
        input=answer,
        text=True,
        check=False,
    )
    assert killed.returncode == -9
    (recovered,) = recover(journals(tree))
    assert (recovered.root, recovered.ending) == (tree, Ending.FINISHED)
    assert (tree / "run.sh").read_text() == (tree / "made" / "here.py").read_text() == "new"
    assert (tree / "run.sh").stat().st_mode & 0o777 == 0o755
    assert not (tree / "src" / "a.py").exists()
    assert nothing_is_left(tree)


@pytest.mark.req("SEC-25")
@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("forged", ["staged", "file", "link"])
def test_what_somebody_changed_meanwhile_is_neither_finished_nor_taken_back(tree: Path, forged: str) -> None:
    files = [{"path": path, "content": "new"} for path in ("run.sh", "src/a.py")]
    answer = f"```json\n{json.dumps({'files': files})}\n```"
    subprocess.run(
        [sys.executable, "-c", KILLED, str(tree), "2", str(journals(tree))],
        input=answer,
        text=True,
        check=False,
    )
    assert (tree / "run.sh").read_text() == "new"
    (staging,) = tree.glob(f"{STAGING}*")
    if forged == "file":
        (tree / "src" / "a.py").write_text("mine\n")
        (tree / "run.sh").write_text("mine\n")
    elif forged == "link":
        (staging / "new" / "1").unlink()
        (staging / "new" / "1").symlink_to("/etc/passwd")
    else:
        (staging / "new" / "1").write_text("evil")
    (recovered,) = recover(journals(tree))
    if forged == "file":
        assert recovered.ending is Ending.LEFT
        assert "was changed meanwhile" in str(recovered)
        assert (tree / "src" / "a.py").read_text() == "mine\n"
    else:
        assert recovered.ending is Ending.TAKEN_BACK
        assert (tree / "src" / "a.py").read_text() == "one\ntwo\nthree\n"


@pytest.mark.req("SEC-25")
def test_changes_that_are_being_made_are_left_to_who_makes_them(tree: Path) -> None:
    record = Record(str(tree), f"{STAGING}1", ())
    journal = Journal.begin(journals(tree), record)
    assert recover(journals(tree)) == []
    journal.leave()
    assert [each.ending for each in recover(journals(tree))] == [Ending.TAKEN_BACK]


MANY = """
import os, signal, sys
from pathlib import Path
from holdfast.execution.applying import plan
from holdfast.execution.bundle import parse_bundle
from holdfast.execution.journal import recover

tree, journals, *kills = sys.argv[1:]
answer = sys.stdin.read()
planned = plan(parse_bundle(answer), Path(tree))
for kill in map(int, kills):
    if not os.fork():
        left = kill
        def counted(step):
            def run(*args, **more):
                global left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step(*args, **more)
            return run
        for name in ("rename", "fsync", "unlink", "rmdir", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        planned.apply(Path(journals))
        os._exit(0)
    _, status = os.wait()
    endings = [each.ending.value for each in recover(Path(journals))]
    states = {(Path(tree) / each.path).read_text() for each in planned.changes}
    left = [*Path(tree).glob(".holdfast-apply-*"), *Path(journals).iterdir()]
    print(status, ",".join(sorted(states)), len(left), *endings, flush=True)
    for each in planned.changes:
        (Path(tree) / each.path).write_bytes(each.before)
"""


@pytest.mark.req("SEC-25")
@pytest.mark.usefixtures("process")
def test_kills_at_any_step_leave_all_files_old_or_all_new(tree: Path, trials: Trials) -> None:
    for number in range(FILES):
        (tree / f"{number}").write_text("old")
    answer = json.dumps({"files": [{"path": f"{number}", "content": "new"} for number in range(FILES)]})
    chance = trials.chance()
    kills = [chance.randrange(1, 14 * FILES) for _ in range(trials(25, long=200))]
    ended = subprocess.run(
        [sys.executable, "-c", MANY, str(tree), str(journals(tree)), *map(str, kills)],
        input=f"```json\n{answer}\n```",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = [line.split() for line in ended.stdout.splitlines()]
    assert len(told) == len(kills)
    assert {(states, left) for _, states, left, *_ in told} == {("old", "0"), ("new", "0")}
    assert Counter(status for status, *_ in told)["9"] > len(kills) / 2
    assert {tuple(endings) for _, _, _, *endings in told} >= {("taken", "back"), ("finished",)}


def nothing_is_left(tree: Path) -> bool:
    return not list(tree.glob(f"{STAGING}*")) and not list(journals(tree).iterdir())


def test_huge_files_are_counted_in_the_diff_and_binary_ones_named(tree: Path) -> None:
    (tree / "long").write_text("line\n" * 100_000)
    files = bundle(change("long", "replace", "x\n"), change("binary", "replace", "text\n"))
    diff = plan(files, tree).diff
    assert "@@ 100,000 lines become 1 @@" in diff
    assert "Binary files a/binary and b/binary differ" in diff
    assert len(diff) < 500


def test_a_bundle_that_changes_nothing_is_an_empty_plan(tree: Path) -> None:
    planned = plan(bundle(change("run.sh", "replace", "old\n")), tree)
    assert (planned.changes, planned.diff) == ((), "")
    planned.apply(journals(tree))
    assert not list(tree.glob(f"{STAGING}*"))
