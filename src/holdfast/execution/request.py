"""A request to a model: its parameters, and its input.

The whole input is everything said before and the turn's own part. Where the provider still has the
response before this one, only the own part is sent, and the response is named. The own part is made
once and is the same in both: when the provider has forgotten, the whole input is sent, and nothing
of it was lost by having been shortened before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.execution.contexts import AgentContext, ConversationContext
from holdfast.execution.prompt import EDIT

EDIT_MODE = "edit"


class Parameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything of a request but its input. It is kept as a blob, so that the request can be made again."""

    model: str
    instructions: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: dict[str, Any] | None = None
    store: bool = False

    @classmethod
    def of(
        cls, agent: AgentContext, conversation: ConversationContext | None, mode: str, *, chains: bool
    ) -> Parameters:
        """A provider does not carry instructions from one response to the next: they are in every request."""
        assert agent.model is not None
        texts = (
            agent.instructions,
            conversation.instructions if conversation else "",
            EDIT if mode == EDIT_MODE else "",
        )
        return cls(
            model=agent.model,
            instructions="\n\n".join(filter(None, texts)),
            tools=agent.tools,
            max_output_tokens=agent.max_output_tokens,
            temperature=agent.temperature,
            reasoning=agent.reasoning,
            store=chains,
        )

    def body(self, items: list[dict[str, Any]], previous_response_id: str | None) -> dict[str, Any]:
        given: dict[str, Any] = msgspec.to_builtins(self) | {"store": self.store, "input": items}
        if previous_response_id is not None:
            given["previous_response_id"] = previous_response_id
        return given

    def encoded(self) -> bytes:
        return encoded(msgspec.to_builtins(self))


def encoded(body: dict[str, Any]) -> bytes:
    """The one form in which a request is kept: the same request gives the same bytes."""
    return msgspec.json.encode(body, order="deterministic")


def own_item(request: bytes) -> dict[str, Any]:
    """A turn's own part of the request that was sent for it."""
    item: dict[str, Any] = msgspec.json.decode(request)["input"][-1]
    return item
