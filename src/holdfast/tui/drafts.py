"""What people have entered but not sent, kept on disk so that it survives a restart.

A draft is a file of its own, replaced atomically, named after its set. It goes when the set is
settled; what is left of sets that were deleted goes when it is as old as sets get.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec

from holdfast.files import make_directory
from holdfast.model.question import RETENTION, Question, QuestionSet, QuestionSetId, is_question_set_id
from holdfast.questions.errors import AtomicReadError
from holdfast.questions.files import read_json, write_json
from holdfast.tui.replies import Draft, Reply

SUFFIX = ".json"


class Drafts:
    """The drafts of the sets that wait: at hand in memory, and in a directory after each `flush`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._drafts: dict[QuestionSetId, Draft] = {}
        self._unsaved: dict[QuestionSetId, Draft] = {}
        self._saving = asyncio.Lock()

    def __contains__(self, set_id: object) -> bool:
        return set_id in self._drafts

    def of(self, set_id: QuestionSetId) -> Draft:
        return self._drafts.get(set_id, Draft())

    async def load(self, question_set: QuestionSet) -> None:
        """Take up what was entered before, as far as it still fits the questions."""
        draft = await asyncio.to_thread(self._read, question_set)
        if not draft.is_empty:
            self._drafts[question_set.id] = draft

    def put(self, set_id: QuestionSetId, draft: Draft) -> None:
        """Keep a draft. An empty one takes its file away."""
        self._unsaved[set_id] = draft
        if draft.is_empty:
            self._drafts.pop(set_id, None)
        else:
            self._drafts[set_id] = draft

    async def flush(self) -> None:
        """Write what has been entered to disk, the newest of each set; what cannot be written, next time."""
        async with self._saving:
            while self._unsaved:
                set_id, draft = self._unsaved.popitem()
                try:
                    await asyncio.to_thread(self._write, set_id, draft)
                except BaseException:
                    self._unsaved.setdefault(set_id, draft)
                    raise

    async def sweep(self) -> list[QuestionSetId]:
        """Delete drafts that have not changed for as long as sets are kept; those that are left."""
        return await asyncio.to_thread(self._sweep)

    def _read(self, question_set: QuestionSet) -> Draft:
        try:
            content = read_json(self._path(question_set.id), tries=1) or {}
            draft = msgspec.convert(content, Draft, strict=False)
        except (AtomicReadError, msgspec.ValidationError):
            return Draft()
        questions = question_set.questions
        return Draft(
            {
                index: reply
                for index, reply in draft.replies.items()
                if 0 <= index < len(questions) and _fits(reply, questions[index])
            }
        )

    def _write(self, set_id: QuestionSetId, draft: Draft) -> None:
        path = self._path(set_id)
        if draft.is_empty:
            path.unlink(missing_ok=True)
        else:
            make_directory(path.parent)
            write_json(path, msgspec.to_builtins(draft, str_keys=True))

    def _sweep(self) -> list[QuestionSetId]:
        oldest = time.time() - RETENTION.total_seconds()
        left = []
        for path in self._directory.glob(f"*{SUFFIX}"):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
            elif is_question_set_id(path.stem):
                left.append(QuestionSetId(path.stem))
        return left

    def _path(self, set_id: QuestionSetId) -> Path:
        return self._directory / f"{set_id}{SUFFIX}"


def _fits(reply: Reply, question: Question) -> bool:
    labels = {option.label for option in question.options}
    return labels.issuperset(reply.chosen) and (question.multi_select or len(reply.chosen) <= 1)
