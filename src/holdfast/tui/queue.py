"""The sets that wait, oldest first, each in two lines: what it is about; who asks, since when."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from holdfast.model.question import QuestionKind, QuestionSet, QuestionSetId
from holdfast.questions.shown import age, asker, subject
from holdfast.tui.text import KIND_NAMES, lateness
from holdfast.tui.theme import MUTED

SIGNS = {QuestionKind.QUESTION: "?", QuestionKind.PERMISSION: "!", QuestionKind.ELICITATION: "≡"}


class Queue(OptionList):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,right,space", "select", "Open", key_display="⏎"),
    ]

    def show(self, waiting: Sequence[QuestionSet], drafted: Container[QuestionSetId], now: datetime) -> None:
        """Show these sets. The person stays at the set they are at, or at its place when it has gone."""
        here, place = self.here, self.highlighted or 0
        ids = [each.id for each in waiting]
        with self.prevent(OptionList.OptionHighlighted):
            self.clear_options()
            for each in waiting:
                self.add_options([Option(_entry(each, each.id in drafted, now), id=each.id), None])
            if ids:
                self.highlighted = ids.index(here) if here in ids else min(place, len(ids) - 1)

    @property
    def here(self) -> QuestionSetId | None:
        option = self.highlighted_option if self.highlighted is not None else None
        return QuestionSetId(option.id) if option is not None and option.id else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "select" or self.option_count > 0


def _entry(question_set: QuestionSet, has_draft: bool, now: datetime) -> Content:
    facts = [
        asker(question_set),
        age(question_set.created_at, now),
        *(["draft"] if has_draft else []),
        lateness(question_set) or KIND_NAMES[question_set.kind],
    ]
    sign_style = "$text-accent" if question_set.kind is QuestionKind.PERMISSION else "$text-primary"
    return Content.assemble(
        (f"{SIGNS[question_set.kind]} ", f"bold {sign_style}"),
        subject(question_set),
        ("\n  " + " · ".join(facts), MUTED),
    )
