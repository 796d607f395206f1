"""A process of its own that puts blobs, for the tests that kill it or starve it.

Run as `worker.py ROLE URL ARGUMENT`. What it says are lines on standard output, each written at once.
"""

import asyncio
import os
import resource
import signal
import sys
from typing import Any

from holdfast import HoldfastError
from holdfast.blobs import open_blobs

ORGANIZATION = "acme"
STEPS = {"open", "os.mkdir", "os.rename", "os.utime"}


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


async def put_until_step(url: str, step: str) -> None:
    """Put a blob, and die like in a power cut just before the given step at the files."""
    blobs = open_blobs(url)
    root = url.removeprefix("file://")
    left = int(step)

    def count(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        if event in STEPS and str(args[0]).startswith(root):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    say(await blobs.put(ORGANIZATION, b"the payload"))


async def put_on_full_disk(url: str, size: str) -> None:
    """Put what is too large for a file; then lift the limit and put it again."""
    blobs = open_blobs(url)
    data = os.urandom(int(size))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size) // 2, hard))
    try:
        await blobs.put(ORGANIZATION, data)
    except HoldfastError as error:
        say(f"{type(error).__name__} {error}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say(await blobs.put(ORGANIZATION, data))


async def put_forever(url: str, _: str) -> None:
    blobs = open_blobs(url)

    async def busy(number: int) -> None:
        count = 0
        while True:
            count += 1
            data = f"{os.getpid()} {number} {count} ".encode() * 200
            say(await blobs.put(ORGANIZATION, data))

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(busy(number))


ROLES = {role.__name__: role for role in (put_until_step, put_on_full_disk, put_forever)}

if __name__ == "__main__":
    _, name, url, argument = sys.argv
    asyncio.run(ROLES[name](url, argument))
