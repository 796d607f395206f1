"""`make affected`: the tests that a change can reach, nearest first, for a minute.

    pytest -p tests.affected_plugin --affected-since origin/main --for-seconds 60

What changed is what git says. A test is reached by a module that it imports, or that something it imports
imports: the import graph is grimp's, and tests are joined to it by what they import and by what they start,
because a test that runs `holdfast serve` imports nothing of the server. The fewer steps lie between a test
and the change, the earlier it runs. Files that are not Python reach the tests that name them, and those of
the page its tests. What everything stands on, such as pyproject.toml, reaches all tests.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGE, BROWSER = "src/holdfast/server/web/", "browser"

NEEDED = {"holdfast.store.postgres": "postgres"}
"""Packages that only tests with this mark use, although the import graph leads more of them there."""

STARTED = {
    "holdfast.agents.catalogue": ("holdfast.agents.demo",),
    "holdfast.agents.supervisor": ("holdfast.cli.mcp",),
}
"""What modules of ours start as programs."""

PRELOADED = ROOT / "tests" / "preloaded.py"
"""It imports every command, and forks the one that a test names."""

EVERYTHING = (
    "pyproject.toml",
    "requirements/",
    "Makefile",
    ".ci/",
    "tests/conftest.py",
    "tests/preloaded.py",
)
PLUGINS = "_plugin.py"

Distances = dict[str, dict[str, int]]
"""For each test file the steps to what changed: for all of its tests (""), or for those with a mark."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--affected-since", default="origin/main", help="the commit since which changes count")


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None:
        changed = changed_files(config.getoption("--affected-since"))
        reached = distances(changed)
    else:
        changed, reached = worker["changed"], worker["distances"]
    config.pluginmanager.register(Affected(changed, reached))


