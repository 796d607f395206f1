"""The files of one question set, and how they may change.

Readers take no lock. A change holds the set's guard and the AUQ programs' locks from reading the
state to writing the next one, so that of several answers exactly one is the first. Answers are
written before the status, which is what those programs wait for; a crash between the two leaves
answers that count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from holdfast.files import TEMPORARY
from holdfast.model.question import (
    Answer,
    QuestionKind,
    QuestionSet,
    QuestionStatus,
    allowed,
    check_answers,
    question_set_id,
    require_transition,
)
from holdfast.model.text import label, storable
from holdfast.model.times import from_ms, iso
from holdfast.questions import records
from holdfast.questions.errors import (
    AtomicReadError,
    LockNotAcquired,
    NoAnswers,
    QuestionSetNotFound,
    UnreadableQuestionSet,
    UnusableAnswers,
)
from holdfast.questions.files import TRIES, Json, write_json
from holdfast.questions.locks import file_lock, guard
from holdfast.questions.records import ANSWERS, REQUEST, STATUS, Documents, Reading

SLOW_WRITER_SECONDS = 2.0
"""How long a file that makes no sense may be one that another program is still writing."""

WITHDRAWN = "The agent no longer waits for it."
"""Why a permission or a form is rejected that no person has rejected."""

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Differs from an earlier one when a file of the set was written in between."""


class QuestionFolder:
    """One question set on disk. It need not exist, but its id must be one."""

    def __init__(self, directory: Path, set_id: str, clock: Callable[[], int]) -> None:
        self.id = question_set_id(set_id)
        self.path = directory / self.id
        self._clock = clock

    def read(self, *, tries: int = TRIES) -> QuestionSet:
        return self._interpret(records.read_documents(self.path, tries=tries)).question_set

    def answer(self, answers: Sequence[Answer], by: str, door: str) -> QuestionSet:
        for answer in answers:
            storable(answer.custom_text or "", "text of an answer")
        with self._changing() as change:
            require_transition(change.question_set, QuestionStatus.COMPLETED)
            check_answers(change.question_set.questions, answers)
            answered = change.said(QuestionStatus.COMPLETED, by, door, answers=tuple(answers))
            change.write(ANSWERS, records.answers_document(answered, change.documents.answers, change.now))
            return change.record(answered)

    def reject(self, reason: str | None, by: str, door: str) -> QuestionSet:
        storable(reason or "", "reason")
        with self._changing() as change:
            require_transition(change.question_set, QuestionStatus.REJECTED)
            return change.record(
                change.said(QuestionStatus.REJECTED, by, door, answers=None, rejection_reason=reason or None)
            )

    def end(self, status: QuestionStatus) -> QuestionSet:
        """Make a pending set `timed_out` or `abandoned`. One that is no longer pending stays as it is."""
        with self._changing() as change:
            return change.end(status)

    def abandon(self) -> QuestionSet:
        """The asker is gone. It may come back for the answer to a question, but not for a permission or a
        form, which were part of a request of its that has ended: those are rejected."""
        with self._changing() as change:
            current = change.question_set
            if current.kind is QuestionKind.QUESTION:
                return change.end(QuestionStatus.ABANDONED)
            if current.is_settled:
                return current
            return change.record(
                change.said(
                    QuestionStatus.REJECTED,
                    by=current.agent or "the agent",
                    door="its withdrawal",
                    answers=None,
                    rejection_reason=WITHDRAWN,
                )
            )

    def mark_read(self) -> QuestionSet:
        """Note that the asker has heard the person. From then on that stands, also from another program."""
        with self._changing() as change:
            read = msgspec.structs.replace(change.question_set, read_at=change.now)
            if not read.is_settled:
                raise NoAnswers(self.id)
            if read.status is QuestionStatus.REJECTED:
                return change.record(read)
            document = change.documents.answers or records.answers_document(read, None, change.now)
            change.write(ANSWERS, {**document, "lastReadAt": iso(change.now)})
            return read if change.reading.recorded else change.record(read)

    def look(self, call_id: str | None) -> QuestionSet | None:
        """The set once a person has said something to this call; None as long as nobody has.

        What is returned is put on record, so nothing that another program writes later changes it.
        Files that no person's word can be made of are an error, and make the set abandoned.
        """
        documents = records.read_documents(self.path)
        try:
            reading = self._interpret(documents, call_id)
            if not reading.recorded:
                _require_usable(reading, documents, call_id)
        except UnreadableQuestionSet as error:
            if _is_young(self.path / error.file):
                return None
            self._abandon()
            raise
        except UnusableAnswers:
            self._abandon()
            raise
        if not reading.question_set.is_settled:
            return None
        return reading.question_set if reading.recorded else self._on_record(reading.question_set, call_id)

    def validate(self) -> list[str]:
        """What is wrong with the files; nothing when they are sound."""
        if not self.path.is_dir():
            return ["Session directory does not exist"]
        if missing := [name for name in (REQUEST, STATUS) if not (self.path / name).exists()]:
            return [f"Required file missing: {name}" for name in missing]
        try:
            documents = records.read_documents(self.path)
            question_set = self._interpret(documents).question_set
        except (AtomicReadError, UnreadableQuestionSet):
            return ["Could not read session status or request"]
        if documents.request is None or documents.status is None:
            return ["Could not read session status or request"]
        issues = []
        if documents.status.get("sessionId") != self.id:
            issues.append("Session ID mismatch in status file")
        if documents.request.get("sessionId") != self.id:
            issues.append("Session ID mismatch in request file")
        if documents.status.get("totalQuestions") != len(question_set.questions):
            issues.append("Question count mismatch between status and request")
        if records.is_overwritten(self.id, documents):
            issues.append("Another program overwrote what was said first")
        return issues

    def stamp(self) -> Stamp:
        return tuple(_file_stamp(self.path / name) for name in (REQUEST, STATUS, ANSWERS))

    def _interpret(self, documents: Documents, call_id: str | None = None) -> Reading:
        if documents.request is None and not self.path.is_dir():
            raise QuestionSetNotFound(self.id)
        return records.interpret(self.id, documents, call_id)

    @contextmanager
    def _changing(self, call_id: str | None = None) -> Iterator[Change]:
        try:
            with guard(self.path), file_lock(self.path / ANSWERS), file_lock(self.path / STATUS):
                for leftover in self.path.glob(f".*{TEMPORARY}"):  # of a process that was killed as it wrote
                    leftover.unlink(missing_ok=True)
                documents = records.read_documents(self.path)
                now = from_ms(self._clock())
                try:
                    reading = self._interpret(documents, call_id)
                except UnreadableQuestionSet:
                    status = records.ended_document(self.id, None, documents, QuestionStatus.ABANDONED, now)
                    write_json(self.path / STATUS, status)
                    raise
                yield Change(self.path, documents, reading, now)
        except FileNotFoundError:
            raise QuestionSetNotFound(self.id) from None
        except OSError as error:
            raise LockNotAcquired(self.path, error) from error

    def _on_record(self, settled: QuestionSet, call_id: str | None) -> QuestionSet | None:
        """What another program wrote, put on record; None when it took that back meanwhile."""
        try:
            with self._changing(call_id) as change:
                if change.reading.recorded or not change.question_set.is_settled:
                    return change.question_set if change.reading.recorded else None
                return change.record(change.question_set)
        except LockNotAcquired:
            return settled  # a lock that somebody keeps must not keep the answer from its asker

    def _abandon(self) -> None:
        with suppress(UnreadableQuestionSet):
            self.end(QuestionStatus.ABANDONED)


