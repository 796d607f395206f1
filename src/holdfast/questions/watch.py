"""Wakes those who wait for a change in a directory of question sets.

The operating system tells of changed files through `watchfiles`, in a thread that runs while
somebody waits. Where that package is not installed or the system has no watches left, nobody is
woken; whoever waits must therefore look again after a while in any case.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.model.question import QuestionSetId, is_question_set_id
from holdfast.questions.records import ANSWERS, REQUEST, STATUS

log = logging.getLogger("holdfast.questions")

STEP_MS = 5
"""How often the thread asks what happened. Less often, an answer is noticed later; more often, waiting
costs more than the one or two percent of a processor that it does."""

JOIN_SECONDS = 1.0

_TELLING = frozenset({REQUEST, STATUS, ANSWERS})
"""Locks and temporary files wake nobody."""


class Watcher:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @asynccontextmanager
    async def listening(self, only: QuestionSetId | None = None) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever a set changes, or only one of them."""
        listener = _Listener(only)
        with self._lock:
            self._listeners.append(listener)
            if self._thread is None:
                self._stop = threading.Event()
                self._thread = threading.Thread(
                    target=self._watch, args=(self._stop,), name="holdfast-questions", daemon=True
                )
                self._thread.start()
        try:
            yield listener.event
        finally:
            with self._lock:
                self._listeners.remove(listener)
                ending = None if self._listeners else self._thread
                if ending is not None:
                    self._stop.set()
                    self._thread = None
            if ending is not None:
                await asyncio.to_thread(ending.join, JOIN_SECONDS)

    def _watch(self, stop: threading.Event) -> None:
        try:
            from watchfiles import watch
        except ImportError:
            return
        try:
            # As the system names the changed files, which may not be how we were told the directory.
            directory = self._directory.resolve()
            for changes in watch(
                directory,
                watch_filter=None,
                step=STEP_MS,
                debounce=STEP_MS,
                stop_event=stop,
                raise_interrupt=False,
            ):
                self._wake({_set_of(Path(path).relative_to(directory)) for _, path in changes})
        except Exception as error:  # of many kinds, and none of them a reason to stop waiting
            log.warning(
                "Changes of %s are noticed late, because it cannot be watched: %s", self._directory, error
            )

    def _wake(self, changed: set[QuestionSetId | None]) -> None:
        changed.discard(None)
        with self._lock:
            for listener in self._listeners:
                if changed and (listener.only is None or listener.only in changed):
                    listener.wake()


class _Listener:
    def __init__(self, only: QuestionSetId | None) -> None:
        self.only = only
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        # A listener is taken off the list before its loop ends.
        self._loop.call_soon_threadsafe(self.event.set)


def _set_of(changed: Path) -> QuestionSetId | None:
    """The set that a change concerns: its folder came or went, or one of its three files did."""
    name, *below = changed.parts or ("",)
    if is_question_set_id(name) and (not below or (len(below) == 1 and below[0] in _TELLING)):
        return QuestionSetId(name)
    return None
