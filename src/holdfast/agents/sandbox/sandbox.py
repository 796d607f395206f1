"""A sandbox for each agent: what it sees, and how what it starts is started.

An agent reads the web and does what a text tells it. So it sees its repository, its own installation, the
system and the toolchains of its person, and nothing else of theirs. Its home is a directory of its own, which
all sessions of one agent in one repository of one organization share: what it keeps there, transcripts and
caches, nothing outside reads. Its configuration is that of its person, and is only read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from holdfast.agents.sandbox import bubblewrap, landlock, machine
from holdfast.agents.sandbox.git_directory import GitDirectory, StandIns
from holdfast.agents.sandbox.git_directory import tidy as tidy_git
from holdfast.agents.sandbox.installation import installation
from holdfast.agents.sandbox.kinds import Guard, Kind, Tools, launcher, tools
from holdfast.agents.sandbox.places import Place, around, hidden, in_order, read, write
from holdfast.agents.sandbox.proxy import VARIABLES, Proxy
from holdfast.agents.sandbox.temporary import TemporaryPlace
from holdfast.agents.sandbox.temporary import tidy as tidy_temporary
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.agents.catalogue import AgentEntry

TEMPORARY = (Path("/tmp"), Path("/var/tmp"))

HOME = Path("/home/agent")
"""Where its home is for an agent whose environment names none."""

UNSIGNED = {"commit.gpgSign": "false", "tag.gpgSign": "false"}
"""An agent cannot sign in its person's name, and can commit all the same."""


NO_VARIABLES: Mapping[str, str] = {}


class Wanted(StrEnum):
    """`sandbox` of an agent's entry."""

    AUTO = "auto"
    """The best kind there is; the session says what it does not hold."""
    REQUIRED = "required"
    """One that holds everything, or the agent is not started."""
    OFF = "off"


class SandboxRefused(HoldfastError):
    """The agent's entry requires what no sandbox on this machine holds. It is not started."""

    code = "sandbox_refused"
    status = 503


class Start(NamedTuple):
    line: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """That of one session: the agent and all commands that it runs through us are started in it."""

    kind: Kind
    environment: Mapping[str, str]
    """All variables of what is started."""
    home: Path
    """Where the agent's home is on the disk."""
    network: bool | tuple[str, ...] = True
    lacks: tuple[Guard, ...] = tuple(Guard)
    sees: tuple[str, ...] = ()
    replaces_own: bool = False
    """Whether the agent has a sandbox of its own that is switched off here."""
    places: tuple[Place, ...] = ()
    _tools: Tools = field(default_factory=Tools)
    _temporary: TemporaryPlace | None = None
    _stand_ins: StandIns | None = None
    _proxy: Proxy | None = None

    @classmethod
    def none(cls, environment: Mapping[str, str]) -> Sandbox:
        """No sandbox: what is started has the rights of the server."""
        return cls(Kind.NONE, environment, Path(environment.get("HOME", "/")))

    def start_of(
        self, command: Sequence[str], directory: Path, variables: Mapping[str, str] = NO_VARIABLES
    ) -> Start:
        """How a command is started in a directory, with `variables` beside those of the sandbox.

        They are the agent's, so what makes the sandbox must not have them: `LD_PRELOAD` is one.
        """
        match self.kind, self._tools:
            case Kind.BUBBLEWRAP, Tools(bubblewrap=Path() as program):
                begun = [*self._proxy.begins, *command] if self._proxy else command
                mounted = bubblewrap.command_line(
                    program, self.places, begun, directory, variables, network=self.network is True
                )
                return Start(launcher(self._tools.first, *mounted), self.environment)
            case Kind.LANDLOCK, Tools(sandlock=Path() as sandlock):
                confined = landlock.command_line(
                    sandlock, self.places, command, directory, variables, network=bool(self.network)
                )
                return Start(confined, self.environment)
        return Start(command, {**self.environment, **variables})

    def exit_code(self, code: int) -> int:
        """The exit code of a command: the signal's number, negative, if one ended it."""
        return code if self.kind is Kind.NONE else bubblewrap.exit_code(code)

    @property
    def summary(self) -> str:
        """What its session says of it, in a line."""
        if self.kind is Kind.NONE:
            return "none: the agent has the rights of the server"
        network = ("no", "yes")[self.network] if isinstance(self.network, bool) else ", ".join(self.network)
        said = [f"{self.kind}; sees: {', '.join(self.sees)}; network: {network}"]
        if self.lacks:
            said.append(f"does not keep it from: {', '.join(self.lacks)}")
        if self.replaces_own:
            said.append("the agent's own sandbox is switched off, since it cannot be inside another")
        return "; ".join(said)

    @property
    def description(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "sees": list(self.sees),
            "network": self.network if isinstance(self.network, bool) else list(self.network),
            "lacks": [guard.value for guard in self.lacks],
            "summary": self.summary,
        }

    async def close(self) -> None:
        """Take away what was made for this session alone."""
        if self._proxy is not None:
            await self._proxy.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._stand_ins is not None:
            self._stand_ins.remove()
        if self._temporary is not None:
            self._temporary.remove()


