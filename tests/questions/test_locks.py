"""Taking turns: with the AUQ programs through lock files, among ourselves through the system's locks."""

import asyncio
import os
import stat
import subprocess
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.questions.errors import LockNotAcquired
from holdfast.questions.locks import EMPTY_LOCK_SECONDS, file_lock, guard
from tests.questions.processes import together, worker
from tests.questions.sets import age, just_written, names


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


@pytest.fixture
def lock(file: Path) -> Path:
    return file.with_name("status.json.lock")


@pytest.mark.usefixtures("process")
@pytest.mark.req("ASK-13")
async def test_processes_take_turns_and_a_dead_owners_lock_is_removed(file: Path, lock: Path) -> None:
    file.write_text("0")
    lock.write_text(str(_dead_pid()))
    several = [{"path": str(file), "times": 25}] * 4
    assert await together("count", several) == [{"done": 25}] * 4
    assert file.read_text() == "100"
    assert not lock.exists()


@pytest.mark.usefixtures("process")
@pytest.mark.req("ASK-13")
async def test_the_lock_of_a_killed_process_is_removed(file: Path, lock: Path) -> None:
    async with worker("hold", path=str(file)) as holder:
        assert int(lock.read_text().split()[0]) == holder.pid
        await holder.kill()
    assert lock.exists()
    with file_lock(file, 0):
        assert int(lock.read_text().split()[0]) == os.getpid()
    assert not lock.exists()


@pytest.mark.usefixtures("process")
def test_the_lock_of_a_killed_process_that_nobody_reaped_is_removed(file: Path, lock: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    lock.write_text(str(child.pid))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and left a zombie
    try:
        with file_lock(file, 0):
            assert int(lock.read_text().split()[0]) == os.getpid()
    finally:
        child.wait()


@pytest.mark.req("ASK-13")
def test_a_lock_is_the_owners_alone_and_begins_with_its_process_id(file: Path, lock: Path) -> None:
    with file_lock(file):
        pid, started = lock.read_text().split(" ")
        assert int(pid) == os.getpid()
        assert started
        assert "\n" not in lock.read_text()
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600


@pytest.mark.usefixtures("process")
async def test_a_lock_is_waited_for_and_then_given_up_with_the_owners_lock_in_place(
    file: Path, lock: Path
) -> None:
    async with worker("hold", path=str(file)) as holder:
        content = lock.read_text()
        with pytest.raises(LockNotAcquired) as failure, file_lock(file, 0.05):
            pytest.fail("the lock of a live process was taken")
        assert str(failure.value) == f"Failed to acquire file lock: {file}"
        assert str(failure.value.cause) == "Lock acquisition timeout"
        assert lock.read_text() == content
        holder.go()
        await holder.finish()
    assert not lock.exists()


@pytest.mark.usefixtures("process")
async def test_a_waiter_gets_the_lock_as_soon_as_it_is_released(file: Path) -> None:
    async with (
        worker("hold", path=str(file)) as holder,
        worker("try_lock", path=str(file), seconds=30) as next_,
    ):
        next_.go()
        holder.go()
        await holder.finish()
        assert await next_.finish() == [{"locked": True}]


def test_a_reused_process_id_does_not_keep_a_dead_owners_lock(file: Path, lock: Path) -> None:
    lock.write_text(f"{os.getpid()} 1")  # this process, but started at another time
    with file_lock(file, 0):
        assert lock.read_text() != f"{os.getpid()} 1"


def test_a_lock_of_another_program_has_no_start_time_and_counts_while_its_process_lives(
    file: Path, lock: Path
) -> None:
    lock.write_text(str(os.getpid()))
    with pytest.raises(LockNotAcquired), file_lock(file, 0):
        pytest.fail("the lock of a live process was taken")
    assert lock.read_text() == str(os.getpid())


@pytest.mark.usefixtures("process")
async def test_the_lock_of_another_users_live_process_is_respected() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        file = Path(name) / "status.json"
        lock = file.with_name("status.json.lock")
        lock.write_text("1")  # alive as long as the machine is, and not ours to signal
        lock.chmod(0o644)
        async with worker("try_lock", path=str(file), seconds=0.05, stranger=True) as stranger:
            stranger.go()
            assert await stranger.finish() == [{"refused": f"Failed to acquire file lock: {file}"}]
        assert lock.read_text() == "1"


@pytest.mark.parametrize("content", ["", " ", "what?", "0", "-1", "99999999999999999999", "１２"])
def test_a_lock_without_a_process_id_is_one_being_written_until_it_is_old(
    file: Path, lock: Path, content: str
) -> None:
    lock.write_text(content, encoding="utf-8")
    just_written(lock)
    with pytest.raises(LockNotAcquired), file_lock(file, 0):
        pytest.fail("the lock was taken while its owner may be writing to it")
    assert lock.read_text(encoding="utf-8") == content
    age(lock, timedelta(seconds=EMPTY_LOCK_SECONDS + 1))
    with file_lock(file, 0):
        assert lock.read_text(encoding="utf-8") != content


def test_only_ones_own_lock_is_released(file: Path, lock: Path) -> None:
    with file_lock(file):
        lock.unlink()  # as an AUQ program does when it gives up,
        lock.write_text("1")  # and another then takes the lock
    assert lock.read_text() == "1"


def test_a_lock_that_was_deleted_meanwhile_is_no_error_at_its_release(file: Path, lock: Path) -> None:
    with file_lock(file):
        lock.unlink()
    assert not lock.exists()


def test_a_lock_in_a_directory_that_is_gone_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), file_lock(tmp_path / "gone" / "status.json"):
        pytest.fail("there is nothing to lock")


@pytest.mark.usefixtures("process")
async def test_a_directory_is_held_by_one_process_until_it_ends(tmp_path: Path) -> None:
    async with worker("hold_guard", path=str(tmp_path)) as holder:
        with pytest.raises(LockNotAcquired), guard(tmp_path, 0.02):
            pytest.fail("the directory is held")
        await holder.kill()
        with guard(tmp_path, 0):
            pass
    assert names(tmp_path) == []


async def test_a_directory_is_held_by_one_thread(tmp_path: Path) -> None:
    inside = 0

    def enter() -> int:
        nonlocal inside
        with guard(tmp_path, 30):
            inside += 1
            seen = inside
            os.sched_yield()
            inside -= 1
        return seen

    assert await asyncio.gather(*(asyncio.to_thread(enter) for _ in range(200))) == [1] * 200


async def test_who_waits_for_a_directory_that_is_deleted_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "set"
    waiting = threading.Event()

    def enter() -> None:
        waiting.set()
        with guard(directory, 30):
            pytest.fail("there is nothing to hold")

    for number in range(20):
        directory.mkdir()
        waiting.clear()
        with guard(directory):
            entering = asyncio.create_task(asyncio.to_thread(enter))
            await asyncio.to_thread(waiting.wait)
            directory.rename(tmp_path / str(number))
        with pytest.raises(FileNotFoundError):
            await entering


def _dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid
