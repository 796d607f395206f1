"""The command line. A failure is one sentence on standard error and exit code 1."""

from __future__ import annotations

import errno
import io
import os
import sys

import holdfast
from holdfast.errors import HoldfastError, MissingExtra

INTERRUPTED = 130


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character is shown another one
            stream.reconfigure(errors="replace")
    try:
        if sys.argv[1:] == ["--version"]:  # which needs none of the commands
            print(f"holdfast {holdfast.__version__}")
        else:
            _run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except HoldfastError as error:
        sys.exit(f"holdfast: {error}")
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"holdfast: {error.filename}: {error.strerror}")
    finally:
        _flush()


def _run() -> None:
    try:
        from holdfast.cli.app import command_line

        app = command_line(sys.argv[1:])
    except ModuleNotFoundError as error:
        sys.exit(f"holdfast: {MissingExtra('The command line', 'cli')} (missing: {error.name})")
    app()


def _flush() -> None:
    """Write out what is left here, where it can be said that it cannot be: at Python's end is too late."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(
            1 if error.errno == errno.EPIPE else f"holdfast: The output cannot be written: {error.strerror}."
        )
