"""How many files the server may have open, and how many of them may be connections.

Each connection is a file to the system, as are the store's and the pipes of agents. Where connections
took all that a process may have, nothing could be stored and no agent started.
"""

from __future__ import annotations

import resource
from contextlib import suppress

ENOUGH = 16_384
"""More than this is not asked for: some programs look at every file that they might have."""

FOR_WORK = 512
"""Files that are kept for the store and for agents, where there are enough."""


def raise_limit() -> int:
    """Have as many files as the system allows without asking an administrator, and say how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS promises more than it gives
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def connections_among(limit: int) -> int:
    """How many of so many files may be connections."""
    return max(limit // 2, limit - FOR_WORK)
