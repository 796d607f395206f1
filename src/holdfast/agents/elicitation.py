"""A form that an agent wants filled in, as questions to a person: `elicitation/create` of ACP.

Each property of the form's schema is a question, and its answer is turned back into a value of
the property's type. What does not fit is asked again, with a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.agents.labels import shown, unique_labels
from holdfast.agents.properties import TYPES, ArrayProperty, Choice, Property, between
from holdfast.errors import InvalidInput
from holdfast.model.question import Answer, Option, Question

LEAVE_OUT = "Leave out"


class Schema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    properties: dict[str, dict[str, Any]] | None = None
    required: tuple[str, ...] | None = None


class Form:
    """A form that is being filled in."""

    def __init__(self, message: str, schema: Schema) -> None:
        """`InvalidInput` when something is required that no question can be made of."""
        self.content: dict[str, Any] = {}
        """The values so far."""
        self._message = shown(message)
        self._open = [(field, "") for field in _fields(schema)]

    @property
    def is_complete(self) -> bool:
        return not self._open

    def questions(self) -> tuple[Question, ...]:
        """A question for each field that has no value yet; after a misfit, it says what was wrong."""
        return tuple(
            field.question(misfit if number else f"{self._message} {misfit}".strip())
            for number, (field, misfit) in enumerate(self._open)
        )

    async def fill_in(self, answers: Sequence[Answer]) -> None:
        """Take the answers to `questions()`. Fields that they do not fit stay open."""
        given = {answer.question_index: answer for answer in answers}
        asked, self._open = self._open, []
        for index, (field, _) in enumerate(asked):
            try:
                value = await field.value(given.get(index))
            except _Misfit as misfit:
                self._open.append((field, str(misfit)))
            else:
                if value is not None:
                    self.content[field.name] = value


class _Misfit(Exception):
    """An answer that the form does not take; the message says why."""


class _Field:
    """One property: the question for it, and the value of an answer."""

    def __init__(self, name: str, wanted: Property, *, required: bool) -> None:
        self.name = name
        self._wanted = wanted
        self._required = required
        self._default = _usable_default(wanted)
        self._offers = self._offered()

    def question(self, preface: str) -> Question:
        title = shown(self._wanted.title or "") or shown(self.name) or "Value"
        several = isinstance(self._wanted, ArrayProperty)
        expected = self._wanted.expected if several or not self._wanted.choices else ""
        paragraphs = (
            preface,
            shown(self._wanted.description or "") or title,
            f"({expected[0].upper()}{expected[1:]}.)" if expected else "",
        )
        return Question(
            title=title,
            prompt="\n\n".join(dict.fromkeys(filter(None, paragraphs))),
            options=tuple(Option(offer.label, offer.description) for offer in self._offers),
            multi_select=several,
        )

    async def value(self, answer: Answer | None) -> Any:
        """What an answer means: a value, or None where the field may be left out; else `_Misfit`."""
        if answer is None:
            return self._unanswered()
        labels = {answer.selected_option, *(answer.selected_options or ())}
        chosen = [offer.value for offer in self._offers if offer.label in labels]
        if answer.custom_text and not chosen:
            chosen = [await self._typed(answer.custom_text)]
        if isinstance(self._wanted, ArrayProperty):
            return self._several(self._wanted, chosen)
        return chosen[0] if len(chosen) == 1 else self._unanswered()

    def _offered(self) -> list[Choice]:
        """What can be chosen: the choices or else the default, and to leave out what is not required."""
        several = isinstance(self._wanted, ArrayProperty)
        defaults = self._default if several else [self._default]
        offers = self._wanted.choices
        if not offers and self._default is not None:
            offers = [Choice(str(self._default), self._default)]
        offers = [_described(offer, is_default=offer.value in (defaults or ())) for offer in offers]
        if not self._required and not several:
            offers.append(Choice(LEAVE_OUT, None))
        labels = unique_labels([offer.label for offer in offers])
        return [
            msgspec.structs.replace(offer, label=label) for offer, label in zip(offers, labels, strict=True)
        ]

    def _unanswered(self) -> Any:
        if self._required and self._default is None:
            raise _Misfit("An answer is needed here.")
        return self._default

    async def _typed(self, text: str) -> Any:
        for offer in self._offers:
            if text.strip() in (offer.label, offer.value):
                return offer.value
        try:
            return await self._wanted.parsed(text)
        except ValueError:
            raise _Misfit(f"“{shown(text)}” does not fit: {self._wanted.expected} is needed.") from None

    def _several(self, wanted: ArrayProperty, chosen: list[Any]) -> list[Any] | None:
        if between(wanted.min_items, len(chosen), wanted.max_items):
            return chosen
        if not chosen and not self._required:
            return None
        raise _Misfit(f"{len(chosen)} chosen, and {wanted.expected} is needed.")


def _fields(schema: Schema) -> list[_Field]:
    """The fields that questions can be made of. Without the others a form can still be filled in."""
    required = set(schema.required or ())
    fields = [
        _Field(name, _property(name, wanted), required=name in required)
        for name, wanted in (schema.properties or {}).items()
        if str(wanted.get("type")) in TYPES
    ]
    if unknown := required - {field.name for field in fields}:
        raise InvalidInput(
            f"The form requires {min(unknown)!r}, and describes no such field that is known here."
        )
    return fields


def _property(name: str, wanted: dict[str, Any]) -> Property:
    try:
        known: Property = msgspec.convert(wanted, Property)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The field {name!r} of the form is wrong: {error}.") from None
    return known


def _usable_default(wanted: Property) -> Any:
    """The default, unless it is none of the choices that come with it."""
    values = [choice.value for choice in wanted.choices]
    if isinstance(wanted, ArrayProperty):
        default = list(wanted.default or ())
        return default if default and set(default) <= set(values) else None
    return wanted.default if not values or wanted.default in values else None


def _described(offer: Choice, *, is_default: bool) -> Choice:
    description = " ".join(
        filter(None, (shown(offer.description or ""), "(the default)" if is_default else ""))
    )
    return msgspec.structs.replace(offer, description=description or None)
