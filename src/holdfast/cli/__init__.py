"""The command line. A failure is one sentence on standard error and exit code 1."""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError, MissingExtra


def main() -> None:
    try:
        # The agent that starts this one waits for it, and it needs nothing of the other commands.
        if sys.argv[1:2] == ["mcp"]:
            from holdfast.cli.mcp import app
        else:
            from holdfast.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(f"holdfast: {MissingExtra('The command line', 'cli')} (missing: {error.name})")
    try:
        app()
    except HoldfastError as error:
        sys.exit(f"holdfast: {error}")
