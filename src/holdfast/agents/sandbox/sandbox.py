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
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from holdfast.agents.sandbox import bubblewrap, landlock, machine
from holdfast.agents.sandbox.git_directory import GitDirectory, StandIns
from holdfast.agents.sandbox.git_directory import tidy as tidy_git
from holdfast.agents.sandbox.home import make_way, remove_below
from holdfast.agents.sandbox.installation import installation
from holdfast.agents.sandbox.kinds import Guard, Kind, SandboxRefused, Tools, launcher, tools
from holdfast.agents.sandbox.places import (
    Access,
    Place,
    around,
    by_path,
    hidden,
    in_order,
    read,
    sources,
    ways,
    write,
)
from holdfast.agents.sandbox.proxy import VARIABLES, Proxy
from holdfast.agents.sandbox.temporary import TemporaryPlace
from holdfast.agents.sandbox.temporary import tidy as tidy_temporary

if TYPE_CHECKING:
    from holdfast.agents.catalogue import AgentEntry

TEMPORARY = (Path("/tmp"), Path("/var/tmp"))

HOME = Path("/home/agent")
"""Where its home is for an agent whose environment names none."""

VARIABLES_OF_COMMAND = "HOLDFAST_VARIABLES"
"""Tells the launcher what to set for the command alone."""

