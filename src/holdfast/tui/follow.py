"""What happens in a box, told as an inbox needs it: sets that wait, that are settled, that go.

Other processes answer the same sets. Each is read again whenever its files change, and told of
when what it says has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.model.question import QuestionSet, QuestionSetId
from holdfast.questions import QuestionBox
from holdfast.questions.errors import QuestionSetNotFound
from holdfast.questions.shown import problem

AGAIN_SECONDS = 1.0
"""How long after a directory could not be read it is tried again."""


@dataclass(frozen=True)
class Waiting:
    """Somebody may answer this set. `is_new` when it was not there at the beginning."""

    question_set: QuestionSet
    is_new: bool


@dataclass(frozen=True)
class Settled:
    """A set that waited was answered or rejected, here or elsewhere."""

    question_set: QuestionSet


@dataclass(frozen=True)
class Gone:
    """A set that waited was deleted."""

    id: QuestionSetId


@dataclass(frozen=True)
class Unreadable:
    """A set is there, but its files make no sense."""

    id: QuestionSetId
    problem: str


@dataclass(frozen=True)
class Looked:
    """Everything that there is has been told. `problem` when the directory cannot be read."""

    problem: str | None = None


Event = Waiting | Settled | Gone | Unreadable | Looked


async def follow(box: QuestionBox) -> AsyncGenerator[Event, None]:
    """First what there is, then what happens. It never ends: close it (`contextlib.aclosing`)."""
    known: dict[QuestionSetId, QuestionSet | None] = {}
    is_new = False
    while True:
        unseen = set(known)
        try:
            async with aclosing(box.changes()) as changes:
                async for changed in changes:
                    for set_id in sorted(changed | unseen):
                        for event in await _look(box, set_id, known, is_new):
                            yield event
                    unseen.clear()
                    is_new = True
                    yield Looked()
        except (HoldfastError, OSError) as error:
            yield Looked(problem(error))
            await asyncio.sleep(AGAIN_SECONDS)


async def _look(
    box: QuestionBox, set_id: QuestionSetId, known: dict[QuestionSetId, QuestionSet | None], is_new: bool
) -> list[Event]:
    """What to tell of a set. `known` holds those told of before, and None for unreadable ones."""
    is_known = set_id in known
    before = known.pop(set_id, None)
    try:
        found = await box.get(set_id)
    except QuestionSetNotFound:
        return [Gone(set_id)] if is_known else []
    except HoldfastError as error:
        known[set_id] = None
        return [Unreadable(set_id, problem(error))]
    if found.is_settled:
        return [Settled(found)] if is_known else []
    known[set_id] = found
    return [] if found == before else [Waiting(found, is_new=is_new and not is_known)]
