"""When sessions are compacted, and how: `compaction` in the tables of agents and of contexts.

[contexts.default.compaction]
window = 200000
share = 0.8
strategy = { name = "summarize", keep_recent_turns = 5 }
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import TIMEOUT_SECONDS
from holdfast.compaction.extractive import extractive
from holdfast.compaction.plan import AtLeastOne, Count
from holdfast.compaction.strategies import NoCompaction, strategy_of
from holdfast.compaction.strategy import CompactionStrategy
from holdfast.compaction.summaries import Summarizer
from holdfast.compaction.view import View
from holdfast.errors import InvalidInput
from holdfast.model.session import Session

if TYPE_CHECKING:
    from holdfast.config import ProviderSettings

DEFAULT_PROVIDER = "default"

DEFAULT_TARGET = 0.5
DEFAULT_OF_SHARE = 0.625
"""The target where none is given: a half, which is this much of the share that is usual."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

Policies: TypeAlias = "Callable[[Session], CompactionPolicy | None]"
"""The policy of a session; None for one that is left alone."""


def policies_of(
    agents: Mapping[str, Mapping[str, Any]],
    contexts: Mapping[str, Mapping[str, Any]] = NOTHING,
    providers: Mapping[str, ProviderSettings] = NOTHING,
) -> Policies:
    """What the settings say for a session: of its context where a model answers in it, else of its agent.

    Summaries are written by a model of the provider whose model answers, unless the settings name another.
    """
    of_agents = {name: each.at(providers, DEFAULT_PROVIDER) for name, each in _policies_in(agents).items()}
    of_contexts = {
        name: each.at(providers, contexts[name].get("provider", DEFAULT_PROVIDER))
        for name, each in _policies_in(contexts).items()
    }
    of_stored = {name: each.at(providers, None) for name, each in _policies_in(contexts).items()}

    def policy(session: Session) -> CompactionPolicy | None:
        context = session.agent_context_id
        if context is None:
            return of_agents.get(session.agent)
        # The id of a context that is stored is opaque; its sessions have the context's name for their agent.
        return of_contexts.get(context) if context in contexts else of_stored.get(session.agent)

    return policy


def policy_of(
    session: Session,
    agents: Mapping[str, Mapping[str, Any]],
    contexts: Mapping[str, Mapping[str, Any]],
    providers: Mapping[str, ProviderSettings],
) -> CompactionPolicy:
    """The policy of a session for which the settings need not have one."""
    return policies_of(agents, contexts, providers)(session) or CompactionPolicy()


def _policies_in(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, CompactionPolicy]:
    return {
        name: CompactionPolicy.of(table["compaction"])
        for name, table in tables.items()
        if "compaction" in table
    }