class Change:
    """A set that no other process of ours can change at the moment."""

    def __init__(self, path: Path, documents: Documents, reading: Reading, now: datetime) -> None:
        self.documents = documents
        self.reading = reading
        self.question_set = reading.question_set
        self.now = now
        self._path = path

    def said(self, status: QuestionStatus, by: str, door: str, **words: Any) -> QuestionSet:
        """The set as a person's words make it."""
        return msgspec.structs.replace(
            self.question_set,
            status=status,
            answered_by=label(by, "name of who answers"),
            answered_from=label(door, "name of the door"),
            answered_at=self.now,
            late=self.question_set.status is not QuestionStatus.PENDING,
            **words,
        )

    def record(self, settled: QuestionSet) -> QuestionSet:
        settled = msgspec.structs.replace(
            settled, answered_at=settled.answered_at or self.now, updated_at=self.now
        )
        self.write(STATUS, records.settled_document(settled, self.documents))
        return settled

    def end(self, status: QuestionStatus) -> QuestionSet:
        current = self.question_set
        if current.status is not status and not allowed(current.status, status):
            return current
        if (self.documents.status or {}).get("status") == status:
            return current
        self.write(STATUS, records.ended_document(current.id, current, self.documents, status, self.now))
        return msgspec.structs.replace(current, status=status, updated_at=self.now)

    def write(self, name: str, document: Json) -> None:
        write_json(self._path / name, document)


def _require_usable(reading: Reading, documents: Documents, call_id: str | None) -> None:
    """Refuse files that no person's word can be made of."""
    for name, error in documents.unreadable.items():
        # With a call id, answers that cannot be read are waited for, as the AUQ programs do.
        if name != ANSWERS or (call_id is None and not reading.question_set.is_settled):
            raise UnreadableQuestionSet(reading.question_set.id, name, error.cause)
    if reading.unusable is not None:
        raise UnusableAnswers(reading.question_set.id, reading.unusable)


def _is_young(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime < SLOW_WRITER_SECONDS
    return False


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
