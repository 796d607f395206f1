"""Blobs on disk: nothing is half-written, whatever ends the writer, and only the owner may look."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.blobs import BlobNotFound, Blobs, BlobsUnavailable
from tests.blobs.worker import ORGANIZATION
from tests.waiting import SECONDS

WORKER = Path(__file__).with_name("worker.py")
PAYLOAD = b"the payload"


def work(role: str, url: str, argument: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(WORKER), role, url, str(argument)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("process")
async def test_killed_before_each_step_a_put_leaves_all_or_nothing_and_the_next_one_works(
    local: Blobs, directory: Path, directory_url: str
) -> None:
    blob = await local.put("another organization", PAYLOAD)
    for step in range(100):
        worker = work("put_until_step", directory_url, step)
        try:
            assert await local.get(ORGANIZATION, blob) == PAYLOAD
        except BlobNotFound:
            assert worker.stdout == ""  # it was not acknowledged
        if worker.returncode == 0:
            break
    assert step > 5  # directories made, a file opened, synced, renamed
    assert worker.stdout.strip() == blob
    assert await local.get(ORGANIZATION, blob) == PAYLOAD


@pytest.mark.usefixtures("process")
async def test_what_was_acknowledged_survives_a_kill(local: Blobs, directory_url: str) -> None:
    for _ in range(3):
        command = [sys.executable, str(WORKER), "put_forever", directory_url, ""]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = [process.stdout.readline().strip() for _ in range(200)]
            process.kill()
            rest = process.stdout.read().split("\n")
        for blob in filter(None, [*said, *rest]):
            await local.get(ORGANIZATION, blob)


@pytest.mark.usefixtures("process")
async def test_a_full_disk_is_said_in_a_sentence_and_leaves_nothing_behind(
    local: Blobs, directory: Path, directory_url: str
) -> None:
    worker = work("put_on_full_disk", directory_url, 1_000_000)
    refusal, blob = worker.stdout.splitlines()
    assert refusal.startswith("BlobsFull There is no space left for blobs at ")
    assert len(await local.get(ORGANIZATION, blob)) == 1_000_000
    assert [path.name for path in files(directory)] == [f"{blob}.zst"]


async def test_blobs_are_readable_by_their_owner_alone(local: Blobs, directory: Path) -> None:
    before = os.umask(0)
    try:
        await local.put(ORGANIZATION, PAYLOAD)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [directory, *directory.rglob("*")]}
    assert modes == {0o700, 0o600}


async def test_a_directory_that_was_removed_is_made_again(local: Blobs, directory: Path) -> None:
    blob = await local.put(ORGANIZATION, PAYLOAD)
    directory.rename(directory.with_name("moved"))
    with pytest.raises(BlobNotFound):
        await local.get(ORGANIZATION, blob)
    await local.put(ORGANIZATION, PAYLOAD)
    assert await local.get(ORGANIZATION, blob) == PAYLOAD


async def test_a_place_that_is_no_directory_is_a_sentence(local: Blobs, directory: Path) -> None:
    directory.write_text("a file")
    with pytest.raises(BlobsUnavailable, match="Not a directory"):
        await local.put(ORGANIZATION, PAYLOAD)
