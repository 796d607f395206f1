"""An index and the processes around it: one owner at a time, and nothing lost when that one is killed."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from holdfast.retrieval.edge import EdgeEngine
from holdfast.retrieval.errors import IndexDamaged, IndexInUse, IndexUnavailable
from holdfast.retrieval.vector_index import VectorIndex, namespace_of, point_id
from holdfast.retrieval.vectors import Filter, HasId
from tests.retrieval.trees import GREETING, ORGANIZATION, found, opened, written
from tests.waiting import SECONDS

pytestmark = pytest.mark.usefixtures("process")

FILES = 400


def started(home: Path, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.retrieval.worker", str(home), str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], sig: int | None = None) -> None:
    if sig is not None:
        process.send_signal(sig)
    process.communicate(timeout=SECONDS)


def output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def shard_in(home: Path) -> Path:
    return home / "data" / "index" / "c1t1" / str(namespace_of(ORGANIZATION))


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_killed_run_loses_nothing_acknowledged_and_the_next_completes_it(
    tmp_path: Path, writes: int
) -> None:
    root = written(
        tmp_path / "tree", {f"{n}.py": GREETING.replace("farewell", f"farewell{n}") for n in range(FILES)}
    )
    process = started(tmp_path, root)
    acknowledged = [name for _ in range(writes) for name in output(process).readline().split()]
    ended(process, signal.SIGKILL)
    assert acknowledged

    index = VectorIndex(EdgeEngine(tmp_path / "data" / "index", "c1t1", None))
    names = {name.replace("tree/", "tree\0") for name in acknowledged}
    kept = Filter(must=(HasId([point_id(ORGANIZATION, name) for name in names]),))
    assert await index.count(ORGANIZATION, kept) == len(names)
    await index.close()

    retrieval = await opened(tmp_path)
    finished = await retrieval.index(ORGANIZATION, root)
    assert finished.changed + finished.unchanged == FILES
    again = await retrieval.index(ORGANIZATION, root)
    assert (again.changed, again.unchanged) == (0, FILES)
    assert (await found(retrieval, "farewell399"))[0].path == "399.py"
    await retrieval.close()


async def test_a_second_process_is_told_who_the_owner_is(tmp_path: Path) -> None:
    process = started(tmp_path, written(tmp_path / "hold", {"a.py": GREETING}))
    while output(process).readline() != "open\n":
        pass
    retrieval = await opened(tmp_path)
    with pytest.raises(IndexInUse, match=f"process {process.pid}") as refused:
        await retrieval.search(ORGANIZATION, "farewell")
    assert refused.value.pid == process.pid
    ended(process)
    assert (await found(retrieval, "farewell"))[0].path == "a.py"
    await retrieval.close()


async def test_an_owner_that_was_killed_owns_nothing(tmp_path: Path) -> None:
    process = started(tmp_path, written(tmp_path / "hold", {"a.py": GREETING}))
    while output(process).readline() != "open\n":
        pass
    ended(process, signal.SIGKILL)
    retrieval = await opened(tmp_path)
    assert (await found(retrieval, "farewell"))[0].path == "a.py"
    await retrieval.close()


async def test_a_damaged_index_says_what_to_do(tmp_path: Path) -> None:
    retrieval = await opened(tmp_path)
    await retrieval.index(ORGANIZATION, written(tmp_path / "r", {"a.py": GREETING}))
    await retrieval.close()
    (shard_in(tmp_path) / "edge_config.json").write_text("{")
    damaged = await opened(tmp_path)
    with pytest.raises(IndexDamaged, match="Delete that directory"):
        await damaged.search(ORGANIZATION, "farewell")
    await damaged.close()


async def test_an_index_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    written(tmp_path / "data" / "index" / "c1t1", {f"{shard_in(tmp_path).name}.new": "in the way"})
    retrieval = await opened(tmp_path)
    with pytest.raises(IndexUnavailable, match="No index can be made in"):
        await retrieval.index(ORGANIZATION, written(tmp_path / "r", {"a.py": GREETING}))
    await retrieval.close()


async def test_who_stops_waiting_while_an_index_opens_leaves_it_open_for_the_next(tmp_path: Path) -> None:
    engine = EdgeEngine(tmp_path / "index", "v1", None)
    impatient = asyncio.create_task(engine.collection(ORGANIZATION, create=True))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert await engine.collection(ORGANIZATION, create=False) is not None
    await engine.close()


async def test_a_half_made_index_is_made_anew(tmp_path: Path) -> None:
    unfinished = shard_in(tmp_path).with_suffix(".new")
    written(unfinished, {"segments/half": "made"})
    retrieval = await opened(tmp_path)
    assert (await retrieval.index(ORGANIZATION, written(tmp_path / "r", {"a.py": GREETING}))).chunks == 4
    await retrieval.close()
    assert not unfinished.exists()


def test_importing_retrieval_loads_neither_qdrant_nor_tree_sitter() -> None:
    code = (
        "import sys, holdfast, holdfast.retrieval\n"
        "print([name for name in sys.modules if name.startswith(('qdrant', 'tree_sitter', 'httpx'))])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


MISSING = """
import asyncio, pathlib, sys
sys.modules.update(dict.fromkeys({modules!r}))
from holdfast.config import Settings
from holdfast.errors import MissingExtra
from holdfast.retrieval import open_retrieval

async def main() -> None:
    home = pathlib.Path(sys.argv[1])
    async with await open_retrieval(Settings(data_dir=home, retrieval={retrieval!r})) as retrieval:
        try:
            await retrieval.index("acme", home)
        except MissingExtra as missing:
            print(missing)

asyncio.run(main())
"""

EXTRAS = [
    (("qdrant_edge",), {}, "retrieval"),
    (("tree_sitter",), {}, "retrieval"),
    (("tree_sitter_python",), {}, "retrieval"),
    (("qdrant_client",), {"url": "http://127.0.0.1:1"}, "qdrant"),
]


@pytest.mark.parametrize(("modules", "chosen", "extra"), EXTRAS)
def test_what_is_not_installed_is_named(
    tmp_path: Path, modules: tuple[str, ...], chosen: dict[str, str], extra: str
) -> None:
    code = MISSING.format(modules=modules, retrieval=chosen)
    written(tmp_path, {"a.py": GREETING})
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert f"pip install 'holdfast[{extra}]'" in run.stdout
