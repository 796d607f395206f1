"""Agents that misbehave: small programs, run as real child processes."""

import os
import sys
from pathlib import Path

import psutil

PRELUDE = """
import json, os, signal, subprocess, sys, time

def send(line):
    sys.stdout.write(line if isinstance(line, str) else json.dumps(line))
    sys.stdout.write("\\n")
    sys.stdout.flush()

def lines():
    for line in sys.stdin:
        yield json.loads(line)
"""


def script(directory: Path, body: str) -> list[str]:
    """The command line of a program with this body."""
    path = directory / f"agent_{abs(hash(body))}.py"
    path.write_text(PRELUDE + body)
    return [sys.executable, "-u", str(path)]


def members(group: int) -> list[int]:
    """The running processes of a group."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found
