"""Contexts: who answers, and what the work is about, by name or by id.

An agent context names a model, its provider, its instructions and tools. A conversation context
adds what the work is about. Both come from the settings (`[contexts.NAME]`, `[conversations.NAME]`)
or from the store, where one of the same name wins. To sessions their ids are opaque: names are
resolved here, each time somebody reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from holdfast.execution.errors import ContextNotFound, ContextWrong, NoModel
from holdfast.model.records import ContextKind
from holdfast.store.store import Store

DEFAULT = "default"

C = TypeVar("C", bound="_Context")


class _Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str = ""
    """What a session keeps; the name, for a context of the settings."""
    name: str = ""
    instructions: str = ""
    repository: str | None = None
    """Where retrieval looks, unless the request says."""
    language: str | None = None

    @classmethod
    def of(cls, name: str, table: Mapping[str, Any], context_id: str | None = None) -> Self:
        try:
            return msgspec.convert({**table, "name": name, "id": context_id or name}, cls)
        except msgspec.ValidationError as error:
            raise ContextWrong(f"The context {name!r} cannot be used: {error}.") from None


class AgentContext(_Context, frozen=True, kw_only=True):
    """Who answers."""

    model: str | None = None
    provider: str = DEFAULT
    tools: tuple[dict[str, Any], ...] = ()
    """As the Responses API takes them."""
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: dict[str, Any] | None = None


class ConversationContext(_Context, frozen=True, kw_only=True):
    """What the work is about."""

    workspace: str | None = None


class Contexts:
    """The contexts that one caller may use."""

    def __init__(
        self,
        agents: Sequence[AgentContext],
        conversations: Sequence[ConversationContext],
        model: str | None,
        wrong: Mapping[tuple[ContextKind, str], ContextWrong] | None = None,
    ) -> None:
        """`model` is that of contexts which name none; `wrong` says, by name and id, why some are no use."""
        self._wrong = wrong or {}
        self.agents = {
            context.name: msgspec.structs.replace(context, model=context.model or model) for context in agents
        }
        self.conversations = {context.name: context for context in conversations}

    def agent(self, wanted: str | None) -> AgentContext:
        """The context of that name or id, which has a model."""
        context = self._resolved(self.agents, wanted or DEFAULT, ContextKind.AGENT)
        if context.model is None:
            raise NoModel(context.name)
        return context

    def conversation(self, wanted: str | None) -> ConversationContext | None:
        if wanted is None:
            return None
        return self._resolved(self.conversations, wanted, ContextKind.CONVERSATION)

    def agent_name(self, context_id: str | None) -> str | None:
        """What people call a context; None for one that is not there any more."""
        return _name(self.agents, context_id)

    def conversation_name(self, context_id: str | None) -> str | None:
        return _name(self.conversations, context_id)

    def _resolved(self, known: Mapping[str, C], wanted: str, kind: ContextKind) -> C:
        if (kind, wanted) in self._wrong:
            raise self._wrong[kind, wanted]
        for context in known.values():
            if wanted in (context.name, context.id):
                return context
        raise ContextNotFound(kind.value, wanted, list(known))


class ContextSource:
    """The contexts of the settings, to which those of the store are added for each caller."""

    def __init__(
        self,
        agents: Mapping[str, Mapping[str, Any]],
        conversations: Mapping[str, Mapping[str, Any]],
        model: str | None,
    ) -> None:
        """`model` is that of contexts which name none."""
        default: dict[str, Mapping[str, Any]] = {DEFAULT: {}}
        self._agents = [AgentContext.of(name, table) for name, table in (default | dict(agents)).items()]
        self._conversations = [ConversationContext.of(name, table) for name, table in conversations.items()]
        self._model = model

    def of_settings(self) -> Contexts:
        """Those that everybody has."""
        return Contexts(self._agents, self._conversations, self._model)

    async def of(self, view: Store) -> Contexts:
        """One that is stored and cannot be used is in the way of nobody who does not name it."""
        agents, conversations = list(self._agents), list(self._conversations)
        wrong: dict[tuple[ContextKind, str], ContextWrong] = {}
        for record in await view.list_contexts():
            try:
                if record.kind is ContextKind.AGENT:
                    agents.append(AgentContext.of(record.name, record.definition, record.id))
                else:
                    conversations.append(ConversationContext.of(record.name, record.definition, record.id))
            except ContextWrong as error:
                wrong |= {(record.kind, record.name): error, (record.kind, record.id): error}
        return Contexts(agents, conversations, self._model, wrong)


def _name(known: Mapping[str, _Context], context_id: str | None) -> str | None:
    return next((context.name for context in known.values() if context.id == context_id), None)
