"""A running server, from Python: every route as a method, and the change feed as an iterator.

    async with Client("http://127.0.0.1:4747", token) as server:
        session = await server.create_session(repo_id, agent="demo")
        await server.prompt(session.id, "Say hello")
        async for changes in server.follow(session.id):
            ...

The feed comes back by itself when the connection or the server goes, and goes on where it was:
whoever applies its items in order (`SessionCopy` does) has what the server has.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
import msgspec

from holdfast.errors import HoldfastError
from holdfast.execution.answer import ExecuteResponse
from holdfast.execution.events import ExecutionEvent, StageReached, TextAdded
from holdfast.execution.replay import Replay
from holdfast.model.question import Answer
from holdfast.retrieval.chunk import EVERYWHERE, LIMIT, Found, Indexed, SearchFilter
from holdfast.server import shapes
from holdfast.server.presence import Presence

T = TypeVar("T")

SECONDS = 60.0
"""How long an answer may take, and how long a feed may be silent: four times its heartbeat."""

LOOK_SECONDS = 2.0
"""How long a server that should be there may take to say so."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""How long to wait before connecting again: twice as long each time, and not all at once."""


class Unreachable(HoldfastError):
    """The server did not answer. Whether it did what was asked is not known."""

    code = "unreachable"
    status = 503
    retriable = True


