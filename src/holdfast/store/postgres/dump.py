"""A backup of PostgreSQL, made by its own program `pg_dump`, which is consistent while writers run."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import StoreError
from holdfast.store.backup import published


async def dump(url: str, target: Path) -> None:
    with published(target) as file:
        program = shutil.which("pg_dump")
        if program is None:
            raise StoreError(
                "pg_dump is not installed here; install PostgreSQL's client programs to make a backup."
            )
        address, secrets = without_password(url)
        await _run([program, "--format=custom", f"--file={file}", f"--dbname={address}"], secrets)


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """The address without its password, and the variable that carries the password instead.

    Every user of a machine can read the arguments of its programs, and only their owner the environment.
    """
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = []
    for option in parts.query.split("&"):
        name, _, value = option.partition("=")
        if name == "password":
            password = password or value
        else:
            options.append(option)
    query = f"?{'&'.join(options)}" if any(options) else ""
    address = f"{parts.scheme}://{user}{at}{host}{parts.path}{query}"
    return address, {"PGPASSWORD": unquote(password)} if password else {}


async def _run(command: list[str], secrets: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*command, "--no-password"),  # it would ask for one on the terminal
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **secrets},
    )
    try:
        _, complaint = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        said = " ".join(complaint.decode(errors="replace").split()).rstrip(".")
        raise StoreError(f"pg_dump failed: {said}.")
