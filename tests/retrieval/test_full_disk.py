"""Indexing on a disk that is nearly full: a sentence, and a process that goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agents.sandbox.kinds import _tools

INDEX = """
import asyncio, shutil, sys
from pathlib import Path
from holdfast.retrieval.edge import EdgeEngine
from holdfast.retrieval.errors import IndexFull
from holdfast.retrieval.vectors import Point, SparseVector

def points(first):
    vector = SparseVector([1, 2], [1.0, 1.0])
    return [
        Point(f"00000000-0000-0000-0000-{first + n:012d}", {"text": "word " * 2000, "path": "a.py"}, vector)
        for n in range(100)
    ]

async def main(directory, leaves):
    engine = EdgeEngine(directory, "v1", None)
    written = 0
    try:
        collection = await engine.collection("local", create=True)
        for written in range(0, 100_000, 100):
            await collection.upsert(points(written))
    except IndexFull as error:
        print(error.status, error)
    finally:
        await engine.close()
    print("written", written)

asyncio.run(main(Path(sys.argv[1]), 0))
"""


@pytest.mark.req("SEC-20")
@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("megabytes", [24, 120])
def test_an_index_that_finds_no_room_says_so_and_ends_nobody(tmp_path: Path, megabytes: int) -> None:
    """On a small disk of its own. Without the check, the system ends the process: exit code 135."""
    bubblewrap = _tools().bubblewrap
    assert bubblewrap is not None
    small = ("--size", str(megabytes << 20), "--tmpfs", str(tmp_path))
    ended = subprocess.run(
        [str(bubblewrap), "--dev-bind", "/", "/", *small, "--", sys.executable, "-c", INDEX, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended
    told, written = ended.stdout.splitlines()
    assert told.startswith(f"507 The disk of {tmp_path}")
    assert "MB left, which the index needs; free some, then try again." in told
    assert (int(written.split()[1]) > 0) is (megabytes > 100)
