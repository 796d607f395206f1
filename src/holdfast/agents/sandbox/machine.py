"""What of a machine and of its owner's home an agent may see, and what it never sees."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

SYSTEM = (
    *("/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/snap"),
    *("/sys", "/usr", "/run/current-system", "/var/lib/ca-certificates"),
)
"""Read by every program. What not everybody on the machine may read of it is hidden, as far as `FOR_FEW`."""

OPTIONAL = Path("/opt")

FOR_FEW = {Path("/etc"): 100, OPTIONAL: 3, Path("/usr/local"): 3}
"""Where files are looked for that not everybody may read, and how deep."""

RESOLVER = Path("/etc/resolv.conf")
"""Often a link to a file that a service writes below `/run`."""

TOOLCHAINS = (
    *(".asdf", ".bun", ".cargo/bin", ".cargo/config.toml", ".cargo/env", ".deno", ".dotnet", ".fnm"),
    *(".ghcup", ".go", ".jabba", ".local/bin", ".local/lib", ".local/pipx", ".local/share/fnm"),
    *(".local/share/mise", ".local/share/pipx", ".local/share/pnpm", ".local/share/uv", ".n"),
    *(".nix-profile", ".npm-global", ".nvm", ".opam", ".pyenv", ".rbenv", ".rustup", ".rvm", ".sdkman"),
    *(".volta", ".yarn/bin", "go/bin", "sdk"),
)
"""Compilers, interpreters and their managers, below a person's home. Their caches are not among them."""

GIT_SETTINGS = (".gitconfig", ".config/git")
"""Whose name a commit carries, and what git ignores everywhere."""

SECRETS = (
    *(".aws", ".azure", ".cargo/credentials", ".cargo/credentials.toml", ".config/chromium"),
    *(".config/gcloud", ".config/gh", ".config/git/credentials", ".config/google-chrome", ".config/op"),
    *(".config/hub", ".config/rclone", ".docker/config.json", ".git-credentials", ".gnupg", ".kube"),
    *(".dotnet/corefx", ".local/share/keyrings", ".local/share/uv/credentials", ".mozilla", ".netrc"),
    *(".npmrc", ".password-store", ".pgpass", ".pypirc"),
    *(".ssh", ".terraform.d/credentials.tfrc.json", ".thunderbird", ".vault-token"),
)
"""Never seen below a person's home, also where that is the repository, unless an agent's entry names it."""

LOOK_SECONDS = 60

DROPPED = ("XDG_", "TMPDIR")
"""Variables that name directories of the person's. Without them, programs look below `HOME` and in `/tmp`."""


def home_of(environment: Mapping[str, str]) -> Path | None:
    """The real path of the home in an environment; None where that is a directory of the system.

    A service may have its home in `/opt`.
    """
    named = environment.get("HOME")
    home = Path(os.path.realpath(named)) if named else Path("/")
    is_own = len(home.parts) > 1 and home.is_dir()
    return home if is_own and (OPTIONAL in home.parents or not _is_system(home)) else None


def system() -> Iterator[Path]:
    """The directories of the system, as far as they are there."""
    yield from (path for path in map(Path, SYSTEM) if path.exists())
    resolver = Path(os.path.realpath(RESOLVER))
    if not _is_system(resolver) and resolver.exists():
        yield resolver


def for_few() -> Sequence[Path]:
    """What of the system not everybody may read: key files, hashes of passwords. Looked for once a minute."""
    return _for_few(int(time.monotonic() // LOOK_SECONDS))


@lru_cache(maxsize=1)
def _for_few(minute: int) -> Sequence[Path]:
    return tuple(path for directory, depth in FOR_FEW.items() for path in _read_by_few(directory, depth))


def _read_by_few(directory: Path, depth: int) -> Iterator[Path]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
        if stat.S_ISLNK(mode):
            continue
        if mode & needed != needed:
            yield Path(entry.path)
        elif stat.S_ISDIR(mode) and depth > 1:
            yield from _read_by_few(Path(entry.path), depth - 1)


def in_path(environment: Mapping[str, str]) -> Iterator[Path]:
    """The directories in which programs are looked for."""
    for name in environment.get("PATH", "").split(os.pathsep):
        if Path(name).is_absolute() and Path(name).is_dir():
            yield Path(name)
            if (real := Path(os.path.realpath(name))) != Path(name):
                yield real


def _is_system(path: Path) -> bool:
    return any(Path(each) == path or Path(each) in path.parents for each in SYSTEM)
