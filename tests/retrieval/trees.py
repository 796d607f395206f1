"""Trees to index, and ways to index them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.config import RetrievalSettings, Settings, WorkspaceSettings
from holdfast.retrieval import Chunk, Retrieval, SearchFilter, open_retrieval

ORGANIZATION = "acme"

GREETING = '''"""Greetings."""


class Greeter:
    """Says hello."""

    def greet(self, name: str) -> str:
        return f"Hello, {name}"


def farewell(name: str) -> str:
    return f"Goodbye, {name}"
'''


def written(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A directory with these files."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    root.mkdir(parents=True, exist_ok=True)
    return root


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def repository(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A git repository in which these files are committed."""
    written(root, files)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


async def opened(home: Path, **chosen: object) -> Retrieval:
    return await open_retrieval(
        Settings(
            data_dir=home / "data",
            retrieval=RetrievalSettings.model_validate(chosen),
            workspace=WorkspaceSettings(roots={"*": home / "{organization}"}),
        )
    )


async def found(retrieval: Retrieval, question: str, *, organization: str = ORGANIZATION) -> list[Chunk]:
    return list((await retrieval.search(organization, question)).chunks)


async def paths_found(retrieval: Retrieval, question: str, **wanted: str) -> set[str]:
    answer = await retrieval.search(ORGANIZATION, question, SearchFilter(**wanted), limit=50)
    return {chunk.path for chunk in answer.chunks}