class Sandboxes:
    """Makes the sandboxes of a server's agents."""

    def __init__(
        self,
        directory: Path,
        *,
        never: Sequence[Path] = (),
        toolchains: Sequence[str] = machine.TOOLCHAINS,
        made_by: Tools | None = None,
    ) -> None:
        """Their homes are below `directory`. No agent sees `never`, whatever its repository is."""
        self._directory = directory
        self.never = [Path(os.path.realpath(path)) for path in never]
        self._toolchains = tuple(toolchains)
        self._made_by = made_by

    def below(self, directory: Path) -> Sandboxes:
        """Such sandboxes with homes in another directory, as for a session that is not kept."""
        return Sandboxes(directory, never=self.never, toolchains=self._toolchains, made_by=self._made_by)

    async def tidy(self) -> None:
        """Take away what was made for sessions whose server was killed."""
        await asyncio.to_thread(tidy_temporary, self._directory)
        await asyncio.to_thread(tidy_git, self._directory)

    async def tools(self) -> Tools:
        return self._made_by or await tools()

    async def open(
        self,
        entry: AgentEntry,
        repository: Path,
        environment: Mapping[str, str],
        *,
        owner: tuple[str, str],
        also: Sequence[Place] = (),
    ) -> Sandbox:
        """A sandbox of an agent in a repository, for an organization: `owner` names the agent and it.

        Raises `SandboxRefused` where the entry requires more than there is.
        """
        made_by = await self.tools()
        kind = Kind.NONE if entry.sandbox is Wanted.OFF else made_by.best
        lacks = made_by.lacks(kind, network=entry.network)
        if entry.sandbox is Wanted.REQUIRED and lacks:
            raise SandboxRefused(_refusal(kind, lacks))
        if kind is Kind.NONE:
            return Sandbox.none(environment)
        async with AsyncExitStack() as opened:
            proxy = None
            if kind is Kind.BUBBLEWRAP and not isinstance(entry.network, bool):
                proxy = await Proxy.open(entry.network)
                opened.push_async_callback(proxy.close)
                environment, also = {**environment, **VARIABLES}, (*also, *proxy.places)
            opening = asyncio.create_task(
                asyncio.to_thread(
                    self._open, kind, made_by, lacks, entry, repository, environment, owner, also
                )
            )
            try:
                sandbox = await asyncio.shield(opening)
            except asyncio.CancelledError:
                await asyncio.wait([opening])
                if opening.exception() is None:
                    await opening.result().close()
                raise
            opened.pop_all()
        return replace(sandbox, _proxy=proxy)

    def _open(
        self,
        kind: Kind,
        made_by: Tools,
        lacks: tuple[Guard, ...],
        entry: AgentEntry,
        repository: Path,
        environment: Mapping[str, str],
        owner: tuple[str, str],
        also: Sequence[Place],
    ) -> Sandbox:
        theirs = machine.home_of(environment)
        own = self._home(owner, repository)
        home = theirs or HOME
        temporary = TemporaryPlace(self._directory)
        git_directory = GitDirectory.of(repository)
        stand_ins = StandIns(self._directory, git_directory) if git_directory else None
        try:
            fixed = stand_ins.put() if stand_ins else []
            places = [
                *self._of_machine(entry, environment, theirs),
                write(home, own),
                *(write(path, temporary.path) for path in TEMPORARY),
                *_of_agent(entry, theirs),
                *also,
                write(repository),
                *(write(path) for path in (git_directory.writable if git_directory else ())),
                *(read(path) for path in fixed),
            ]
            ordered = in_order([*places, *self._hidden(entry, places, theirs)])
        except BaseException:
            if stand_ins:
                stand_ins.remove()
            temporary.remove()
            raise
        variables = _variables(entry, environment) | {"HOME": str(home)}
        if kind is Kind.LANDLOCK:
            _link(own, home, ordered)
            variables |= {"HOME": str(own), "TMPDIR": str(temporary.path)}
        sees = ["repository", *(f"~/{name}" for name in _names(entry, theirs)), *entry.sees, *entry.writes]
        return Sandbox(
            kind,
            variables,
            own,
            entry.network,
            lacks,
            tuple(dict.fromkeys(sees)),
            bool(entry.own_sandbox_off),
            tuple(ordered),
            made_by,
            temporary,
            stand_ins,
        )

    def _home(self, owner: tuple[str, str], repository: Path) -> Path:
        place = sha256(os.fsencode(repository)).hexdigest()[:16]
        agent, organization = (quote(name, safe="") for name in owner)
        home = self._directory / organization / place / agent
        for directory in (*reversed(home.parents), home):  # each for its owner alone, since any may be new
            directory.mkdir(exist_ok=True, mode=0o700)
        return Path(os.path.realpath(home))

    def _of_machine(
        self, entry: AgentEntry, environment: Mapping[str, str], home: Path | None
    ) -> Iterator[Place]:
        yield from (read(path) for path in machine.system())
        program = entry.path(environment)
        needed = [*machine.in_path(environment), *(installation(program, environment) if program else ())]
        needed += [Path(each) for each in entry.args if Path(each).is_absolute() and Path(each).exists()]
        yield from (read(path) for path in needed if _is_narrow(path, home, self.never))
        for name in (*self._toolchains, *machine.GIT_SETTINGS):
            if home is not None and (path := home / name.removeprefix("~/")).exists():
                yield read(path)

    def _hidden(self, entry: AgentEntry, places: Sequence[Place], home: Path | None) -> Iterator[Place]:
        """What lies in a place and is never seen, unless the entry names it."""
        named = {_expanded(path, home) for path in (*entry.sees, *entry.writes)}
        secrets = [home / name for name in machine.SECRETS] if home else []
        ordered = in_order(places)
        for path in (*self.never, *secrets, *machine.for_few()):
            place = around(path, ordered)
            is_visible = place is not None and place.path == place.source
            if (
                is_visible
                and path.exists()
                and not any(each == path or path in each.parents for each in named)
            ):
                yield hidden(path)


