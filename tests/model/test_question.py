"""The rules of question sets: statuses, the first word, and what makes an answer."""

import re
import uuid
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.question import (
    SETTLED,
    TRANSITIONS,
    AlreadySettled,
    Answer,
    InvalidAnswers,
    NewQuestionSet,
    Option,
    Question,
    QuestionKind,
    QuestionSet,
    QuestionSetId,
    QuestionStatus,
    allowed,
    check_answers,
    is_question_set_id,
    question_set_id,
    require_transition,
)

statuses = st.sampled_from(QuestionStatus)
CHOICE = Question(title="T", prompt="P?", options=(Option("a"), Option("b", "the second")))
SEVERAL = Question(title="S", prompt="Which?", options=(Option("x"), Option("y")), multi_select=True)


def question_set(status: QuestionStatus) -> QuestionSet:
    moment = datetime(2026, 11, 15, 22, 13, 26, 947000, tzinfo=UTC)
    return QuestionSet(
        id=QuestionSetId("3fe93825-a9dd-4f96-9454-834c2ccd4b14"),
        kind=QuestionKind.QUESTION,
        status=status,
        questions=(CHOICE,),
        created_at=moment,
        updated_at=moment,
        answered_by="ada",
        answered_from="terminal",
        answered_at=moment,
    )


def test_every_status_has_a_row_in_the_table() -> None:
    assert TRANSITIONS.keys() == set(QuestionStatus)


@given(st.lists(statuses, max_size=8))
def test_what_a_person_said_first_never_changes(wishes: list[QuestionStatus]) -> None:
    status, first = QuestionStatus.PENDING, None
    for wish in wishes:
        if allowed(status, wish):
            status = wish
        if first is None and status in SETTLED:
            first = status
        assert first in (None, status)


@given(statuses)
def test_nothing_becomes_pending_again_and_only_a_person_speaks_after_the_end(status: QuestionStatus) -> None:
    assert not allowed(status, QuestionStatus.PENDING)
    if status is not QuestionStatus.PENDING:
        assert TRANSITIONS[status] in (SETTLED, frozenset())


@pytest.mark.parametrize(("status", "what"), [("completed", "answered"), ("rejected", "rejected")])
def test_a_second_word_is_told_who_was_first_where_and_when(status: str, what: str) -> None:
    first = question_set(QuestionStatus(status))
    with pytest.raises(AlreadySettled) as refusal:
        require_transition(first, QuestionStatus.COMPLETED)
    assert str(refusal.value) == (
        f"Session {first.id} was already {what} by ada through terminal at 2026-11-15T22:13:26.947Z; "
        "the first answer stands."
    )
    assert (refusal.value.status, refusal.value.first) == (409, first)


def test_another_program_does_not_say_who_was_first() -> None:
    first = msgspec.structs.replace(
        question_set(QuestionStatus.COMPLETED), answered_by=None, answered_from=None
    )
    with pytest.raises(AlreadySettled, match="was already answered by another program at 2026"):
        require_transition(first, QuestionStatus.REJECTED)


@pytest.mark.parametrize("status", sorted(set(QuestionStatus) - SETTLED))
@pytest.mark.parametrize("word", sorted(SETTLED))
def test_a_first_word_is_taken_in_time_and_late(status: QuestionStatus, word: QuestionStatus) -> None:
    require_transition(question_set(status), word)
    assert allowed(status, word)


@pytest.mark.req("ASK-29")
@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ((), "No answers provided"),
        ((Answer(question_index=9, custom_text="x"),), "Answer references invalid question index: 9"),
        ((Answer(question_index=-1, custom_text="x"),), "Answer references invalid question index: -1"),
        (
            (Answer(question_index=1, selected_option="", custom_text=""),),
            "Answer for question 1 has neither selectedOption, selectedOptions, nor customText",
        ),
        (
            (Answer(question_index=0, selected_option="A"),),
            "Answer for question 0 references non-existent option: A",
        ),
        (
            (Answer(question_index=1, selected_options=("x", "z")),),
            "Answer for question 1 references non-existent option: z",
        ),
    ],
)
def test_answers_that_do_not_fit_are_refused(answers: tuple[Answer, ...], problem: str) -> None:
    with pytest.raises(InvalidAnswers, match=f"^{re.escape(problem)}$"):
        check_answers((CHOICE, SEVERAL), answers)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(question_index=0, selected_option="a"),
        Answer(
            question_index=0, selected_options=("a", "b")
        ),  # of a single choice, as the AUQ programs allow
        Answer(question_index=1, selected_options=()),
        Answer(question_index=1, selected_options=("x",), custom_text="and more"),
        Answer(question_index=1, custom_text="something else"),
    ],
)
def test_answers_that_fit_are_taken(answer: Answer) -> None:
    check_answers((CHOICE, SEVERAL), (answer, answer))


@given(
    st.lists(
        st.builds(
            Answer,
            question_index=st.integers(-2, 3),
            selected_option=st.sampled_from([None, "", "a", "x", "?"]),
            selected_options=st.none() | st.lists(st.sampled_from(["a", "b", "x", "y", "?"])).map(tuple),
            custom_text=st.sampled_from([None, "", "text"]),
        )
    )
)
def test_answers_are_taken_exactly_when_each_of_them_alone_would_be(answers: list[Answer]) -> None:
    def fits(*some: Answer) -> bool:
        try:
            check_answers((CHOICE, SEVERAL), some)
        except InvalidAnswers:
            return False
        return True

    assert fits(*answers) == (bool(answers) and all(map(fits, answers)))


@pytest.mark.req("ASK-03")
def test_a_set_without_questions_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^At least one question is required to create a session$"):
        NewQuestionSet(questions=())


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (Question(title="", prompt="P?"), "The title of question 1 must not be empty."),
        (Question(title="T", prompt=""), "The prompt of question 1 must not be empty."),
        (Question(title="T", prompt="P?", options=(Option(""),)), "label of an option of question 1"),
        (Question(title="T", prompt="P?", options=(Option("a"), Option("a"))), "the same label"),
        (Question(title="T", prompt="\ud800"), "not valid Unicode"),
    ],
)
def test_a_question_that_cannot_be_answered_clearly_is_refused(question: Question, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        NewQuestionSet(questions=(question,))


@given(st.uuids())
def test_ids_are_uuids_of_version_4(value: uuid.UUID) -> None:
    is_version_4 = value.version == 4 and value.variant == uuid.RFC_4122
    assert is_question_set_id(str(value)) == is_question_set_id(str(value).upper()) == is_version_4


@given(st.uuids(version=4))
def test_an_id_is_taken_as_it_is(value: uuid.UUID) -> None:
    assert question_set_id(str(value)) == str(value)


@given(st.text(max_size=40))
def test_any_other_text_is_no_id(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^Invalid session ID format: "):
        question_set_id(text)
