"""The three files of a question set, and the question set they add up to.

`request.json` holds what was asked, `status.json` how it stands, `answers.json` the answers. They
are the AUQ programs' format. What those have no field for stands beside theirs, and every rewrite
keeps the fields it does not know.

`holdfastOutcome` in `status.json` is our record of a person's word: what, by whom, when, through
which door. The AUQ programs overwrite statuses and answers without looking; they leave unknown
fields alone, so the first word survives there. It decides; without it, answers count more than a
status, as they do for those programs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from holdfast.model.ids import SessionId
from holdfast.model.question import (
    Answer,
    InvalidAnswers,
    NewQuestionSet,
    Question,
    QuestionKind,
    QuestionSet,
    QuestionSetId,
    QuestionStatus,
    check_answers,
)
from holdfast.model.times import from_ms, iso
from holdfast.questions.errors import AtomicReadError, QuestionSetNotFound, UnreadableQuestionSet
from holdfast.questions.files import TRIES, Json, read_json

REQUEST, STATUS, ANSWERS = "request.json", "status.json", "answers.json"

OUTCOME = "holdfastOutcome"
SESSION = "holdfastSession"
ORGANIZATION = "holdfastOrganization"

# Prepared here, once: msgspec (0.22) crashes the process when two threads are the first to convert to a
# struct.
msgspec.convert([], tuple[Question, ...])
msgspec.convert([], tuple[Answer, ...])


class Documents(msgspec.Struct, kw_only=True):
    """The files as they are. One that is absent, or that holds no JSON object, is None."""

    request: Json | None
    status: Json | None
    answers: Json | None
    unreadable: dict[str, AtomicReadError]
    """Why a file could not be read, by its name."""


class Reading(msgspec.Struct, kw_only=True):
    """A question set with what only the keeper of its files needs to know."""

    question_set: QuestionSet
    recorded: bool = False
    """Whether the outcome is our own record, which nobody overwrites."""
    unusable: str | None = None
    """What is wrong with answers that another program wrote; empty when they are no answers at all."""


def read_documents(directory: Path, *, tries: int = TRIES) -> Documents:
    """The files of a set. The status is read before the answers, which are written before it.

    A file that makes no sense is part of what was read; one that the system does not give us is an error.
    """
    read: dict[str, Json | None] = {}
    unreadable: dict[str, AtomicReadError] = {}
    for name in (REQUEST, STATUS, ANSWERS):
        try:
            read[name] = read_json(directory / name, tries=tries)
        except AtomicReadError as error:
            if isinstance(error.cause, OSError):
                raise
            read[name] = None
            unreadable[name] = error
    return Documents(request=read[REQUEST], status=read[STATUS], answers=read[ANSWERS], unreadable=unreadable)


def interpret(set_id: QuestionSetId, documents: Documents, call_id: str | None = None) -> Reading:
    """What the files say to the call with this id: answers that carry another one are not for it."""
    if (error := documents.unreadable.get(REQUEST)) is not None:
        raise UnreadableQuestionSet(set_id, REQUEST, error.cause) from error
    if documents.request is None:
        raise QuestionSetNotFound(set_id, "Session request")
    request, status, answers = documents.request, documents.status or {}, documents.answers or {}
    try:
        questions = msgspec.convert(request.get("questions"), tuple[Question, ...])
    except msgspec.ValidationError as error:
        raise UnreadableQuestionSet(set_id, REQUEST, error) from None
    created = _moment(status.get("createdAt")) or _moment(request.get("timestamp")) or from_ms(0)
    question_set = QuestionSet(
        id=set_id,
        kind=_kind(request.get("kind")),
        status=QuestionStatus.ABANDONED if STATUS in documents.unreadable else _status(status.get("status")),
        questions=questions,
        created_at=created,
        updated_at=_moment(status.get("lastModified")) or created,
        agent=_text(request.get("agent")),
        session_id=SessionId(session) if (session := _text(request.get(SESSION))) else None,
        organization=_text(request.get(ORGANIZATION)),
        tool=tool if isinstance(tool := request.get("tool"), dict) else None,
        working_directory=_text(request.get("workingDirectory")),
        call_id=_text(request.get("callId")) or _text(status.get("callId")),
        rejection_reason=_text(status.get("rejectionReason")),
        read_at=_moment(answers.get("lastReadAt")) or _moment(status.get("lastReadAt")),
    )
    return (
        _recorded(question_set, status.get(OUTCOME), call_id)
        or _answered(question_set, documents.answers, call_id)
        or _unanswered(question_set)
    )


def is_overwritten(set_id: QuestionSetId, documents: Documents) -> bool:
    """Whether other programs, which do not know our record, see another outcome than it says."""
    first = interpret(set_id, documents)
    without = {name: value for name, value in (documents.status or {}).items() if name != OUTCOME}
    now = interpret(set_id, msgspec.structs.replace(documents, status=without)).question_set
    return first.recorded and (now.status, now.answers) != (
        first.question_set.status,
        first.question_set.answers,
    )


def new_documents(set_id: QuestionSetId, new: NewQuestionSet, now: datetime) -> tuple[Json, Json]:
    """The request and the status of a new set."""
    timestamp = iso(now)
    shared = _present({"callId": new.call_id, "workingDirectory": new.working_directory})
    request = {
        "questions": msgspec.to_builtins(new.questions),
        "sessionId": set_id,
        "status": QuestionStatus.PENDING.value,
        "timestamp": timestamp,
        **shared,
        **_present(
            {
                "kind": None if new.kind is QuestionKind.QUESTION else new.kind.value,
                "agent": new.agent,
                "tool": new.tool,
                SESSION: new.session_id,
                ORGANIZATION: new.organization,
            }
        ),
    }
    status = {
        "createdAt": timestamp,
        "lastModified": timestamp,
        "sessionId": set_id,
        "status": QuestionStatus.PENDING.value,
        "totalQuestions": len(new.questions),
        **shared,
    }
    return request, status


def answers_document(answered: QuestionSet, previous: Json | None, now: datetime) -> Json:
    """The answers of a set; what was there before were none for it, but may hold fields we do not know."""
    timestamp = iso(answered.answered_at or now)
    kept = {name: value for name, value in (previous or {}).items() if name not in ("callId", "lastReadAt")}
    return {
        **kept,
        "answers": [
            {**msgspec.to_builtins(answer), "timestamp": timestamp} for answer in answered.answers or ()
        ],
        "sessionId": answered.id,
        "timestamp": timestamp,
        **_present(
            {
                "callId": answered.call_id,
                "answeredBy": answered.answered_by,
                "answeredFrom": answered.answered_from,
            }
        ),
    }


def settled_document(settled: QuestionSet, previous: Documents) -> Json:
    """The status of a set in which a person has spoken, with the record of it."""
    outcome = {
        "status": settled.status.value,
        "answeredBy": settled.answered_by,
        "answeredFrom": settled.answered_from,
        "answeredAt": iso(settled.answered_at or settled.updated_at),
        "late": settled.late,
    }
    more: Json = {OUTCOME: outcome}
    if settled.status is QuestionStatus.REJECTED:
        more["rejectionReason"] = outcome["rejectionReason"] = settled.rejection_reason
        more |= _present({"lastReadAt": settled.read_at and iso(settled.read_at)})
    else:
        outcome["answers"] = msgspec.to_builtins(settled.answers)
    return {**ended_document(settled.id, settled, previous, settled.status, settled.updated_at), **more}


def ended_document(
    set_id: QuestionSetId,
    question_set: QuestionSet | None,
    previous: Documents,
    status: QuestionStatus,
    now: datetime,
) -> Json:
    """The previous status with another one in it, made whole where a damaged file lacks something."""
    known = (
        {}
        if question_set is None
        else {
            "createdAt": iso(question_set.created_at),
            "totalQuestions": len(question_set.questions),
            **_present({"callId": question_set.call_id}),
        }
    )
    return {
        **known,
        "sessionId": set_id,
        **(previous.status or {}),
        "lastModified": iso(now),
        "status": status.value,
    }


def _recorded(question_set: QuestionSet, outcome: object, call_id: str | None) -> Reading | None:
    if not isinstance(outcome, dict):
        return None
    status = _status(outcome.get("status"))
    answers = None
    if status is QuestionStatus.COMPLETED and not _is_for_another(question_set.call_id, call_id):
        answers = _answers(outcome.get("answers"))
    if answers is None and status is not QuestionStatus.REJECTED:
        return None
    settled = msgspec.structs.replace(
        question_set,
        status=status,
        answers=answers,
        rejection_reason=_text(outcome.get("rejectionReason")),
        answered_by=_text(outcome.get("answeredBy")),
        answered_from=_text(outcome.get("answeredFrom")),
        answered_at=_moment(outcome.get("answeredAt")),
        late=outcome.get("late") is True,
    )
    return Reading(question_set=settled, recorded=True)


def _answered(question_set: QuestionSet, document: Json | None, call_id: str | None) -> Reading | None:
    if document is None or _is_for_another(_text(document.get("callId")), call_id or question_set.call_id):
        return None
    answers = _answers(document.get("answers"))
    unusable = "" if answers is None else _misfit(question_set, answers)
    if unusable is not None:
        abandoned = msgspec.structs.replace(question_set, status=QuestionStatus.ABANDONED)
        return Reading(question_set=abandoned, unusable=unusable)
    completed = msgspec.structs.replace(
        question_set,
        status=QuestionStatus.COMPLETED,
        answers=answers,
        rejection_reason=None,
        answered_by=_text(document.get("answeredBy")),
        answered_from=_text(document.get("answeredFrom")),
        answered_at=_moment(document.get("timestamp")),
        late=question_set.status in (QuestionStatus.TIMED_OUT, QuestionStatus.ABANDONED),
    )
    return Reading(question_set=completed)


def _unanswered(question_set: QuestionSet) -> Reading:
    if question_set.status is QuestionStatus.REJECTED:
        return Reading(
            question_set=msgspec.structs.replace(question_set, answered_at=question_set.updated_at)
        )
    if question_set.status is QuestionStatus.COMPLETED:  # but without answers
        return Reading(question_set=msgspec.structs.replace(question_set, status=QuestionStatus.ABANDONED))
    return Reading(question_set=question_set)


def _is_for_another(marked: str | None, call_id: str | None) -> bool:
    return marked is not None and call_id is not None and marked != call_id


def _misfit(question_set: QuestionSet, answers: tuple[Answer, ...]) -> str | None:
    try:
        check_answers(question_set.questions, answers)
    except InvalidAnswers as error:
        return str(error)
    return None


def _answers(value: object) -> tuple[Answer, ...] | None:
    try:
        return msgspec.convert(value, tuple[Answer, ...])
    except msgspec.ValidationError:
        return None


def _status(value: object) -> QuestionStatus:
    """A foreign `in-progress`, or a status we do not know, is one of a set nobody has answered."""
    try:
        return QuestionStatus(str(value))
    except ValueError:
        return QuestionStatus.PENDING


def _kind(value: object) -> QuestionKind:
    try:
        return QuestionKind(str(value))
    except ValueError:
        return QuestionKind.QUESTION


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _present(fields: dict[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