HOMES, TEMPORARIES, RECORDS = "homes", "tmp", "git"
"""Directories below that of the sandboxes: what agents keep, `/tmp` of each session, what stands in git's
unless another place is given."""

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
                    program, self.places, begun, directory, network=self.network is True
                )
                return Start(launcher(self._tools.first, *mounted), self._beside(variables))
            case Kind.LANDLOCK, Tools(sandlock=Path() as sandlock):
                confined = landlock.command_line(
                    sandlock, self.places, command, directory, network=bool(self.network)
                )
                return Start(confined, self._beside(variables))
        return Start(command, {**self.environment, **variables})

    def _beside(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """The variables of the launcher, with those of the command in one: other users can read arguments."""
        fields = b"".join(os.fsencode(text) + b"\0" for each in variables.items() for text in each)
        return {**self.environment, VARIABLES_OF_COMMAND: fields.hex()} if fields else self.environment

    def access(self, path: Path) -> Access:
        """What a program in it may do with a path that has no links."""
        if self.kind is Kind.NONE:
            return Access.WRITE
        place = around(path, by_path(self.places))
        return place.access if place is not None else Access.HIDDEN

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
        roots: Sequence[Path] = (),
        toolchains: Sequence[str] = machine.TOOLCHAINS,
        records: Path | None = None,
        made_by: Tools | None = None,
    ) -> None:
        """Their homes are below `directory`. No agent sees `never`, whatever its repository is, and no other
        repository in `roots`. `records` says what was put into repositories, for all that work in them.
        """
        self._directory = directory
        self._records = records or directory / RECORDS
        self._roots = [Path(os.path.realpath(path)) for path in roots]
        self.never = [Path(os.path.realpath(path)) for path in never]
        self._toolchains = tuple(toolchains)
        self._made_by = made_by

    def below(self, directory: Path) -> Sandboxes:
        """Such sandboxes with homes in another directory, as for a session that is not kept."""
        return Sandboxes(
            directory,
            never=self.never,
            roots=self._roots,
            toolchains=self._toolchains,
            records=self._records,
            made_by=self._made_by,
        )

    async def tidy(self) -> None:
        """Take away what was made for sessions whose server was killed."""
        await asyncio.to_thread(tidy_temporary, self._directory / TEMPORARIES)
        await asyncio.to_thread(tidy_git, self._records)

    async def tools(self) -> Tools:
        return self._made_by or await tools()

    async def open(
        self,
        entry: AgentEntry,
        repository: Path,
        environment: Mapping[str, str],
        *,
        owner: Sequence[str],
        also: Sequence[Place] = (),
    ) -> Sandbox:
        """A sandbox of an agent in a repository. `owner` names whose home it has: organization, user, agent.

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
                proxy = await Proxy.open(entry.network, self._directory / TEMPORARIES)
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
        owner: Sequence[str],
        also: Sequence[Place],
    ) -> Sandbox:
        theirs = machine.home_of(environment)
        own = self._home(owner, repository)
        home = theirs or HOME
        git_directory = GitDirectory.of(repository)
        with ExitStack() as undone:
            temporary = TemporaryPlace(self._directory / TEMPORARIES)
            undone.callback(temporary.remove)
            stand_ins, fixed = None, []
            if git_directory is not None:
                stand_ins = StandIns(self._records, git_directory)
                undone.callback(stand_ins.remove)
                fixed = stand_ins.put()
                lacks = _with_links(entry, lacks, stand_ins.links)
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
            ordered = in_order([*places, *self._hidden(entry, places, theirs, repository)])
            ordered = in_order([*ordered, *sources(ordered)])
            _prepare(own, home, entry, ordered)
            variables = _variables(entry, environment) | {"HOME": str(home)}
            if kind is Kind.LANDLOCK:
                _link(own, home, ordered)
                variables |= {"HOME": str(own), "TMPDIR": str(temporary.path)}
            else:
                fixed_ways = list(ways(ordered))
                for way in fixed_ways:
                    way.source.mkdir(parents=True, exist_ok=True)
                ordered = in_order([*fixed_ways, *ordered])
            undone.pop_all()
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

    def _home(self, owner: Sequence[str], repository: Path) -> Path:
        place = sha256(os.fsencode(repository)).hexdigest()[:16]
        home = self._directory.joinpath(HOMES, *map(_as_name, owner), place)
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
                yield read(path, Path(os.path.realpath(path)))

    def _hidden(
        self, entry: AgentEntry, places: Sequence[Place], home: Path | None, repository: Path
    ) -> Iterator[Place]:
        """What lies in a place and is never seen, unless the entry names it."""
        named = {_expanded(path, home) for path in (*entry.sees, *entry.writes)}
        secrets = [home / name for name in machine.SECRETS] if home else []
        found = by_path(in_order(places))
        given = {repository, *named}
        of_others = (path for path in machine.for_few() if not given & {path, *path.parents})
        for path in (*self.never, *self._roots, *secrets, *of_others):
            place = around(path, found)
            is_visible = place is not None and place.path == place.source
            if (
                is_visible
                and path != repository
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


def _as_name(text: str) -> str:
    """A text as one name in a path, another one for each text."""
    return quote(text, safe="").replace(".", "%2E")


def _with_links(entry: AgentEntry, lacks: tuple[Guard, ...], links: Sequence[Path]) -> tuple[Guard, ...]:
    """What is lacking where a link stands in the place of something that git believes."""
    if not links:
        return lacks
    if entry.sandbox is Wanted.REQUIRED:
        raise SandboxRefused(
            f"The agent requires a sandbox, and none keeps it from replacing {links[0]}, which is a link. "
            'Put what it leads to in its place, or set sandbox = "auto" for this agent.'
        )
    return tuple(guard for guard in Guard if guard in {*lacks, Guard.GIT})


def _prepare(own: Path, home: Path, entry: AgentEntry, places: Sequence[Place]) -> None:
    """Make an agent's home fit for its places: what it left in their way is taken away.

    So is what it put where its configuration would be, if its person had any.
    """
    inside = {place.path.relative_to(home): place for place in places if home in place.path.parents}
    for name in map(Path, entry.configuration):
        if name not in inside:
            remove_below(own, name)
    found = by_path(places)
    for name, place in inside.items():
        enclosing = around(place.path.parent, found)
        if enclosing is not None and enclosing.path == home:
            make_way(own, name, is_directory=place.source.is_dir())


def _link(own: Path, home: Path, places: Sequence[Place]) -> None:
    """Links in a home of its own, to what has its place below the home of the person."""
    found = by_path(places)
    for place in places:
        enclosing = around(place.path.parent, found)
        if enclosing is not None and enclosing.path == home:
            link = own / place.path.relative_to(home)
            remove_below(own, link.relative_to(own))
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
