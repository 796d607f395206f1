"""A person's machine, with an agent in a sandbox in it."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agents.catalogue import AgentEntry
from holdfast.agents.sandbox import Kind, Sandbox, Sandboxes
from holdfast.agents.sandbox.kinds import Tools
from tests.agents.worlds import git, repository

CONFINING = [Kind.BUBBLEWRAP, Kind.LANDLOCK]

SECRET = "a-secret-of-the-persons"

SECRETS = (
    *("data/server.json", "data/holdfast.db", "data/blob", "questions/request.json", "work/other/code.py"),
    *("home/.ssh/id_ed25519", "home/.aws/credentials", "home/.netrc", "home/.npmrc", "home/.pypirc"),
    *("home/.config/gh/hosts.yml", "home/.git-credentials", "home/.config/git/credentials"),
    *("home/.docker/config.json", "home/.cargo/credentials.toml", "home/.mozilla/cookies"),
    *("home/.gnupg/key", "home/diary.txt", "home/.bashrc", "home/.local/bin/tool"),
    *("home/.codex/config.toml", "home/.codex/auth.json"),
)


class Scene:
    """A person's machine: a home, the data of Holdfast, two repositories, and services that run."""

    def __init__(self, directory: Path, kind: Kind, made_by: Tools) -> None:
        self.directory = directory
        for name in SECRETS:
            file = directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{SECRET}\n")
        self.home, self.data = directory / "home", directory / "data"
        self.repository = repository(directory / "work" / "project")
        self.tools = made_by.only(kind)
        self.sandboxes = Sandboxes(
            self.data / "sandboxes", never=[self.data, directory / "questions"], made_by=self.tools
        )
        self.entry = AgentEntry(
            command=sys.executable,
            configuration=(".codex/config.toml",),
            credentials=(".codex/auth.json",),
            env={"HOME": str(self.home)},
        )

    def prepare_git(self) -> None:
        """Everything that git follows: includes, a submodule, a linked working tree."""
        root = self.repository
        git(root, "config", "include.path", "../shared.gitconfig")
        git(root, "config", "--add", "include.path", "../missing.gitconfig")
        git(root, "config", "--add", "include.path", "../tools/git/team.gitconfig")
        (root / "shared.gitconfig").write_text("[user]\n\tname = shared\n")
        (root / "tools" / "git").mkdir(parents=True)
        (root / "tools" / "git" / "team.gitconfig").write_text("[user]\n\tname = team\n")
        git(root, "config", "core.hooksPath", "team/hooks")
        (root / "team" / "hooks").mkdir(parents=True)
        (root / "team" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
        module = root / ".git" / "modules" / "a" / "b"
        (module / "hooks").mkdir(parents=True)
        (module / "HEAD").write_text("ref: refs/heads/main\n")
        (module / "config").write_text("[core]\n")
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
        (root / "sub").mkdir()
        (root / "sub" / ".git").write_text("gitdir: ../.git/modules/a/b\n")
        git(root, "worktree", "add", "--quiet", "-b", "inside", str(root / "trees" / "inside"))
        git(root, "worktree", "add", "--quiet", "-b", "linked", str(self.directory / "work" / "linked"))

    async def open(self, repository: Path | None = None, **changes: Any) -> Sandbox:
        entry = msgspec.structs.replace(self.entry, **changes)
        return await self.sandboxes.open(
            entry, repository or self.repository, entry.environment(), owner=("local", "person", "agent")
        )

    def run(self, sandbox: Sandbox, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        start = sandbox.start_of(command, self.repository, variables)
        return subprocess.run(
            start.line,
            env=start.environment,
            cwd=self.repository,
            capture_output=True,
            text=True,
            check=False,
        )

    def guarded(self) -> dict[str, str]:
        """What the person has, outside the repository and in what git follows."""
        git_files = ("config", "hooks/*", "info/attributes", "modules/**/*", "worktrees/linked/*dir")
        files = [self.directory / name for name in SECRETS if not name.endswith("auth.json")]
        files += [self.repository / "shared.gitconfig"]
        files += [file for each in git_files for file in (self.repository / ".git").glob(each)]
        return {
            str(file): sha256(file.read_bytes()).hexdigest() + str(file.stat().st_mode)
            for file in files
            if file.is_file()
        }
