"""What a person has entered for the questions of a set, and the answers that it makes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.model.question import Answer, Question
from holdfast.questions.format import elaborate_request, rephrase_request


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person has entered for one question."""

    chosen: tuple[str, ...] = ()
    """Labels, in the order of the options."""
    none: bool = False
    """None of several, which is an answer too."""
    own_text: str = ""
    own_chosen: bool = False
    """Whether the own text is to be sent: choosing an option instead does not delete it."""
    elaborate: bool = False
    guidance: str = ""
    """What to say more about."""
    rephrase: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether it says something about the question itself."""
        return bool(self.chosen) or self.none or self.says_own_text

    @property
    def is_empty(self) -> bool:
        return not (self.is_answer or self.elaborate or self.rephrase)

    @property
    def says_own_text(self) -> bool:
        return self.own_chosen and bool(self.own_text.strip())

    def choose(self, question: Question, label: str) -> Reply:
        """Choose an option; of several, choose it or take the choice back."""
        if not question.multi_select:
            return msgspec.structs.replace(self, chosen=(label,), own_chosen=False)
        wanted = set(self.chosen) ^ {label}
        chosen = tuple(option.label for option in question.options if option.label in wanted)
        return msgspec.structs.replace(self, chosen=chosen, none=False)

    def choose_none(self) -> Reply:
        return msgspec.structs.replace(self, none=not self.none, chosen=(), own_chosen=False)

    def write(self, question: Question, text: str) -> Reply:
        """Answer in own words, which take the place of a single choice."""
        chosen = self.chosen if question.multi_select or not text.strip() else ()
        return msgspec.structs.replace(
            self, own_text=text, own_chosen=bool(text.strip()), chosen=chosen, none=False
        )

    def choose_own_text(self, question: Question) -> Reply:
        """Send the own text that is already there; of several answers, or take it back."""
        if question.multi_select and self.own_chosen:
            return msgspec.structs.replace(self, own_chosen=False)
        return self.write(question, self.own_text)

    def answers(self, question: Question, index: int) -> list[Answer]:
        """One answer for what is said, and one for each request beside it."""
        given = []
        if self.is_answer:
            several = question.multi_select and (bool(self.chosen) or self.none)
            given.append(
                Answer(
                    question_index=index,
                    selected_option=self.chosen[0] if self.chosen and not several else None,
                    selected_options=self.chosen if several else None,
                    custom_text=self.own_text.strip() if self.says_own_text else None,
                )
            )
        if self.elaborate:
            request = elaborate_request(guidance=self.guidance.strip() or None)
            given.append(Answer(question_index=index, custom_text=request))
        if self.rephrase:
            given.append(Answer(question_index=index, custom_text=rephrase_request(question, index)))
        return given


class Draft(msgspec.Struct, frozen=True):
    """The replies to a set so far, by the number of the question."""

    replies: Mapping[int, Reply] = {}

    def reply(self, index: int) -> Reply:
        return self.replies.get(index, Reply())

    def with_reply(self, index: int, reply: Reply) -> Draft:
        return Draft({**self.replies, index: reply})

    @property
    def is_empty(self) -> bool:
        return all(reply == Reply() for reply in self.replies.values())

    def answers(self, questions: tuple[Question, ...]) -> list[Answer]:
        return [
            answer
            for index, question in enumerate(questions)
            for answer in self.reply(index).answers(question, index)
        ]

    def unanswered(self, questions: tuple[Question, ...]) -> list[int]:
        return [index for index in range(len(questions)) if self.reply(index).is_empty]
