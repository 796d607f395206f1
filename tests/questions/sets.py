"""Small question sets, their files as they lie on disk, and another program that writes them too."""

import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.model.question import Answer, NewQuestionSet, Option, Question
from holdfast.model.times import from_ms, iso
from tests.waiting import SECONDS

LANGUAGE = Question(
    title="Language",
    prompt="Which language?",
    options=(Option("Python (Recommended)", "Fast to write"), Option("Rust")),
)
FEATURES = Question(
    title="Features",
    prompt="Which features do you want?",
    options=(Option("Auth", "Login & roles"), Option("Metrics"), Option("Search")),
    multi_select=True,
)
NEW = NewQuestionSet(questions=(LANGUAGE, FEATURES))

RUST = Answer(question_index=0, selected_option="Rust")
PYTHON = Answer(question_index=0, selected_option="Python (Recommended)")


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> int:
        return round(self.now.timestamp() * 1000)

    def advance(self, step: timedelta) -> None:
        self.now += step

    @property
    def text(self) -> str:
        return iso(from_ms(self()))


def read(directory: Path, set_id: str, file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / set_id / file).read_bytes())
    return content


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def rewrite(directory: Path, set_id: str, file: str, **fields: Any) -> None:
    write_as_others_do(directory / set_id / file, {**read(directory, set_id, file), **fields})


def write_as_others_do(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")


def age(path: Path, step: timedelta) -> None:
    """Make a file look as if it had been written long ago."""
    then = time.time() - step.total_seconds()
    os.utime(path, (then, then))


def just_written(path: Path) -> None:
    """Make a file look as if it were being written, however long the machine takes to look at it."""
    age(path, -timedelta(hours=1))


class OtherProgram:
    """Writes question sets as the AUQ programs do: their formats, their locks, and no look at what was."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def ask(self, *, call_id: str | None = None, set_id: str | None = None, **more: Any) -> str:
        set_id = set_id or str(uuid.uuid4())
        call = {"callId": call_id} if call_id else {}
        now = _now()
        question = {
            "options": [{"description": "Fast to write", "label": "Python (Recommended)"}, {"label": "Rust"}],
            "prompt": "Which language?",
            "title": "Language",
            "multiSelect": False,
        }
        (self.directory / set_id).mkdir(parents=True, mode=0o700)
        request = {"questions": [question], "sessionId": set_id, "status": "pending", "timestamp": now}
        self._write(set_id, "request.json", {**request, **call, **more})
        status = {"createdAt": now, "lastModified": now, "sessionId": set_id, "status": "pending"}
        self._write(set_id, "status.json", {**status, "totalQuestions": 1, **call})
        return set_id

    def answer(self, set_id: str, *answers: dict[str, Any], call_id: str | None = None) -> None:
        now = _now()
        given = [{**answer, "timestamp": now} for answer in answers]
        call = {"callId": call_id} if call_id else {}
        self._write(set_id, "answers.json", {"sessionId": set_id, "timestamp": now, "answers": given, **call})
        self._update_status(set_id, status="completed")

    def reject(self, set_id: str, reason: str | None = None) -> None:
        self._update_status(set_id, status="rejected", rejectionReason=reason)

    def _update_status(self, set_id: str, **fields: Any) -> None:
        with _their_lock(self.directory / set_id / "status.json"):
            current = read(self.directory, set_id, "status.json")
        self._write(set_id, "status.json", {**current, "lastModified": _now(), **fields})

    def _write(self, set_id: str, file: str, content: dict[str, Any]) -> None:
        path = self.directory / set_id / file
        with _their_lock(path):
            descriptor, temporary = tempfile.mkstemp(suffix=".tmp")
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(json.dumps(content, indent=2, ensure_ascii=False))
            Path(temporary).rename(path)


@contextmanager
def _their_lock(path: Path) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with lock.open("x", encoding="ascii") as out:
                out.write(str(os.getpid()))
            break
        except FileExistsError:
            assert time.monotonic() < deadline, f"{lock} is held for ever"
            time.sleep(0.05)
    yield
    lock.unlink(missing_ok=True)


def _now() -> str:
    return iso(datetime.now(UTC))
