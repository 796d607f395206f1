"""A running server, from Python: every route as a method, and the change feed as an iterator.

    async with Client("http://127.0.0.1:4747", token) as server:
        session = await server.create_session(repo_id, agent="demo")
        await server.prompt(session.id, "Say hello")
        async for changes in server.follow(session.id):
            ...

The feed comes back by itself when the connection or the server goes, and goes on where it was:
whoever applies its items in order (`SessionCopy` and `EverythingCopy` do) has what the server has.
"""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.client.connection import Refused, Unreachable
from holdfast.client.following import EverythingCopy, SessionCopy

__all__ = ["Client", "EverythingCopy", "Refused", "SessionCopy", "Unreachable"]
