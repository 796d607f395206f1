"""What can go wrong with question sets on disk. Texts are those of the AUQ programs where they have one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.model.question import QuestionSetId


class QuestionSetNotFound(NotFound):
    code = "question_set_not_found"

    def __init__(self, question_set: str, what: str = "Session") -> None:
        super().__init__(f"{what} not found: {question_set}")


class AmbiguousId(Conflict):
    """A short id that several question sets begin with."""

    code = "ambiguous_id"

    def __init__(self, prefix: str, candidates: Sequence[QuestionSetId]) -> None:
        super().__init__(f"{prefix} could be any of {', '.join(candidates)}; give the whole id.")
        self.candidates = tuple(candidates)


class TooManyQuestionSets(Conflict):
    """As many question sets wait for an answer as an organization, or a session, may have open."""

    code = "too_many_question_sets"
    status = 429
    retriable = True

    def __init__(self, limit: int, of: str = "") -> None:
        super().__init__(
            f"{limit} question sets{of} wait for an answer, which is the limit; answer or reject some."
        )


class QuestionsRejected(Conflict):
    """The person does not want to answer. `reason` has their words, if they gave any."""

    code = "session_rejected"

    def __init__(self, reason: str | None) -> None:
        super().__init__("SESSION_REJECTED")
        self.reason = reason


class QuestionsTimedOut(HoldfastError):
    """Nobody answered in time. An answer that comes later is kept: waiting again delivers it."""

    code = "questions_timed_out"
    status = 408
    retriable = True

    def __init__(self, question_set: QuestionSetId) -> None:
        super().__init__(
            f"Session {question_set} timed out waiting for user response: Timeout waiting for user response"
        )


class UnusableAnswers(HoldfastError):
    """Another program wrote answers that do not fit the questions. The set is abandoned."""

    code = "unusable_answers"

    def __init__(self, question_set: QuestionSetId, problem: str | None) -> None:
        super().__init__(
            f"Answer validation failed for session {question_set}: {problem}"
            if problem
            else f"Answers file was created but is invalid for session {question_set}"
        )


class UnreadableQuestionSet(HoldfastError):
    """A file of the set is not valid. The set is abandoned."""

    code = "unreadable_question_set"

    def __init__(self, question_set: QuestionSetId, file: str, problem: object) -> None:
        super().__init__(
            f"Failed to parse JSON from session file {file} for session {question_set}: {problem}"
        )
        self.file = file


class NoAnswers(Conflict):
    code = "no_answers"

    def __init__(self, question_set: QuestionSetId) -> None:
        super().__init__(f"Session {question_set} has no answers to mark as read")


class QuestionFileError(HoldfastError):
    """A file could not be read, written or locked: which one, in which operation, and why."""

    code = "question_file_error"
    sentence = "File operation failed"
    operation = "write"

    def __init__(self, path: Path, cause: Exception) -> None:
        super().__init__(f"{self.sentence}: {path}")
        self.path = path
        self.cause = cause


class AtomicReadError(QuestionFileError):
    sentence = "Atomic read failed"
    operation = "read"


class AtomicWriteError(QuestionFileError):
    sentence = "Atomic write failed"


class LockNotAcquired(QuestionFileError):
    """Another process held the lock for longer than we wait. It keeps it."""

    code = "question_file_locked"
    status = 503
    retriable = True
    sentence = "Failed to acquire file lock"
    operation = "lock"
