"""Question sets: what agents ask people, through files that the AUQ programs share."""

from __future__ import annotations

from holdfast.questions.box import QuestionBox
from holdfast.questions.directory import Sweep, default_directory
from holdfast.questions.opening import open_box

__all__ = ["QuestionBox", "Sweep", "default_directory", "open_box"]
