"""The command line that has bubblewrap make a sandbox: namespaces, with mounts for the places."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.agents.sandbox.places import Access, Place

NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent"),
)

TAKE_BACK = ("/bin/sh", "-c", 'exec "$@" <&3 >&4 3<&- 4>&-', "sh")
"""The program's standard input and output, which the launcher has put away."""

SIGNALLED = 128
"""Added to the number of the signal that ended the program, it is the exit code of bubblewrap."""

FIRST_SIGNALLED, LAST_SIGNALLED = SIGNALLED + signal.SIGINT, SIGNALLED + signal.SIGRTMAX


def command_line(
    program: Path,
    places: Sequence[Place],
    command: Sequence[str],
    directory: Path,
    *,
    network: bool,
) -> list[str]:
    options = [str(program), *NAMESPACES]
    if not network:
        options.append("--unshare-net")
    for place in places:
        options += _mount(place)
    options += ["--proc", "/proc", "--dev", "/dev"]
    for path in [Path("/"), *(place.path for place in places if _is_empty_directory(place))]:
        options += ["--remount-ro", str(path)]  # now that all that lies in it is there
    return [*options, "--chdir", str(directory), "--", *TAKE_BACK, *command]


def exit_code(code: int) -> int:
    """The exit code of the program itself; the signal's number, negative, if one ended it.

    Programs exit by themselves with 129, as git does when it is called wrongly, and with 255.
    """
    return SIGNALLED - code if FIRST_SIGNALLED <= code <= LAST_SIGNALLED else code


def _mount(place: Place) -> Iterator[str]:
    path, source = str(place.path), str(place.source)
    match place.access:
        case Access.HIDDEN if _is_empty_directory(place):
            yield from ("--tmpfs", path)
        case Access.HIDDEN:
            yield from ("--ro-bind", "/dev/null", path)
        case _ if place.path == place.source and place.path.is_symlink():
            yield from ("--symlink", str(place.path.readlink()), path)
        case Access.READ:
            yield from ("--ro-bind", source, path)
        case Access.WRITE:
            yield from ("--bind", source, path)


def _is_empty_directory(place: Place) -> bool:
    return place.access is Access.HIDDEN and place.source.is_dir()
