"""A question set as JSON for other programs: camelCase, without what it does not have."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.model.question import QuestionSet
from holdfast.model.times import iso


def question_set_json(question_set: QuestionSet) -> dict[str, Any]:
    return {
        _camel(name): _builtins(value)
        for name, value in msgspec.structs.asdict(question_set).items()
        if value is not None
    }


def _builtins(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else msgspec.to_builtins(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