class Refused(HoldfastError):
    """The server said no, and why."""

    code = "refused"

    def __init__(self, problem: shapes.Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class Client:
    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._http = httpx2.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=SECONDS
        )

    @classmethod
    async def find(cls, data_dir: Path) -> Client | None:
        """A client of the server that runs with this data directory, if one does."""
        presence = Presence.read(data_dir)
        if presence is None or not presence.is_running:
            return None
        client = cls(presence.url, presence.token)
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await client.me()
        except (HoldfastError, TimeoutError):
            await client.close()
            return None
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def me(self) -> shapes.Me:
        return await self._get("/api/me", shapes.Me)

    # Repositories and agents

    async def repos(self) -> tuple[shapes.Repo, ...]:
        return (await self._get("/api/repos", shapes.Repos)).repos

    async def scan_repos(self) -> tuple[shapes.Repo, ...]:
        return (await self._post("/api/repos/scan", shapes.Repos)).repos

    async def agents(self) -> tuple[shapes.Agent, ...]:
        return (await self._get("/api/agents", shapes.Agents)).agents

    # Sessions

    async def create_session(
        self, repo_id: str, *, agent: str | None = None, title: str | None = None
    ) -> shapes.Session:
        body = {"repoId": repo_id, "agent": agent, "title": title}
        return await self._post("/api/sessions", shapes.Session, body)

    async def sessions(
        self,
        *,
        repo_id: str | None = None,
        status: Iterable[str] | None = None,
        agent: str | None = None,
        text: str | None = None,
        order: str = "created",
        limit: int = 20,
        offset: int = 0,
        before: str | None = None,
    ) -> shapes.SessionPage:
        wanted = {
            "repoId": repo_id,
            "status": None if status is None else ",".join(status),
            "agent": agent,
            "q": text,
            "order": order,
            "limit": limit,
            "offset": offset,
            "before": before,
        }
        return await self._get("/api/sessions", shapes.SessionPage, wanted)

    async def session(self, session_id: str, *, messages: str = "all") -> shapes.Session:
        """A session with its messages: `all`, the `latest`, or `none`."""
        return await self._get(f"/api/sessions/{session_id}", shapes.Session, {"messages": messages})

    async def patch_session(self, session_id: str, **changes: Any) -> shapes.Session:
        """Change a session; the names are those of the wire (`isPublic=True`)."""
        return await self._call("PATCH", f"/api/sessions/{session_id}", shapes.Session, body=changes)

    async def cancel_session(self, session_id: str) -> shapes.Session:
        return await self._call("DELETE", f"/api/sessions/{session_id}", shapes.Session)

    async def purge_session(self, session_id: str) -> shapes.Session:
        """Delete a session and everything in it."""
        path = f"/api/sessions/{session_id}"
        return await self._call("DELETE", path, shapes.Session, query={"purge": "true"})

    async def prompt(self, session_id: str, text: str) -> shapes.Turn:
        """Hand in an instruction; its turn, which is pending."""
        accepted = await self._post(f"/api/sessions/{session_id}/prompt", shapes.Accepted, {"text": text})
        return accepted.turn

    async def cancel_turn(self, session_id: str) -> shapes.Session:
        return await self._post(f"/api/sessions/{session_id}/cancel", shapes.Session)

    async def complete_session(self, session_id: str) -> shapes.Session:
        return await self._post(f"/api/sessions/{session_id}/complete", shapes.Session)

    async def resume_session(self, session_id: str) -> shapes.Session:
        return await self._post(f"/api/sessions/{session_id}/resume", shapes.Session)

    async def fork_session(self, session_id: str) -> shapes.Session:
        return await self._post(f"/api/sessions/{session_id}/fork", shapes.Session)

    async def set_mode(self, session_id: str, mode: str) -> shapes.Session:
        return await self._post(f"/api/sessions/{session_id}/mode", shapes.Session, {"mode": mode})

    async def set_config(self, session_id: str, config_id: str, value: str | bool) -> shapes.Session:
        body = {"configId": config_id, "value": value}
        return await self._post(f"/api/sessions/{session_id}/config", shapes.Session, body)

    async def compact_session(self, session_id: str, strategy: str | None = None) -> shapes.Compaction | None:
        """Shorten what a model is shown of a session; None when there is nothing to gain."""
        body = {"strategy": strategy}
        return (await self._post(f"/api/sessions/{session_id}/compact", shapes.Compacted, body)).compaction

    async def messages(
        self, session_id: str, *, after: int | None = None, before: int | None = None, limit: int = 100
    ) -> shapes.MessagePage:
        wanted = {"after": after, "before": before, "limit": limit}
        return await self._get(f"/api/sessions/{session_id}/messages", shapes.MessagePage, wanted)

    async def turns(self, session_id: str, *, after: int = 0, limit: int = 100) -> shapes.Turns:
        wanted = {"after": after, "limit": limit}
        return await self._get(f"/api/sessions/{session_id}/turns", shapes.Turns, wanted)

    async def turn(self, session_id: str, turn_id: str) -> shapes.Turn:
        return await self._get(f"/api/sessions/{session_id}/turns/{turn_id}", shapes.Turn)

    # Instructions to models

    async def execute(
        self, request: Mapping[str, Any], *, key: str | None = None
    ) -> AsyncGenerator[ExecutionEvent | ExecuteResponse, None]:
        """Give a model an instruction: its stages and its text as they come, then the answer.

        The turn goes on when the connection is lost. With a key, the same call gives its answer again.
        """
        headers = {"Idempotency-Key": key} if key is not None else {}
        async with aclosing(
            self._events("/api/ai/agent/execute", method="POST", body=request, headers=headers)
        ) as events:
            async for event in events:
                if event.event == "problem":
                    raise Refused(msgspec.json.decode(event.data, type=shapes.Problem))
                shape = _EXECUTION_EVENTS.get(event.event)
                if shape is not None:
                    yield msgspec.json.decode(event.data, type=shape)

    async def rerun_turn(self, session_id: str, turn_id: str) -> ExecuteResponse:
        """A new turn with the instruction of an earlier one."""
        return await self._post(f"/api/sessions/{session_id}/turns/{turn_id}/rerun", ExecuteResponse, {})

    async def replay_turn(self, session_id: str, turn_id: str) -> Replay:
        return await self._get(f"/api/sessions/{session_id}/turns/{turn_id}/replay", Replay)

    async def contexts(self) -> shapes.Contexts:
        return await self._get("/api/contexts", shapes.Contexts)

    # The index

    async def search(self, query: str, wanted: SearchFilter = EVERYWHERE, *, limit: int = LIMIT) -> Found:
        body = {"query": query, "limit": limit, **msgspec.structs.asdict(wanted)}
        return await self._post("/api/retrieval/search", Found, body)

    async def index(
        self,
        path: str,
        *,
        repository: str | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Indexed:
        """Index a directory of the server's workspace. To stop waiting stops the run.

        `progress` is told how many files of how many have been looked at.
        """
        body = {"path": path, "repository": repository}
        async with aclosing(
            self._events("/api/retrieval/index", method="POST", body=body, headers={})
        ) as events:
            async for event in events:
                if event.event == "progress":
                    step = msgspec.json.decode(event.data)
                    progress(step["done"], step["total"])
                elif event.event == "problem":
                    raise Refused(msgspec.json.decode(event.data, type=shapes.Problem))
                elif event.event == "indexed":
                    return msgspec.json.decode(event.data, type=Indexed)
        raise Unreachable(f"The server at {self.url} stopped before the index was up to date; index again.")

    # Questions

    async def questions(self, *, status: Iterable[str] | None = None) -> tuple[shapes.QuestionSet, ...]:
        wanted = {"status": None if status is None else ",".join(status)}
        return (await self._get("/api/questions", shapes.QuestionSets, wanted)).questions

    async def question(self, set_id: str) -> shapes.QuestionSet:
        return await self._get(f"/api/questions/{set_id}", shapes.QuestionSet)

    async def answer(self, set_id: str, answers: Iterable[Answer]) -> shapes.QuestionSet:
        body = {"answers": [msgspec.to_builtins(answer) for answer in answers]}
        return await self._post(f"/api/questions/{set_id}/answer", shapes.QuestionSet, body)

    async def reject(self, set_id: str, reason: str | None = None) -> shapes.QuestionSet:
        return await self._post(f"/api/questions/{set_id}/reject", shapes.QuestionSet, {"reason": reason})

    # Access

    async def sign_in_link(self) -> str:
        """An address that opens the page signed in, once."""
        return (await self._post("/api/sign-in-links", shapes.SignInLink)).url

    async def audit(self, *, before: int | None = None, limit: int = 100) -> shapes.Audit:
        return await self._get("/api/audit", shapes.Audit, {"before": before, "limit": limit})

    # The change feed

    async def follow(self, session_id: str, since: int = 0) -> AsyncGenerator[shapes.Changes, None]:
        """What changed in a session after a revision, then every change. It ends when the session is gone.

        A `Refused` with the code `revision_ahead` says that the server has not been where `since` is: it
        was restored from a backup. What is known of the session is to be forgotten then.
        """
        pauses = _Pauses()
        while True:
            try:
                path = f"/api/sessions/{session_id}/events"
                async with aclosing(self._events(path, headers=_position(since))) as events:
                    async for event in events:
                        pauses.reset()
                        if event.event == "gone":
                            return
                        changes = msgspec.json.decode(event.data, type=shapes.Changes)
                        since = changes.rev
                        yield changes
            except Unreachable:
                pass
            await pauses.next()

    async def follow_all(
        self, since: int | None = None
    ) -> AsyncGenerator[shapes.ChangedSessions | shapes.ChangedQuestions, None]:
        """Which sessions and questions change, of those that the caller may see.

        Without `since`, the first item only says the position from which it goes on.
        """
        pauses = _Pauses()
        while True:
            try:
                async with aclosing(self._events("/api/events", headers=_position(since))) as events:
                    async for event in events:
                        pauses.reset()
                        if event.event == "questions":
                            yield msgspec.json.decode(event.data, type=shapes.ChangedQuestions)
                        elif event.event == "sessions":
                            changed = msgspec.json.decode(event.data, type=shapes.ChangedSessions)
                            since = changed.position
                            yield changed
            except Unreachable:
                pass
            await pauses.next()

    async def _events(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
    ) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        """The events of one connection, which ends as connections do."""
        wanted = {"Accept": "text/event-stream", **headers}
        try:
            async with self._http.stream(method, path, json=body, headers=wanted) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response)
                async for event in httpx2.EventSource(response, max_event_size=None):
                    if event.data:
                        yield event
        except httpx2.TransportError as error:
            raise Unreachable(f"The server at {self.url} is gone: {error}.") from error

    async def _get(self, path: str, shape: type[T], query: Mapping[str, Any] | None = None) -> T:
        return await self._call("GET", path, shape, query=query)

    async def _post(self, path: str, shape: type[T], body: Mapping[str, Any] | None = None) -> T:
        return await self._call("POST", path, shape, body=body)

    async def _call(
        self,
        method: str,
        path: str,
        shape: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> T:
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            response = await self._http.request(method, path, params=wanted, json=body)
        except httpx2.TransportError as error:
            raise Unreachable(
                f"The server at {self.url} does not answer ({error}); is it running? `holdfast doctor` knows."
            ) from error
        if not response.is_success:
            raise _refusal(response)
        return msgspec.json.decode(response.content, type=shape)


_EXECUTION_EVENTS: dict[str, type[ExecutionEvent] | type[ExecuteResponse]] = {
    "stage": StageReached,
    "delta": TextAdded,
    "answer": ExecuteResponse,
}


def _position(since: int | None) -> dict[str, str]:
    return {} if since is None else {"Last-Event-ID": str(since)}


class SessionCopy:
    """A session as its follower knows it."""

    def __init__(self) -> None:
        self.rev = 0
        self.session: shapes.Session | None = None
        self.messages: dict[str, shapes.Message] = {}
        self.turns: dict[str, shapes.Turn] = {}
        self.compactions: dict[str, shapes.Compaction] = {}

    def apply(self, changes: shapes.Changes) -> None:
        """Take in the next item of the feed."""
        self.rev = changes.rev
        self.session = changes.session
        self.messages |= {message.id: message for message in changes.messages}
        self.turns |= {turn.id: turn for turn in changes.turns}
        self.compactions |= {compaction.id: compaction for compaction in changes.compactions}
        for delta in changes.deltas:
            message = self.messages[delta.message_id]
            if delta.rev > message.rev:
                content = message.content | {"text": message.content.get("text", "") + delta.text}
                longer = msgspec.structs.replace(message, content=content, rev=delta.rev)
                self.messages[delta.message_id] = longer


class _Pauses:
    def __init__(self) -> None:
        self._seconds = FIRST_PAUSE

    def reset(self) -> None:
        self._seconds = FIRST_PAUSE

    async def next(self) -> None:
        await asyncio.sleep(self._seconds * random.uniform(0.5, 1))
        self._seconds = min(LONGEST_PAUSE, self._seconds * 2)


def _refusal(response: httpx2.Response) -> HoldfastError:
    """Why the server said no; what may be different in a moment is as if it had not answered."""
    try:
        problem = msgspec.json.decode(response.content, type=shapes.Problem)
    except msgspec.DecodeError:
        return Unreachable(f"What answers at {response.url} is not Holdfast (status {response.status_code}).")
    if problem.status in (502, 503, 504) and problem.code in ("closing", "store_unavailable"):
        return Unreachable(problem.detail)
    return Refused(problem)
