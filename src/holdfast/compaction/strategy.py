"""What a strategy is, and what most of them need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.items import STORED, Atom, Item
from holdfast.compaction.plan import Plan
from holdfast.compaction.ranges import Ranges, union
from holdfast.compaction.validator import MIN_SAVING
from holdfast.compaction.view import View
from holdfast.errors import InvalidInput
from holdfast.model.message import Role
from holdfast.model.tokens import TokenCounter


@runtime_checkable
class CompactionStrategy(Protocol):
    """Planning is pure: no I/O, no clock, the same plan for the same view."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        """How to shorten the view; None when there is nothing to gain."""


class Configured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A strategy whose parameters are its fields."""

    name: ClassVar[str]
    version: ClassVar[int] = 1


def parameters(strategy: CompactionStrategy) -> dict[str, Any] | None:
    """What is recorded of a strategy beside its name; None where nobody can tell how it was set up."""
    try:
        own = strategy if isinstance(strategy, msgspec.Struct) else vars(strategy)
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(own))
    except (TypeError, ValueError, RecursionError):  # it has no fields, or they are not JSON
        return None
    return {"version": strategy.version} | fields


class Keep(msgspec.Struct, frozen=True):
    """How much of the end of a view is left alone: whichever of these reaches back furthest."""

    tokens: int | None = None
    messages: int | None = None
    turns: int | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "messages", "turns"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise InvalidInput(f"The {name} to keep cannot be {value}.")

    def boundary(self, view: View) -> int:
        """The place in the view from which items are left alone."""
        return min(self._boundaries(view), default=len(view.items))

    def _boundaries(self, view: View) -> Iterator[int]:
        end = len(view.items)
        if self.messages is not None:
            yield max(0, end - self.messages)
        if self.tokens is not None:
            place, left = end, self.tokens
            while place and (left := left - view.items[place - 1].tokens) >= 0:
                place -= 1
            yield place
        if self.turns is not None:
            said = [n for n, item in enumerate(view.items) if _is_said(item)]
            yield said[-self.turns] if 0 < self.turns <= len(said) else (0 if self.turns else end)


def older(view: View, boundary: int, *, room: int, added: int = 0, summaries: bool = True) -> list[Atom]:
    """The atoms that may go and end before the boundary, and those after it that must for the rest to fit."""
    taken: list[Atom] = []
    tokens = view.tokens + added
    for atom in view.atoms:
        if atom.last >= boundary and tokens <= room:
            break
        if atom.fixed or (not summaries and atom.is_summary):
            continue
        taken.append(atom)
        tokens -= atom.tokens
    return taken


def from_a_beginning(view: View, taken: Sequence[Atom]) -> list[Atom]:
    """What to leave out so that a person's words or a summary come first, and not half of an answer.

    The rest of an answer goes with its question. Where something in it must stay, its question does.
    """
    if not taken:
        return []
    gone = {atom.last for atom in taken}
    rest: list[Atom] = []
    question: Atom | None = None
    for atom in view.atoms:
        if atom.last in gone:
            question = atom if _begins(atom) else question
        elif _begins(atom):
            return [*taken, *rest]
        elif not atom.fixed:
            rest.append(atom)
        elif atom.items[0].message.role is Role.AGENT:
            break
    return [atom for atom in taken if atom is not question]


def _begins(atom: Atom) -> bool:
    return atom.is_summary or _is_said(atom.items[0])


def _is_said(item: Item) -> bool:
    """Whether a person said it; summaries and notes of results have that role, too."""
    return item.kind is STORED and item.message.role is Role.USER


def together(atoms: Sequence[Atom]) -> Ranges:
    return union([each for atom in atoms for item in atom.items for each in item.ranges])


def only_a_summary(atoms: Sequence[Atom]) -> bool:
    return len(atoms) == 1 and atoms[0].is_summary


def saves_enough(view: View, saved: int) -> bool:
    return saved > 0 and view.tokens - saved <= view.tokens * (1 - MIN_SAVING)
