"""Repositories, tokens, bindings, contexts, moves of sessions, the audit log, processes of agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from holdfast.model.ids import ContextId, RepoId, TokenId
from holdfast.model.principal import Principal
from holdfast.model.records import (
    AuditEntry,
    BindingRecord,
    ContextKind,
    ContextRecord,
    MoveRecord,
    MoveStep,
    ProcessRecord,
    Repo,
    Token,
)
from holdfast.model.session import SessionPatch, SessionRef
from holdfast.store import (
    bindings,
    executions,
    moves,
    processes,
    records,
)
from holdfast.store.calls.call import Calls
from holdfast.store.ids import new_id
from holdfast.store.options import (
    check_limit,
)


class RecordCalls(Calls):
    async def save_repos(self, repos: Sequence[Repo]) -> Sequence[Repo]:
        return await self._write(records.save_repos, repos=repos, now=self._runtime.clock())

    async def get_repo(self, repo_id: RepoId) -> Repo:
        return await self._glance(records.get_repo, repo_id=repo_id)

    async def list_repos(self) -> Sequence[Repo]:
        return await self._read(records.list_repos)

    async def open_repo(self, repo_id: RepoId, *, for_members: bool) -> Repo:
        """Let members start agents in a repository and index it, or no longer. Only an admin can."""
        return await self._write(records.open_repo, repo_id, for_members, self._runtime.clock())

    async def delete_repo(self, repo_id: RepoId) -> None:
        await self._write(records.delete_repo, repo_id=repo_id, now=self._runtime.clock())

    async def add_token(
        self,
        principal: Principal,
        token_hash: str,
        label: str,
        *,
        expires_at: datetime | None = None,
        parent_id: TokenId | None = None,
    ) -> Token:
        """Keep a token. One with a parent is revoked with it."""
        return await self._write(
            records.add_token,
            principal=principal,
            token_hash=token_hash,
            label=label,
            expires_at=expires_at,
            parent_id=parent_id,
            now=self._runtime.clock(),
        )

    async def find_token(self, token_hash: str) -> Token | None:
        return await self._engine.read(partial(records.find_token, token_hash=token_hash), brief=True)

    async def touch_token(self, token_id: TokenId) -> None:
        """Record that a token was used just now."""
        await self._engine.write(partial(records.touch_token, token_id=token_id, now=self._runtime.clock()))

    async def list_tokens(self) -> Sequence[Token]:
        return await self._read(records.list_tokens)

    async def revoke_token(self, token_id: TokenId) -> Token:
        return await self._write(records.revoke_token, token_id=token_id, now=self._runtime.clock())

    async def add_binding(self, rule: dict[str, Any]) -> BindingRecord:
        return await self._write(bindings.add, rule, self._runtime.clock())

    async def list_bindings(self) -> Sequence[BindingRecord]:
        """The bindings that are kept here, in the order in which they count."""
        return await self._read(bindings.every)

    async def remove_binding(self, number: int) -> BindingRecord:
        return await self._write(bindings.remove, number)

    async def save_context(self, kind: ContextKind, name: str, definition: dict[str, Any]) -> ContextRecord:
        """Keep a context under its name, in place of an earlier one."""
        now = self._runtime.clock()
        context_id = ContextId(new_id())
        return await self._write(executions.save_context, kind, name, definition, context_id, now)

    async def list_contexts(self) -> Sequence[ContextRecord]:
        return await self._read(executions.contexts)

    async def remove_context(self, kind: ContextKind, name: str) -> ContextRecord:
        return await self._write(executions.remove_context, kind, name)

    async def move_sessions(self, steps: Sequence[MoveStep]) -> MoveRecord:
        """Take all of these steps, or none."""
        runtime = self._runtime
        moving = moves.Moving(
            self._scope, steps, runtime.clock(), self._engine.owner, runtime.max_message_bytes
        )
        return await self._write(lambda tx, _: moving(tx))

    async def undo_moves(self) -> MoveRecord:
        """Take back the last moves that were not undone, all of them or none."""
        return await self._write(moves.undo, self._runtime.clock())

    async def list_audit(self, *, before: int | None = None, limit: int = 100) -> Sequence[AuditEntry]:
        check_limit(limit)
        return await self._read(records.list_audit, before=before, limit=limit)

    async def record_process(self, ref: SessionRef, process_group: int, started: float) -> None:
        """Record a process group that serves a session, as started by this process."""
        await self._write(processes.record, ref, self._engine.owner, process_group, started)

    async def processes(self, ref: SessionRef) -> Sequence[ProcessRecord]:
        """The process groups that serve a session, whichever server started them."""
        return await self._read(processes.of_session, ref)

    async def forget_process(self, process_group: int) -> None:
        owner = self._engine.owner
        await self._engine.write(lambda tx: processes.forget(tx, owner, process_group))

    async def release(self, ref: SessionRef, change: SessionPatch) -> None:
        """Change a session and forget the processes that served it, at once: whoever sees that a session
        has ended may start another process in it, from any server."""
        await self._write(processes.release, ref, self._engine.owner, change, self._runtime.clock())

    async def claim_abandoned_processes(self) -> Sequence[ProcessRecord]:
        """Take over what servers that are gone have left running, to end it."""
        dead = await self._engine.dead(await self._engine.read(processes.owners))
        if not dead:
            return []
        owner = self._engine.owner
        return await self._engine.write(lambda tx: processes.claim(tx, dead, owner))
