"""The bindings in force: those of the settings, then those that the store keeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.key import name
from holdfast.model.records import BindingRecord
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import Bindings
from holdfast.routing.policy import RoutingPolicy
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.routing.gateway import Gateway

log = logging.getLogger("holdfast.routing")

FOLLOW_SECONDS = 2.0
"""How late a bot notices that bindings were changed."""


async def read_bindings(
    store: Store, policy: RoutingPolicy | None = None, *, agents: Collection[str] = ()
) -> Bindings:
    return _in_force(await store.list_bindings(), policy, agents)


@asynccontextmanager
async def following_bindings(
    gateway: Gateway,
    store: Store,
    policy: RoutingPolicy | None = None,
    *,
    agents: Collection[str] = (),
    seconds: float = FOLLOW_SECONDS,
) -> AsyncIterator[None]:
    """Have a gateway decide by the bindings in force, whoever changes them, until the end of the block.

    Bindings that cannot be read, make no sense or name an agent without a runner are logged, and those of
    before stay.
    """
    seen: Sequence[BindingRecord] | None = None
    failure = ""

    async def look() -> None:
        nonlocal seen, failure
        try:
            now = await store.list_bindings()
            if now != seen:
                _require_runners(now, gateway.agents)
                gateway.bindings = _in_force(now, policy, agents)
            seen, failure = now, ""
        except HoldfastError as error:
            if str(error) != failure:
                log.warning("bindings stay as they were: %s", error)
            failure = str(error)

    async def follow() -> None:
        while True:
            await asyncio.sleep(seconds)
            await look()

    await look()

    following = asyncio.get_running_loop().create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait([following])


async def add_binding(store: Store, binding: Binding) -> BindingRecord:
    """Keep a binding, after all others. Sessions that exist stay with their agents."""
    record = await store.add_binding(binding.rule())
    await store.audit("binding.add", "done", subject=str(record.number), detail=record.rule)
    return record


async def remove_binding(store: Store, number: int) -> BindingRecord:
    record = await store.remove_binding(number)
    await store.audit("binding.remove", "done", subject=str(number), detail=record.rule)
    return record


def binding_of(record: BindingRecord) -> Binding:
    try:
        return msgspec.convert(record.rule, Binding)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"Binding {record.number} in the store is wrong: {error}. Remove it.") from None


def _require_runners(kept: Iterable[BindingRecord], agents: Collection[str]) -> None:
    for record in kept:
        agent = binding_of(record).agent
        if name(agent, "agent") not in agents:
            known = ", ".join(sorted(agents)) or "none"
            raise InvalidInput(
                f"Binding {record.number} names the agent {agent!r}, for which this bot has no runner; it "
                f"has {known}."
            )


def _in_force(
    kept: Iterable[BindingRecord], policy: RoutingPolicy | None, agents: Collection[str]
) -> Bindings:
    return Bindings([binding_of(record) for record in kept], policy, agents=agents)