def _of_agent(entry: AgentEntry, home: Path | None) -> Iterator[Place]:
    for names, of_home in ((entry.configuration, read), (entry.credentials, write)):
        for name in names:
            if home is not None and (path := home / name).exists():
                yield of_home(path, Path(os.path.realpath(path)))
    for given, as_place in ((entry.sees, read), (entry.writes, write)):
        for text in given:
            if (path := _expanded(text, home)).exists():
                yield as_place(path)


def _names(entry: AgentEntry, home: Path | None) -> list[str]:
    named = (*entry.configuration, *entry.credentials)
    return [name for name in named if home is not None and (home / name).exists()]


def _expanded(text: str, home: Path | None) -> Path:
    path = home / text[2:] if home is not None and text.startswith("~/") else Path(text)
    return Path(os.path.realpath(path))


def _variables(entry: AgentEntry, environment: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment.items()
        if name in entry.env or not name.startswith(machine.DROPPED)
    }
    settings = list(UNSIGNED.items())
    kept["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (name, value) in enumerate(settings):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return kept


def _is_narrow(path: Path, home: Path | None, never: Sequence[Path]) -> bool:
    """Whether a directory of programs holds no more than these: not a whole home, and not our data."""
    wide = [*(each for each in (home, *never) if each is not None)]
    return len(path.parts) > 1 and not any(path == each or path in each.parents for each in wide)


def _link(own: Path, home: Path, places: Sequence[Place]) -> None:
    """Links in a home of its own, to what has its place below the home of the person."""
    for place in places:
        if home not in place.path.parents or place.path == home:
            continue
        link = own / place.path.relative_to(home)
        if any(above.is_symlink() for above in link.parents if own in above.parents):
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # an empty one, where a mount was
            link.rmdir() if link.is_dir() and not link.is_symlink() else link.unlink(missing_ok=True)
        with suppress(FileExistsError):
            link.symlink_to(place.source)


def _refusal(kind: Kind, lacks: Sequence[Guard]) -> str:
    missing = "; ".join(guard.value for guard in lacks)
    if kind is Kind.NONE:
        return (
            "The agent requires a sandbox, and this machine has none. Install bubblewrap, let it make user "
            'namespaces, or set sandbox = "auto" for this agent.'
        )
    return (
        f"The agent requires a sandbox, and {kind} does not keep it from: {missing}. Install bubblewrap, "
        'or set sandbox = "auto" for this agent.'
    )
