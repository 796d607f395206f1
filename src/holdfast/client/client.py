"""Every route of a running server as a method, and its change feed as an iterator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from holdfast.client.connection import MODEL_SECONDS, Connection, Refused, Unreachable
from holdfast.client.following import Pauses
from holdfast.errors import HoldfastError
from holdfast.execution.answer import ExecuteResponse
from holdfast.execution.events import ExecutionEvent, StageReached, TextAdded
from holdfast.execution.input import ActiveFile
from holdfast.execution.reading import SummaryPage
from holdfast.execution.replay import Replay
from holdfast.model.question import Answer
from holdfast.model.times import iso
from holdfast.retrieval.chunk import EVERYWHERE, LIMIT, Found, Indexed, SearchFilter
from holdfast.server import shapes
from holdfast.server.presence import Presence, store_name

LOOK_SECONDS = 2.0
"""How long a server that should be there may take to say so."""


class Client:
    def __init__(self, url: str, token: str) -> None:
        self._server = Connection(url, token)

    @property
    def url(self) -> str:
        return self._server.url

    @classmethod
    async def find(cls, data_dir: Path, store: str | None = None) -> Client | None:
        """A client of the server that runs with this data directory, and with this store if one is named."""
        presence = Presence.read(data_dir)
        if presence is None or not presence.is_running:
            return None
        if store is not None and presence.store != store_name(store):
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
        await self._server.close()

    async def me(self) -> shapes.Me:
        return await self._server.get("/api/me", shapes.Me)

    async def ready(self) -> shapes.Health:
        """That the server can do its work, or why it cannot."""
        return await self._server.get("/readyz", shapes.Health)

    # Repositories and agents

    async def repos(self) -> tuple[shapes.Repo, ...]:
        return (await self._server.get("/api/repos", shapes.Repos)).repos

    async def scan_repos(self) -> tuple[shapes.Repo, ...]:
        return (await self._server.post("/api/repos/scan", shapes.Repos)).repos

    async def create_repo(self, name: str) -> shapes.Repo:
        """Make a new, empty repository in the server's workspace."""
        return await self._server.post("/api/repos", shapes.Repo, {"name": name})

    async def open_repo(self, repo_id: str, *, for_members: bool) -> shapes.Repo:
        """Let members start agents in a repository and index it, or no longer."""
        return await self._server.call(
            "PUT", f"/api/repos/{repo_id}/members", shapes.Repo, body={"allowed": for_members}
        )

    async def agents(self) -> tuple[shapes.Agent, ...]:
        return (await self._server.get("/api/agents", shapes.Agents)).agents

    # Sessions

    async def create_session(
        self, repo_id: str, *, agent: str | None = None, title: str | None = None
    ) -> shapes.Session:
        body = {"repoId": repo_id, "agent": agent, "title": title}
        return await self._server.post("/api/sessions", shapes.Session, body)

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
        return await self._server.get("/api/sessions", shapes.SessionPage, wanted)

    async def session(self, session_id: str, *, messages: str = "all") -> shapes.Session:
        """A session with its messages: `all`, the `latest`, or `none`."""
        return await self._server.get(f"/api/sessions/{session_id}", shapes.Session, {"messages": messages})

    async def patch_session(self, session_id: str, **changes: Any) -> shapes.Session:
        """Change a session; the names are those of the wire (`isPublic=True`)."""
        return await self._server.call("PATCH", f"/api/sessions/{session_id}", shapes.Session, body=changes)

    async def cancel_session(self, session_id: str) -> shapes.Session:
        return await self._server.call("DELETE", f"/api/sessions/{session_id}", shapes.Session)

    async def purge_session(self, session_id: str) -> shapes.Session:
        """Delete a session and everything in it."""
        path = f"/api/sessions/{session_id}"
        return await self._server.call("DELETE", path, shapes.Session, query={"purge": "true"})

    async def prompt(self, session_id: str, text: str) -> shapes.Turn:
        """Hand in an instruction; its turn, which is pending."""
        accepted = await self._server.post(
            f"/api/sessions/{session_id}/prompt", shapes.Accepted, {"text": text}
        )
        return accepted.turn

    async def cancel_turn(self, session_id: str) -> shapes.Session:
        return await self._server.post(f"/api/sessions/{session_id}/cancel", shapes.Session)

    async def complete_session(self, session_id: str) -> shapes.Session:
        return await self._server.post(f"/api/sessions/{session_id}/complete", shapes.Session)

    async def resume_session(self, session_id: str) -> shapes.Session:
        return await self._server.post(f"/api/sessions/{session_id}/resume", shapes.Session)

    async def fork_session(self, session_id: str) -> shapes.Session:
        return await self._server.post(f"/api/sessions/{session_id}/fork", shapes.Session)

    async def set_mode(self, session_id: str, mode: str) -> shapes.Session:
        return await self._server.post(f"/api/sessions/{session_id}/mode", shapes.Session, {"mode": mode})

    async def set_model(self, session_id: str, model: str) -> shapes.Session:
        return await self._server.post(f"/api/sessions/{session_id}/model", shapes.Session, {"model": model})

    async def set_config(self, session_id: str, config_id: str, value: str | bool) -> shapes.Session:
        body = {"configId": config_id, "value": value}
        return await self._server.post(f"/api/sessions/{session_id}/config", shapes.Session, body)

    async def compact_session(self, session_id: str, strategy: str | None = None) -> shapes.Compaction | None:
        """Shorten what a model is shown of a session; None when there is nothing to gain."""
        path, body = f"/api/sessions/{session_id}/compact", {"strategy": strategy}
        return (await self._server.post(path, shapes.Compacted, body, seconds=MODEL_SECONDS)).compaction

    async def compactions(self, session_id: str) -> shapes.Compactions:
        """All compactions of a session, and what a model is shown now."""
        return await self._server.get(f"/api/sessions/{session_id}/compactions", shapes.Compactions)

    async def undo_compaction(self, session_id: str, compaction_id: str) -> shapes.Compaction:
        """Take a compaction back, and with it those that were made on top of it."""
        path = f"/api/sessions/{session_id}/compactions/{compaction_id}/undo"
        return await self._server.post(path, shapes.Compaction)

    async def messages(
        self,
        session_id: str,
        *,
        since: datetime | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> shapes.MessagePage:
        """The first messages, those after a `seq`, or the latest before one; none older than `since`."""
        later = None if since is None else iso(since)
        wanted = {"since": later, "after": after, "before": before, "limit": limit}
        return await self._server.get(f"/api/sessions/{session_id}/messages", shapes.MessagePage, wanted)

    async def turns(self, session_id: str, *, after: int = 0, limit: int = 100) -> shapes.Turns:
        wanted = {"after": after, "limit": limit}
        return await self._server.get(f"/api/sessions/{session_id}/turns", shapes.Turns, wanted)

    async def turn(self, session_id: str, turn_id: str) -> shapes.Turn:
        return await self._server.get(f"/api/sessions/{session_id}/turns/{turn_id}", shapes.Turn)

    async def last_turn(self, session_id: str) -> shapes.Turn:
        return await self._server.get(f"/api/sessions/{session_id}/turns/last", shapes.Turn)

    async def turn_summary(self, session_id: str, turn_id: str) -> shapes.TurnSummary:
        """A turn without its payloads."""
        path = f"/api/sessions/{session_id}/turns/{turn_id}/summary"
        return await self._server.get(path, shapes.TurnSummary)

    async def export(
        self, session_id: str, form: Literal["markdown", "json"] = "markdown"
    ) -> AsyncGenerator[bytes, None]:
        """A session as one document, in pieces to be written to a file."""
        pieces = self._server.pieces(f"/api/sessions/{session_id}/export", {"format": form})
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    # Instructions to models

    async def execute(
        self, request: Mapping[str, Any], *, key: str | None = None
    ) -> AsyncGenerator[ExecutionEvent | ExecuteResponse, None]:
        """Give a model an instruction: its stages and its text as they come, then the answer.

        The turn goes on when the connection is lost. With a key, the same call gives its answer again.
        """
        headers = {"Idempotency-Key": key} if key is not None else {}
        async with aclosing(
            self._server.events("/api/ai/agent/execute", method="POST", body=request, headers=headers)
        ) as events:
            async for event in events:
                if event.event == "problem":
                    raise Refused(msgspec.json.decode(event.data, type=shapes.Problem))
                shape = _EXECUTION_EVENTS.get(event.event)
                if shape is not None:
                    yield msgspec.json.decode(event.data, type=shape)

    async def rerun_turn(
        self,
        session_id: str,
        turn_id: str,
        *,
        instruction: str | None = None,
        active_files: Iterable[ActiveFile] | None = None,
    ) -> ExecuteResponse:
        """A new turn with the instruction and the files of an earlier one, or with these."""
        body: dict[str, Any] = {"instruction": instruction}
        if active_files is not None:
            body["activeFiles"] = [msgspec.to_builtins(file) for file in active_files]
        path = f"/api/sessions/{session_id}/turns/{turn_id}/rerun"
        return await self._server.post(path, ExecuteResponse, body, seconds=MODEL_SECONDS)

    async def replay_turn(self, session_id: str, turn_id: str) -> Replay:
        return await self._server.get(f"/api/sessions/{session_id}/turns/{turn_id}/replay", Replay)

    async def contexts(self) -> shapes.Contexts:
        return await self._server.get("/api/contexts", shapes.Contexts)

    async def summaries(self, *, user_id: str | None = None, limit: int = 20, offset: int = 0) -> SummaryPage:
        """Sessions in a line each, those that changed last first."""
        wanted = {"userId": user_id, "limit": limit, "offset": offset}
        return await self._server.get("/api/ai/agent/sessions", SummaryPage, wanted)

    async def blob(self, sha256: str) -> bytes:
        """A payload in full, by the hash that the URLs of turns end with."""
        return await self._server.content("GET", f"/api/blobs/{sha256}")

    # The index

    async def search(self, query: str, wanted: SearchFilter = EVERYWHERE, *, limit: int = LIMIT) -> Found:
        body = {"query": query, "limit": limit, **msgspec.structs.asdict(wanted)}
        return await self._server.post("/api/retrieval/search", Found, body)

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
        async with aclosing(self._server.events("/api/retrieval/index", method="POST", body=body)) as events:
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
        return (await self._server.get("/api/questions", shapes.QuestionSets, wanted)).questions

    async def question(self, set_id: str) -> shapes.QuestionSet:
        return await self._server.get(f"/api/questions/{set_id}", shapes.QuestionSet)

    async def answer(self, set_id: str, answers: Iterable[Answer]) -> shapes.QuestionSet:
        body = {"answers": [msgspec.to_builtins(answer) for answer in answers]}
        return await self._server.post(f"/api/questions/{set_id}/answer", shapes.QuestionSet, body)

    async def reject(self, set_id: str, reason: str | None = None) -> shapes.QuestionSet:
        return await self._server.post(
            f"/api/questions/{set_id}/reject", shapes.QuestionSet, {"reason": reason}
        )

    # Reading

    async def render_markdown(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Markdown as HTML that is safe to show, in the same order."""
        return (await self._server.post("/api/markdown", shapes.RenderedTexts, {"texts": texts})).html

    # Access

    async def sign_in_link(self) -> str:
        """An address that opens the page signed in, once."""
        return (await self._server.post("/api/sign-in-links", shapes.SignInLink)).url

    async def tokens(self) -> tuple[shapes.Token, ...]:
        """The tokens of the caller's organization, without their secrets. For admins."""
        return (await self._server.get("/api/tokens", shapes.Tokens)).tokens

    async def create_token(
        self,
        user: str,
        *,
        role: Literal["member", "admin"] = "member",
        label: str = "",
        expires_at: datetime | None = None,
    ) -> shapes.NewToken:
        """A token for a user of the caller's organization. Its secret is shown this once. For admins."""
        end = None if expires_at is None else iso(expires_at)
        body = {"user": user, "role": role, "label": label, "expiresAt": end}
        return await self._server.post("/api/tokens", shapes.NewToken, body)

    async def revoke_token(self, token_id: str) -> shapes.Token:
        """Make a token worthless. For admins."""
        return await self._server.call("DELETE", f"/api/tokens/{token_id}", shapes.Token)

    async def audit(self, *, before: int | None = None, limit: int = 100) -> shapes.Audit:
        """What people of the organization decided and were denied, newest first. For admins."""
        return await self._server.get("/api/audit", shapes.Audit, {"before": before, "limit": limit})

    # The change feed

    async def follow(
        self, session_id: str, since: int = 0, waits: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[shapes.Changes, None]:
        """What changed in a session after a revision, then every change. It ends when the session is gone.

        One that is not there to begin with is a `Refused`.

        A `Refused` with the code `revision_ahead` says that the server has not been where `since` is: it
        was restored from a backup. What is known of the session is to be forgotten then. `waits` is called
        whenever the server did not answer and will be asked again.
        """
        pauses = Pauses(waits)
        was_there = False
        while True:
            try:
                with pauses.coming_back():
                    path = f"/api/sessions/{session_id}/events"
                    async with aclosing(self._server.events(path, headers=_position(since))) as events:
                        async for event in events:
                            pauses.reset()
                            if event.event == "gone":
                                return
                            if event.event == "change":
                                changes = msgspec.json.decode(event.data, type=shapes.Changes)
                                since = changes.rev
                                was_there = True
                                yield changes
            except Refused as refusal:
                if was_there and refusal.problem.status == HTTPStatus.NOT_FOUND:
                    return  # it went while the connection was down
                raise
            await pauses.next()

    async def follow_all(
        self, since: int | None = None
    ) -> AsyncGenerator[shapes.ChangedSessions | shapes.ChangedQuestions, None]:
        """Which sessions and questions change, of those that the caller may see.

        Without `since`, the first item only says the position from which it goes on. Question sets with
        `is_all` are all there are: what is known besides went while nobody listened.
        """
        pauses = Pauses()
        while True:
            with pauses.coming_back():
                async with aclosing(self._server.events("/api/events", headers=_position(since))) as events:
                    async for event in events:
                        pauses.reset()
                        if event.event == "questions":
                            yield msgspec.json.decode(event.data, type=shapes.ChangedQuestions)
                        elif event.event == "sessions":
                            changed = msgspec.json.decode(event.data, type=shapes.ChangedSessions)
                            since = changed.position
                            yield changed
            await pauses.next()


_EXECUTION_EVENTS: dict[str, type[ExecutionEvent] | type[ExecuteResponse]] = {
    "stage": StageReached,
    "delta": TextAdded,
    "answer": ExecuteResponse,
}


def _position(since: int | None) -> dict[str, str]:
    return {} if since is None else {"Last-Event-ID": str(since)}
