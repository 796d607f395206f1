"""What starts a sandboxed program: `python -I -S launch.py …`, with nothing of ours loaded.

`scope COMMAND…` shuts what bubblewrap leaves open, then becomes COMMAND: sockets without a file, and the
keys of the session. `keys COMMAND…` does the second alone, for kernels that cannot do the first.
`landlock FOLDER OPTIONS PARENT COMMAND…` confines COMMAND by Landlock and seccomp, watches it, and ends it
when PARENT is gone; FOLDER is where the package sandlock is, OPTIONS are what it is told, as JSON.

The process that watches a program gives up its own standard input and output, so that they are closed when
the program closes them. bubblewrap hands them on as 3 and 4; `TAKE_BACK` begins the command, and makes them 0
and 1 again. What is set for the command alone comes in one variable, since other users can read arguments.
"""

import ctypes
import os
import sys

CREATE_RULESET, RESTRICT_SELF = 444, 446
KEYCTL = {"x86_64": 250, "armv7l": 311, "i686": 288, "ppc64le": 271, "s390x": 280}
KEYCTL_ELSEWHERE = 219
JOIN_SESSION_KEYRING = 1
SET_NO_NEW_PRIVS, SET_PDEATHSIG, CAPBSET_DROP = 38, 1, 24
SCOPES = 0b11  # abstract sockets, signals
CAPABILITIES = 64
VARIABLES = "HOLDFAST_VARIABLES"
SIGNALLED = 128
SIGKILL = 9
CAPABILITY_VERSION = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def call(*arguments: object) -> int:
    """A system call, which must not fail."""
    answer: int = libc.syscall(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def leave_keyring() -> None:
    call(KEYCTL.get(os.uname().machine, KEYCTL_ELSEWHERE), JOIN_SESSION_KEYRING, None, 0, 0, 0)


def scope() -> None:
    """From now on, abstract sockets and processes outside are out of reach."""
    rules = (ctypes.c_uint64 * 3)(0, 0, SCOPES)
    ruleset = call(CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def drop_capabilities() -> None:
    for number in range(CAPABILITIES):
        libc.prctl(CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset(ctypes.byref(header), ctypes.byref(none)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def end_with_parent(parent: int) -> None:
    libc.prctl(SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def variables() -> dict[str, str]:
    """What is set for the command alone, and for nothing that confines it."""
    fields = os.fsdecode(bytes.fromhex(os.environ.pop(VARIABLES, ""))).split("\0")
    return dict(zip(fields[::2], fields[1::2], strict=False))


def settings_of(given: dict[str, str]) -> bytes:
    """The options that have bubblewrap set variables: each ends with a NUL."""
    options = [part for name, value in given.items() for part in ("--setenv", name, value)]
    return b"".join(os.fsencode(option) + b"\0" for option in options)


def written(content: bytes) -> int:
    """A file without a name that the next program inherits, to be read from its begin."""
    file = os.memfd_create("options", 0)
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def confine(options: str, command: list[str]) -> int:
    """Run a command under Landlock and seccomp; its exit code."""
    import json  # here, since these cost more than all the rest
    import signal

    from sandlock import Sandbox  # type: ignore[import-untyped]

    drop_capabilities()
    signal.signal(signal.SIGTERM, lambda *_: None)  # the program is told, too; when it ends, we do
    running = Sandbox(**json.loads(options), env=variables()).popen(command)
    let_go()
    ended = running.wait()
    if ended.exit_code >= 0:
        return int(ended.exit_code)
    # Of SIGKILL it tells no number.
    return SIGNALLED + (ended.signal if ended.signal > 0 else SIGKILL)


def let_go() -> None:
    """Have nothing as standard input and output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def main(kind: str, *arguments: str) -> None:
    if kind == "landlock":
        folder, options, parent, *command = arguments
        end_with_parent(int(parent))
        leave_keyring()
        sys.path.append(folder)
        sys.exit(confine(options, command))
    leave_keyring()
    if kind == "scope":
        scope()
    os.dup2(0, 3)
    os.dup2(1, 4)
    let_go()
    program, *rest = arguments
    os.execv(program, [program, "--args", str(written(settings_of(variables()))), *rest])


if __name__ == "__main__":
    main(*sys.argv[1:])
