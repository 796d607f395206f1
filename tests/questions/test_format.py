"""What an asker reads, to the byte."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.question import (
    Answer,
    Option,
    Question,
    QuestionKind,
    QuestionSet,
    QuestionSetId,
    QuestionStatus,
    check_answers,
)
from holdfast.questions.format import (
    answers_text,
    elaborate_request,
    header,
    rejection_text,
    rephrase_request,
    response_text,
    status_text,
    submitted_text,
)

QUESTIONS = (
    Question(
        title="Language",
        prompt="Which language?",
        options=(Option("Python (Recommended)", "Fast to write"), Option("Rust")),
    ),
    Question(
        title="Features",
        prompt="Which features do you want?",
        options=(Option("Auth", "Login & roles"), Option("Metrics"), Option("Search", "")),
        multi_select=True,
    ),
    Question(title="Name", prompt="What's the project name?", options=(Option("alpha"), Option("beta"))),
    Question(title="Extras", prompt="Any extras?", options=(Option("a"), Option("b")), multi_select=True),
)
ANSWERS = (
    Answer(question_index=0, selected_option="Python (Recommended)"),
    Answer(question_index=1, selected_options=("Auth", "Metrics"), custom_text="also SSO"),
    Answer(question_index=2, custom_text="it's gamma"),
    Answer(question_index=3, selected_options=()),
)
SET = QuestionSet(
    id=QuestionSetId("a69a8cbd-0000-4000-8000-000000000001"),
    kind=QuestionKind.QUESTION,
    status=QuestionStatus.COMPLETED,
    questions=QUESTIONS,
    created_at=datetime(2026, 11, 15, tzinfo=UTC),
    updated_at=datetime(2026, 11, 15, tzinfo=UTC),
    answers=ANSWERS,
)


@pytest.mark.req("ASK-25", "ASK-26", "ASK-27", "ASK-28")
def test_a_whole_response_reads_as_that_of_the_auq_programs() -> None:
    assert response_text(SET) == (
        "[Session: a69a8cbd | Questions: 4]\n"
        "\n"
        "Here are the user's answers:\n"
        "\n"
        "1. Which language?\n"
        "→ Python (Recommended) — Fast to write\n"
        "\n"
        "2. Which features do you want?\n"
        "→ Auth — Login & roles\n"
        "→ Metrics\n"
        "→ Other: 'also SSO'\n"
        "\n"
        "3. What's the project name?\n"
        "→ Other: 'it\\'s gamma'\n"
        "\n"
        "4. Any extras?\n"
        "→ (No selection)"
    )


def _block(index: int, *answers: Answer) -> str:
    """The lines under the one question that was answered."""
    text = answers_text(QUESTIONS, answers)
    start = f"Here are the user's answers:\n\n{index + 1}. {QUESTIONS[index].prompt}\n"
    assert text.startswith(start)
    return text.removeprefix(start)


@pytest.mark.req("ASK-25")
@pytest.mark.parametrize(
    ("label", "line"),
    [("Python (Recommended)", "→ Python (Recommended) — Fast to write"), ("Rust", "→ Rust")],
)
def test_a_single_choice_has_its_description_if_there_is_one(label: str, line: str) -> None:
    assert _block(0, Answer(question_index=0, selected_option=label)) == line


@pytest.mark.req("ASK-26")
def test_a_multiple_choice_has_a_line_for_each_in_the_order_of_choosing() -> None:
    chosen = Answer(question_index=1, selected_options=("Search", "Auth", "Metrics"))
    assert _block(1, chosen) == "→ Search\n→ Auth — Login & roles\n→ Metrics"


@pytest.mark.req("ASK-27")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "→ Other: 'plain'"),
        ("it's 'so'", "→ Other: 'it\\'s \\'so\\''"),
        ('double " stays', "→ Other: 'double \" stays'"),
        ("two\nlines", "→ Other: 'two\nlines'"),
    ],
)
def test_own_text_is_quoted_and_escaped(text: str, line: str) -> None:
    assert _block(2, Answer(question_index=2, custom_text=text)) == line


@pytest.mark.req("ASK-28")
def test_none_of_several_with_own_text_is_only_the_text() -> None:
    assert _block(3, Answer(question_index=3, selected_options=(), custom_text="else")) == "→ Other: 'else'"
    assert _block(3, Answer(question_index=3, selected_options=())) == "→ (No selection)"


def test_several_choices_win_over_a_single_one() -> None:
    both = Answer(question_index=1, selected_option="Search", selected_options=("Auth",))
    assert _block(1, both) == "→ Auth — Login & roles"


def test_questions_that_were_left_out_are_skipped_and_the_others_keep_their_numbers() -> None:
    assert answers_text(QUESTIONS, ANSWERS[1:3:1]) == (
        "Here are the user's answers:\n\n"
        "2. Which features do you want?\n→ Auth — Login & roles\n→ Metrics\n→ Other: 'also SSO'\n\n"
        "3. What's the project name?\n→ Other: 'it\\'s gamma'"
    )


def test_an_answer_with_nothing_in_it_says_so() -> None:
    assert _block(0, Answer(question_index=0)) == "→ No answer provided"


def test_a_request_stands_raw_beside_the_answer_to_the_same_question() -> None:
    request = Answer(question_index=0, custom_text=elaborate_request(guidance="what's new?"))
    text = _block(0, Answer(question_index=0, selected_option="Rust"), request)
    assert text == f"→ Rust\n{request.custom_text}"
    assert "\\'" not in text
    empty = Answer(question_index=3, selected_options=())
    rephrase = Answer(question_index=3, custom_text=rephrase_request(QUESTIONS[3], 3))
    assert _block(3, empty, rephrase) == rephrase.custom_text


def test_the_request_to_elaborate() -> None:
    start = (
        "[ELABORATE_REQUEST] This means the user may have additional info, context or questions, or need "
        "more details to understand your question. You may exceed the normal length of questions and options "
        "only once exceptionally."
    )
    more = " Provide examples and larger context, use paragraph-style large content on question text."
    assert elaborate_request() == elaborate_request(guidance="  ") == start + more
    assert elaborate_request(note="hm") == f"{start}{more}\nUser note: hm"
    assert elaborate_request(guidance='say "why"') == f'{start}\nUser guidance: "say \\"why\\""'
    assert elaborate_request("hm", "why") == f'{start}\nUser note: hm\nUser guidance: "why"'


def test_the_request_to_rephrase() -> None:
    assert rephrase_request(QUESTIONS[1], 1) == (
        "[REPHRASE_REQUEST] Please rephrase question 'Features' in a different way\nQuestion index: 1"
    )


def test_rejections() -> None:
    start = "User rejected this question set.\n\n"
    assert rejection_text("not now") == f'{start}Rejection reason: "not now"\n\n'
    assert rejection_text(None) == rejection_text("") == f"{start}No reason provided.\n\n"


def test_what_an_asker_reads_who_does_not_wait() -> None:
    pending = msgspec.structs.replace(SET, status=QuestionStatus.PENDING, answers=None)
    assert submitted_text(pending) == (
        "[Session: a69a8cbd | Questions: 4 | Status: pending]\n\n"
        "Questions submitted successfully.\n"
        'Use get_answered_questions(session_id="a69a8cbd") or `auq fetch-answers a69a8cbd` '
        "to retrieve answers."
    )
    assert status_text(pending) == "[Session: a69a8cbd | Status: pending]\n\nNo answers yet."


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        ("rejected", None, "User rejected this question set."),
        ("rejected", "later", 'User rejected this question set. Reason: "later"'),
        ("abandoned", None, "Session is no longer active."),
        ("timed_out", None, "Session is no longer active."),
    ],
)
def test_what_an_asker_reads_who_comes_back(status: str, reason: str | None, text: str) -> None:
    ended = msgspec.structs.replace(SET, status=QuestionStatus(status), answers=None, rejection_reason=reason)
    assert status_text(ended) == f"[Session: a69a8cbd | Status: {status}]\n\n{text}"


line = st.text(st.characters(exclude_characters="\n→", exclude_categories=("Cs", "Cc")), min_size=1)


@st.composite
def answered(draw: st.DrawFn) -> tuple[tuple[Question, ...], list[Answer]]:
    questions = []
    for _ in range(draw(st.integers(1, 4))):
        labels = draw(st.lists(line, min_size=1, max_size=4, unique=True))
        options = tuple(Option(label, draw(st.none() | line)) for label in labels)
        questions.append(
            Question(title=draw(line), prompt=draw(line), options=options, multi_select=draw(st.booleans()))
        )
    answers = []
    for index, question in enumerate(questions):
        labels = [option.label for option in question.options]
        if question.multi_select:
            chosen = tuple(draw(st.lists(st.sampled_from(labels), unique=True)))
            answers.append(
                Answer(question_index=index, selected_options=chosen, custom_text=draw(st.none() | line))
            )
        elif draw(st.booleans()):
            answers.append(Answer(question_index=index, selected_option=draw(st.sampled_from(labels))))
    return tuple(questions), answers or [Answer(question_index=0, custom_text=draw(line))]


@given(answered())
def test_every_answer_can_be_found_under_its_number(
    given_: tuple[tuple[Question, ...], list[Answer]],
) -> None:
    questions, answers = given_
    check_answers(questions, answers)
    start, *blocks = answers_text(questions, answers).split("\n\n")
    assert start == "Here are the user's answers:"
    assert len(blocks) == len(answers)
    for block, answer in zip(blocks, answers, strict=True):
        question, *said = block.split("\n")
        asked = questions[answer.question_index]
        assert question == f"{answer.question_index + 1}. {asked.prompt}"
        chosen = answer.selected_options or ((answer.selected_option,) if answer.selected_option else ())
        for label, text in zip(chosen, said, strict=False):
            option = next(option for option in asked.options if option.label == label)
            assert text == f"→ {label}" + (f" — {option.description}" if option.description else "")
        if answer.custom_text:
            assert said[-1].startswith("→ Other: '")
            inside = said[-1].removeprefix("→ Other: '").removesuffix("'")
            assert inside.replace("\\'", "'") == answer.custom_text
        assert len(said) == max(1, len(chosen) + bool(answer.custom_text))


@given(st.lists(line, min_size=1, max_size=5))
def test_the_header_counts_the_questions(prompts: list[str]) -> None:
    questions = tuple(Question(title="t", prompt=prompt) for prompt in prompts)
    asked = msgspec.structs.replace(SET, questions=questions)
    assert header(asked) == f"[Session: a69a8cbd | Questions: {len(prompts)}]"
