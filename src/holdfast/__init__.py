"""Holdfast: durable sessions for AI agents.

The names of the library (`holdfast.api`) are loaded when the first of them is used, so that
`import holdfast` costs next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

logging.getLogger("holdfast").addHandler(logging.NullHandler())  # whoever wants the log asks for it

if TYPE_CHECKING:
    from holdfast.api import *  # noqa: F403


def __getattr__(name: str) -> Any:
    api = import_module("holdfast.api")
    if name not in api.__all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *import_module("holdfast.api").__all__])
