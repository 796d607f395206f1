"""How long a tool may take before its client gives up on it, by the name that the client gives itself.

A call that waits for a person returns before that, and says how to go on waiting.
"""

from __future__ import annotations

UNKNOWN_CLIENT_SECONDS = 50.0
"""Most clients give a tool a minute."""

_SECONDS: dict[str, float | None] = {
    "claude-code": None,  # waits for more than a day, and shows the heartbeats
    "opencode": None,
    "gemini-cli-mcp-client": 570.0,  # gives up after ten minutes
}


def patience(client: str | None) -> float | None:
    """For how many seconds a tool may wait; None for ever. Some clients add to their name."""
    for name, seconds in _SECONDS.items():
        if client is not None and client.startswith(name):
            return seconds
    return UNKNOWN_CLIENT_SECONDS