class Affected:
    def __init__(self, changed: list[str], reached: Distances) -> None:
        self.changed = changed
        self.distances = reached

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a pytest-xdist worker."""
        node.workerinput["changed"] = self.changed
        node.workerinput["distances"] = self.distances

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
        return True if is_test and _relative(collection_path) not in self.distances else None

    @pytest.hookimpl(trylast=True)  # after the other plugin has marked and sorted them
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        from tests.needs_plugin import KINDS, kind  # later than this plugin: its assertions are rewritten

        far = {item: self._distance(item) for item in items}
        left_out = [item for item in items if far[item] is None]
        config.hook.pytest_deselected(items=left_out)
        reached = [item for item in items if far[item] is not None]
        # Of those that are equally near, the cheap ones first: a minute is enough for many of them.
        items[:] = sorted(reached, key=lambda item: (far[item] or 0, -KINDS.index(kind(item.keywords))))

    def _distance(self, item: pytest.Item) -> int | None:
        steps = self.distances[_relative(item.path)]
        return min((far for mark, far in steps.items() if not mark or mark in item.keywords), default=None)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK


def changed_files(since: str) -> list[str]:
    """What differs from the commit where this branch left `since`, and what git does not know yet."""
    try:
        base = _git("merge-base", since, "HEAD")[0]
    except subprocess.CalledProcessError:
        raise pytest.UsageError(
            f"git finds no commit {since!r} here; name one: make affected BASE=…"
        ) from None
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "-o", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


def distances(changed: Iterable[str]) -> Distances:
    """How far each test file is from what changed; those that are not reached are left out."""
    files = {_relative(path): path for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    importers = _importers(files.values())
    found: Distances = {}

    def reach(file: str, mark: str, far: int) -> None:
        steps = found.setdefault(file, {})
        steps[mark] = min(far, steps.get(mark, far))

    for name in changed:
        if name.startswith(EVERYTHING) or name.endswith(PLUGINS):
            for file in files:
                reach(file, "", 0)
        elif name.startswith(PAGE):
            for file in files:
                reach(file, BROWSER, 0)
        for start in _modules_of(name):
            mark = next((mark for package, mark in NEEDED.items() if start.startswith(package)), "")
            for module, far in _steps_from(start, importers).items():
                file = f"{module.replace('.', '/')}.py"
                if file in files:
                    reach(file, mark, far)
        for file, path in files.items():
            if not name.endswith(".py") and Path(name).name in path.read_text(encoding="utf-8"):
                reach(file, "", 1)
    return found


def _modules_of(name: str) -> list[str]:
    """The modules that a changed file is, or lies beside: SQL and styles belong to their package."""
    path = Path(name)
    if path.parts[0] not in ("src", "tests", "examples", "benchmarks"):
        return []
    parts = path.parts[1:] if path.parts[0] == "src" else path.parts
    if path.suffix != ".py" or path.name == "__init__.py":
        return [".".join(parts[:-1])]
    if path.name == "conftest.py":
        return [_module(file) for file in (ROOT / path.parent).rglob("test_*.py")]
    return [".".join(parts).removesuffix(".py")]


def _steps_from(start: str, importers: Mapping[str, set[str]]) -> dict[str, int]:
    """The modules that import this one, with the number of imports between them."""
    steps = {start: 0}
    last = {start}
    while last:
        last = {importer for module in last for importer in importers.get(module, ())} - steps.keys()
        steps.update(dict.fromkeys(last, max(steps.values()) + 1))
    return steps


def _importers(files: Iterable[Path]) -> dict[str, set[str]]:
    """Who imports each module, or starts it."""
    graph = grimp.build_graph("holdfast", exclude_type_checking_imports=True, cache_dir=_cache())
    importers = {module: graph.find_modules_that_directly_import(module) for module in graph.modules}
    for starter, programs in STARTED.items():
        for program in programs:
            importers[program].add(starter)
    waiting, seen = list(files), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in _imported_by(path, graph.modules):
            importers.setdefault(module, set()).add(_module(path))
            waiting += [*_files_of(module)]
    return importers


def _cache() -> str:
    return os.environ.get("GRIMP_CACHE", str(ROOT / ".import_linter_cache"))


def _files_of(module: str) -> Iterator[Path]:
    if module.partition(".")[0] in ("tests", "benchmarks", "examples"):
        path = ROOT / f"{module.replace('.', '/')}.py"
        if path.exists():
            yield path


def _imported_by(path: Path, modules: set[str]) -> set[str]:
    """The modules that a test file imports, names as a constant, or starts as a command."""
    found: set[str] = set()
    tree = _tree(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update(_origin(node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and path != PRELOADED:
            if node.value in modules:
                found.add(node.value)
            elif node.value in _commands():
                found.add(_commands()[node.value])
    if path.name.startswith("test_"):
        found.update(_module(each) for each in _conftests(path))
    return found


def _conftests(path: Path) -> list[Path]:
    """Those between a test and the root, whose own imports are those of the plumbing."""
    return [
        each for each in (path.parent / "conftest.py",) if each.exists() and each.parent != ROOT / "tests"
    ]


@cache
def _origin(module: str, name: str) -> str:
    """The module that a name comes from, when a package only passes it on."""
    if module == "holdfast":
        module = "holdfast.api"
    inner = f"{module}.{name}".replace(".", "/")
    if any((base / f"{inner}{end}").exists() for base in (SOURCE, ROOT) for end in (".py", "/__init__.py")):
        return f"{module}.{name}"
    path = SOURCE / module.replace(".", "/") / "__init__.py"
    path = path if path.exists() else SOURCE / f"{module.replace('.', '/')}.py"
    if path.exists() and module.startswith("holdfast"):
        for node in ast.walk(_tree(path)):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
                continue
            if name in [alias.asname or alias.name for alias in node.names]:
                return _origin(node.module, name)
    return module


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


@cache
def _commands() -> dict[str, str]:
    """The module of each command of the command line."""
    from holdfast.cli.app import COMMANDS

    return {name: f"holdfast.cli.{where.partition('.')[0]}" for name, where in COMMANDS.items()}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    found = distances(changed_files(*sys.argv[1:2] or ["origin/main"]))
    for file, steps in sorted(found.items(), key=lambda item: min(item[1].values())):
        print(file, steps)