class ModelServer(msgspec.Struct, frozen=True, kw_only=True):
    """Where the model that writes summaries is asked."""

    base_url: str | None = None
    """By default that of OPENAI_BASE_URL, else OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"


class CompactionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: str | dict[str, Any] = "pipeline"
    """A name, or a table with a name and parameters; `none` never compacts."""
    window: AtLeastOne = 128_000
    """The tokens that the agent's model takes in."""
    reserve: Count = 20_000
    """Tokens left free for its answer, at most a quarter of the window."""
    overhead: Count = 0
    """Tokens of instructions and of the definitions of tools."""
    share: float | None = 0.8
    """Compact once the view takes this share of the room there is for it."""
    tokens: AtLeastOne | None = None
    """Compact once the view takes so many tokens."""
    messages: AtLeastOne | None = None
    """Compact once the view has so many messages."""
    target: float | None = None
    """What a compaction leaves, or less: of the room, of `tokens`, or of what so many messages took,
    whichever called for it. By default a half, and less than `share` in any case."""
    after_run: bool = True
    """Whether it happens by itself after a run, or only on demand."""
    timeout_seconds: float = TIMEOUT_SECONDS
    failures: AtLeastOne = 3
    """After how many failures in a row it is not tried again by itself."""
    model: str | None = None
    """The model that writes summaries; none: they are made of the session's own words."""
    provider: str | None = None
    """Of `[providers]`: where that model is. By default that of the context, and `default` for an agent."""
    server: ModelServer | None = None
    """What the provider is; found by its name."""

    def __post_init__(self) -> None:
        for name in ("share", "target"):
            if (value := getattr(self, name)) is not None and not 0 < value <= 1:
                raise InvalidInput(f"The compaction's {name} is more than 0 and at most 1; it is {value}.")
        if self.share is not None and self.filled >= self.share:
            raise InvalidInput(
                f"A compaction at a share of {self.share} must leave less of it than {self.target}: give a "
                "smaller target."
            )
        if not 0 < self.timeout_seconds < float("inf"):
            raise InvalidInput(f"A compaction takes some time, and not {self.timeout_seconds} seconds.")
        if self.after_run and self.share is None and self.tokens is None and self.messages is None:
            raise InvalidInput(
                "Nothing calls for a compaction: give `share`, `tokens` or `messages`, or after_run = false."
            )
        self.budget()
        self.planner()

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> CompactionPolicy:
        try:
            return msgspec.convert(table, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The compaction settings are wrong: {error}.") from None

    def at(self, providers: Mapping[str, ProviderSettings], otherwise: str | None) -> CompactionPolicy:
        """The policy with its model's server: of the provider that it names, or else of another one.

        What was said in a session is sent there, so it is never guessed.
        """
        name = self.provider or otherwise
        if self.model is None or name is None:
            return self
        found = providers.get(name)
        if found is None and name != DEFAULT_PROVIDER:
            raise InvalidInput(
                f"The compaction's model {self.model!r} is at {name!r}: add [providers.{name}]."
            )
        server = (
            ModelServer(base_url=found.base_url, api_key_env=found.api_key_env) if found else ModelServer()
        )
        return msgspec.structs.replace(self, server=server)

    @property
    def filled(self) -> float:
        """The target, given or not."""
        if self.target is not None:
            return self.target
        return DEFAULT_TARGET if self.share is None else min(DEFAULT_TARGET, self.share * DEFAULT_OF_SHARE)

    def budget(self, ratio: float = 1.0) -> Budget:
        """The budget in tokens as we count them; `ratio` is how many the model counts to one of ours."""
        reserve = min(self.reserve, self.window // 4)
        whole = Budget(window=self.window, reserve=reserve, overhead=self.overhead)
        return Budget(
            window=self.window,
            reserve=reserve,
            overhead=self.overhead,
            target=max(1, int(whole.room * self.filled)),
        ).calibrated(ratio)

    def on_demand(self, view: View, ratio: float = 1.0) -> Budget:
        """The budget of a compaction that somebody asked for: it should show, also in a short session."""
        budget = self.budget(ratio)
        return msgspec.structs.replace(budget, target=min(budget.aim, max(1, view.tokens // 2)))

    def planner(self) -> CompactionStrategy:
        return strategy_of(self.strategy)

    def summarizer(self) -> Summarizer:
        if self.model is None:
            return extractive
        if self.server is None:
            raise InvalidInput(
                f"Nobody knows where the compaction's model {self.model!r} is: add `provider`, a name of "
                "[providers], beside it."
            )
        variable = self.server.api_key_env
        if not (key := os.environ.get(variable)):
            raise InvalidInput(f"The compaction's model {self.model!r} needs a key: set {variable}.")
        from holdfast.compaction.responses import ResponsesSummarizer

        return ResponsesSummarizer(self.model, base_url=self.server.base_url, api_key=key, window=self.window)

    def due(self, view: View, ratio: float = 1.0) -> Budget | None:
        """The budget of a compaction that a trigger calls for, with its aim; None where none does."""
        if isinstance(self.planner(), NoCompaction):
            return None
        budget = self.budget(ratio)
        aims: list[float] = []
        if self.share is not None and view.tokens >= int(budget.room * self.share):
            aims.append(budget.aim)
        if self.tokens is not None and view.tokens >= self.tokens:
            aims.append(self.tokens * self.filled)
        if self.messages is not None and len(view.items) >= self.messages:
            aims.append(view.tokens * self.filled)
        return msgspec.structs.replace(budget, target=max(1, int(min(aims)))) if aims else None
