"""The box that the settings describe. Every door opens it here, so every setting applies at all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.questions.box import QuestionBox
from holdfast.questions.directory import default_directory

if TYPE_CHECKING:
    from holdfast.config import QuestionSettings


def open_box(settings: QuestionSettings) -> QuestionBox:
    return QuestionBox(
        settings.directory or default_directory(),
        limit=settings.limit,
        retention=timedelta(days=settings.retention_days) if settings.retention_days else None,
        timeout=settings.timeout_seconds or None,
    )
