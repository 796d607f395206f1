"""What an asker reads: the texts of the AUQ programs, to the byte, because agents know them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.question import Answer, Question, QuestionSet, QuestionStatus

ELABORATE = "[ELABORATE_REQUEST]"
REPHRASE = "[REPHRASE_REQUEST]"


def response_text(answered: QuestionSet) -> str:
    """The answers of a set, under a line that says which set it is."""
    return f"{header(answered)}\n\n{answers_text(answered.questions, answered.answers or ())}"


def answers_text(questions: Sequence[Question], answers: Sequence[Answer]) -> str:
    """The answers, each under its question. A question that was left out keeps its number."""
    blocks = []
    for index, question in enumerate(questions):
        if given := [answer for answer in answers if answer.question_index == index]:
            blocks.append("\n".join([f"{index + 1}. {question.prompt}", *_lines(question, given)]))
    return "Here are the user's answers:\n\n" + "\n\n".join(blocks)


def header(question_set: QuestionSet) -> str:
    return f"[Session: {question_set.short_id} | Questions: {len(question_set.questions)}]"


def rejection_text(reason: str | None) -> str:
    """What an asker reads who waited."""
    said = f'Rejection reason: "{reason}"' if reason else "No reason provided."
    return f"User rejected this question set.\n\n{said}\n\n"


def submitted_text(question_set: QuestionSet) -> str:
    """What an asker reads who did not wait."""
    short = question_set.short_id
    return (
        f"[Session: {short} | Questions: {len(question_set.questions)} | Status: pending]\n\n"
        "Questions submitted successfully.\n"
        f'Use get_answered_questions(session_id="{short}") or `auq fetch-answers {short}` '
        "to retrieve answers."
    )


def status_text(question_set: QuestionSet) -> str:
    """What an asker reads who comes back for answers that are not there."""
    match question_set.status:
        case QuestionStatus.PENDING:
            said = "No answers yet."
        case QuestionStatus.REJECTED:
            reason = question_set.rejection_reason
            said = "User rejected this question set." + (f' Reason: "{reason}"' if reason else "")
        case _:
            said = "Session is no longer active."
    return f"[Session: {question_set.short_id} | Status: {question_set.status}]\n\n{said}"


def elaborate_request(note: str | None = None, guidance: str | None = None) -> str:
    """The own text of a person who wants to hear more before answering."""
    guided = bool(guidance and guidance.strip())
    text = (
        f"{ELABORATE} This means the user may have additional info, context or questions, "
        "or need more details to understand your question. "
        "You may exceed the normal length of questions and options only once exceptionally."
    )
    if not guided:
        text += " Provide examples and larger context, use paragraph-style large content on question text."
    if note:
        text += f"\nUser note: {note}"
    if guidance and guided:
        text += '\nUser guidance: "' + guidance.replace('"', '\\"') + '"'
    return text


def rephrase_request(question: Question, index: int) -> str:
    """The own text of a person who wants the question put differently."""
    return (
        f"{REPHRASE} Please rephrase question '{question.title}' in a different way\nQuestion index: {index}"
    )


def _lines(question: Question, answers: Sequence[Answer]) -> list[str]:
    """One line for each thing said. A question may have several answers: a choice, and a request."""
    lines = [line for answer in answers for line in (*_choices(question, answer), *_own_text(answer))]
    if lines:
        return lines
    none_of_several = any(answer.selected_options is not None for answer in answers)
    return ["→ (No selection)" if none_of_several else "→ No answer provided"]


def _choices(question: Question, answer: Answer) -> list[str]:
    chosen = answer.selected_options
    if chosen is None:
        chosen = (answer.selected_option,) if answer.selected_option else ()
    descriptions = {option.label: option.description for option in question.options}
    return [
        f"→ {label} — {description}" if (description := descriptions.get(label)) else f"→ {label}"
        for label in chosen
    ]


def _own_text(answer: Answer) -> list[str]:
    if not answer.custom_text:
        return []
    if answer.custom_text.startswith((ELABORATE, REPHRASE)):
        return [answer.custom_text]
    escaped = answer.custom_text.replace("'", "\\'")
    return [f"→ Other: '{escaped}'"]
