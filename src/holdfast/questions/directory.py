"""The directory that question sets share: which there are, how they come, and how they leave.

A set appears by the rename of a folder that was prepared out of sight, so nobody ever sees half
of one, and it leaves by the opposite rename before its files are deleted.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec

from holdfast.errors import HoldfastError
from holdfast.files import make_directory, sync_directory
from holdfast.model.principal import LOCAL
from holdfast.model.question import (
    InvalidQuestionSetId,
    NewQuestionSet,
    QuestionKind,
    QuestionSet,
    QuestionSetId,
    QuestionStatus,
    is_question_set_id,
)
from holdfast.model.times import from_ms
from holdfast.questions import records
from holdfast.questions.errors import (
    AmbiguousId,
    AtomicReadError,
    AtomicWriteError,
    LockNotAcquired,
    QuestionSetNotFound,
    TooManyQuestionSets,
    UnreadableQuestionSet,
)
from holdfast.questions.files import write_json
from holdfast.questions.folder import QuestionFolder, Stamp
from holdfast.questions.locks import guard
from holdfast.questions.records import REQUEST, STATUS, Documents

log = logging.getLogger("holdfast.questions")

OUT_OF_SIGHT = ".holdfast"
"""Where folders are prepared, and wait to be deleted. It lies inside the directory, so that no rename
crosses a file system; the AUQ programs pass over it."""

SESSION_LIMIT = 32
"""How many questions of one session wait for answers at a time: nobody reads more of them."""

LEFT_BEHIND = timedelta(hours=1)
"""The age at which a folder there was left by a crash."""


class Sweep(msgspec.Struct, frozen=True):
    """What a clean-up did."""

    deleted: tuple[QuestionSetId, ...]
    failed: Mapping[QuestionSetId, str]
    """Sets that could not be deleted, and why."""


def default_directory(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """Where the AUQ programs of this user keep their question sets."""
    home = home or Path.home()
    if chosen := environment.get("AUQ_SESSION_DIR"):
        return home / chosen[1:].lstrip("/") if chosen.startswith("~") else Path(chosen)
    if platform == "darwin":
        data = home / "Library" / "Application Support"
    elif platform == "win32":
        data = Path(environment.get("APPDATA") or environment.get("USERPROFILE") or home)
    else:
        data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return data / "auq" / "sessions"


class QuestionDirectory:
    def __init__(
        self, path: Path, *, limit: int, retention: timedelta | None, clock: Callable[[], int]
    ) -> None:
        self.path = path
        self._limit = limit
        self._retention = retention
        self._clock = clock
        self._over: set[QuestionSetId] = set()
        """Sets that were seen not to be pending. None is again."""

    def folder(self, set_id: str) -> QuestionFolder:
        return QuestionFolder(self.path, set_id, self._clock)

    def add(self, set_id: QuestionSetId, new: NewQuestionSet) -> QuestionSet:
        prepared = self.path / OUT_OF_SIGHT / f"new-{set_id}"
        request, status = records.new_documents(set_id, new, from_ms(self._clock()))
        try:
            make_directory(prepared)
            write_json(prepared / REQUEST, request)
            write_json(prepared / STATUS, status)
            with guard(self.path):
                if new.kind is QuestionKind.QUESTION:  # requests are limited by their session
                    self._check_room(new)
                prepared.rename(self.path / set_id)
            sync_directory(self.path)
        except OSError as error:
            raise AtomicWriteError(self.path / set_id, error) from error
        finally:
            shutil.rmtree(prepared, ignore_errors=True)
        documents = Documents(request=request, status=status, answers=None, unreadable={})
        return records.interpret(set_id, documents).question_set

    def ids(self) -> list[QuestionSetId]:
        try:
            with os.scandir(self.path) as entries:
                names = [entry.name for entry in entries if is_question_set_id(entry.name) and entry.is_dir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise AtomicReadError(self.path, error) from error
        return sorted(map(QuestionSetId, names))

    def stamps(self) -> dict[QuestionSetId, Stamp]:
        return {set_id: self.folder(set_id).stamp() for set_id in self.ids()}

    def resolve(self, text: str) -> QuestionSetId:
        if is_question_set_id(text):
            return QuestionSetId(text)
        if re.fullmatch("[0-9a-fA-F]{8}", text) is None:
            raise InvalidQuestionSetId(text)
        candidates = [set_id for set_id in self.ids() if set_id.lower().startswith(text.lower())]
        if not candidates:
            raise QuestionSetNotFound(text)
        if len(candidates) > 1:
            raise AmbiguousId(text, candidates)
        return candidates[0]

    def list(self, status: Collection[QuestionStatus]) -> list[QuestionSet]:
        """The sets in these statuses, oldest first. One that is half-written or damaged is not among them."""
        found = []
        for set_id in self.ids():
            with suppress(QuestionSetNotFound, UnreadableQuestionSet, AtomicReadError):
                if (question_set := self.folder(set_id).read(tries=1)).status in status:
                    found.append(question_set)
        return sorted(found, key=lambda each: (each.created_at, each.id))

    def sweep(self, now: datetime) -> Sweep:
        """Delete what is older than the retention period."""
        removal = Removal(self.path)
        for folder in map(self.folder, self.ids()):
            seen = folder.stamp()
            if self._retention is not None and now - _last_change(folder) > self._retention:
                removal.remove(folder, seen)
        for leftover in (self.path / OUT_OF_SIGHT).glob("*"):
            if now - _modified(leftover) > LEFT_BEHIND:
                shutil.rmtree(leftover, ignore_errors=True)
        return Sweep(tuple(removal.deleted), removal.failed)

    def _check_room(self, new: NewQuestionSet) -> None:
        """Raise `TooManyQuestionSets` where an organization or a session has as many open as it may."""
        pending = [each for each in self._pending() if each.kind is QuestionKind.QUESTION]
        if sum(_owner(each) == _owner(new) for each in pending) >= self._limit:
            raise TooManyQuestionSets(self._limit)
        of_session = sum(each.session_id == new.session_id for each in pending)
        if new.session_id is not None and of_session >= SESSION_LIMIT:
            raise TooManyQuestionSets(SESSION_LIMIT, " of this session")

    def _pending(self) -> Iterator[QuestionSet]:
        ids = set(self.ids())
        self._over &= ids
        for set_id in ids - self._over:
            with suppress(QuestionSetNotFound, UnreadableQuestionSet, AtomicReadError):
                question_set = self.folder(set_id).read(tries=1)
                if question_set.status is QuestionStatus.PENDING:
                    yield question_set
                else:
                    self._over.add(set_id)


class Removal:
    """Deletes sets one by one; one that cannot be deleted does not stop the others."""

    def __init__(self, directory: Path) -> None:
        self.deleted: list[QuestionSetId] = []
        self.failed: dict[QuestionSetId, str] = {}
        self._directory = directory

    def remove(self, folder: QuestionFolder, seen: Stamp | None) -> bool:
        """Delete a set, unless it has changed since it was seen; whether it was deleted."""
        gone = self._directory / OUT_OF_SIGHT / f"gone-{folder.id}-{uuid4().hex}"
        try:
            with guard(folder.path, seconds=0):
                if folder.stamp() != seen:
                    return False
                make_directory(gone.parent)
                folder.path.rename(gone)
            shutil.rmtree(gone)
        except FileNotFoundError:  # somebody else was faster
            return False
        except (OSError, LockNotAcquired) as error:
            self.failed[folder.id] = str(error)
            log.warning("The question set %s could not be deleted: %s", folder.id, error)
            return False
        self.deleted.append(folder.id)
        return True


def _owner(question_set: QuestionSet | NewQuestionSet) -> str:
    return question_set.organization or LOCAL.organization


def _last_change(folder: QuestionFolder) -> datetime:
    """When a set last changed by its own account; by its files' when it gives none."""
    with suppress(HoldfastError):
        question_set = folder.read(tries=1)
        if (last := max(question_set.created_at, question_set.updated_at)) > from_ms(0):
            return last
    return max(map(_modified, (folder.path, *folder.path.glob("*.json"))))


def _modified(path: Path) -> datetime:
    try:
        return from_ms(path.stat().st_mtime_ns // 1_000_000)
    except OSError:  # gone meanwhile
        return datetime.max.replace(tzinfo=UTC)
