"""The bindings in force: those of the settings, then those that the store keeps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.records import BindingRecord
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import Bindings
from holdfast.routing.policy import RoutingPolicy
from holdfast.store.store import Store


async def read_bindings(
    store: Store, policy: RoutingPolicy | None = None, *, agents: Iterable[str] = ()
) -> Bindings:
    kept = [binding_of(record) for record in await store.list_bindings()]
    return Bindings(kept, policy, agents=agents)


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
