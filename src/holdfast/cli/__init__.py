"""The command line. A failure is one sentence on standard error and exit code 1."""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError, MissingExtra


def main() -> None:
    try:
        from holdfast.cli.app import command_line

        app = command_line(sys.argv[1:])
    except MissingExtra as error:
        sys.exit(f"holdfast: {error}")
    except ModuleNotFoundError as error:
        sys.exit(f"holdfast: {MissingExtra('The command line', 'cli')} (missing: {error.name})")
    try:
        app()
    except HoldfastError as error:
        sys.exit(f"holdfast: {error}")
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"holdfast: {error.filename}: {error.strerror}")
