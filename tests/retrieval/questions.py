"""The fixed questions about two packages, and how many of them are answered."""

import shutil
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from holdfast.retrieval import Retrieval

PACKAGES = ("starlette", "httpx")
REPOSITORY = "packages"
AT = 5


class AskedQuestion(NamedTuple):
    ask: str
    symbols: Sequence[str]


def questions(kind: str) -> list[AskedQuestion]:
    """`paraphrased`, as somebody asks who has not read the code, or `identifiers`."""
    with (Path(__file__).parent / "questions.toml").open("rb") as file:
        return [AskedQuestion(each["ask"], each["symbols"]) for each in tomllib.load(file)[kind]]


def packages_in(directory: Path) -> Path:
    """A tree with the source of the packages."""
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(
            Path(spec.origin).parent, directory / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return directory


async def unanswered(retrieval: Retrieval, organization: str, kind: str) -> list[str]:
    """The questions of which no symbol is among the first chunks found."""
    missed = []
    for question in questions(kind):
        found = (await retrieval.search(organization, question.ask, limit=AT)).chunks
        if not any(chunk.symbol in question.symbols for chunk in found):
            missed.append(question.ask)
    return missed
