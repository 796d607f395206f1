"""A process of its own that uses a store, for the tests that kill it, starve it, or race it with others.

Run as `-m tests.store.faults.worker ROLE URL ARGUMENTS`, the arguments in JSON. It writes lines of JSON to
standard output, each at once: what was said before a kill was said. `ready` means that it waits for a line
on standard input, so that several of them begin at the same moment.
"""

import asyncio
import ctypes
import fcntl
import json
import os
import random
import resource
import sys
from typing import Any

import apsw

from holdfast import (
    HoldfastError,
    Message,
    NewTurn,
    PeerKind,
    SessionKey,
    Store,
    TokenUsage,
    TurnAnswer,
    TurnFailure,
    open_store,
)
from holdfast.model.ids import MessageId
from holdfast.store import migrate, sqlite_path
from holdfast.store.ids import new_id
from tests.waiting import SECONDS


def shared_key(number: int = 0) -> SessionKey:
    """The key of a session that all workers of a test use."""
    return SessionKey("main", "test", "faults", PeerKind.GROUP, f"shared-{number}")


def answer_of(instruction: str) -> str:
    return f"the answer to {instruction}"


def padded(text: str) -> str:
    """Enough of it to fill a database page: a few hundred of these make a log that must be emptied."""
    return text.ljust(4000)


def say(**report: Any) -> None:
    os.write(1, json.dumps(report).encode() + b"\n")


def obey_permissions() -> None:
    """Give up root's right to ignore the permissions of files: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    rights = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, rights) == 0
    for effective_or_permitted in (0, 1):
        rights[effective_or_permitted] &= ~(1 << 1 | 1 << 2)
    assert libc.capset(header, rights) == 0


async def told_to_go() -> None:
    say(ready=True)
    await asyncio.to_thread(sys.stdin.readline)


async def live(url: str, *, tasks: int, sessions: int, seed: int) -> None:
    """Do everything a busy program does, until killed. Says what was acknowledged, once it was."""
    say(opening=True)
    async with open_store(url) as store, asyncio.TaskGroup() as group:
        for number in range(sessions):
            await store.get_or_create(shared_key(number))
        for task in range(tasks):
            group.create_task(_busy(store, sessions, random.Random(f"{seed}.{task}")))


async def _busy(store: Store, sessions: int, chance: random.Random) -> None:
    while True:
        session = chance.randrange(sessions)
        match chance.randrange(4):
            case 0:
                await _take_turn(store, session, chance)
            case 1:
                await _stream(store, session, chance)
            case _:
                await _append(store, session, chance)


async def _append(store: Store, session: int, chance: random.Random) -> None:
    """Messages that name their call and their number in it: half of a call would show."""
    call, count = new_id(), chance.randint(1, 3)
    own_ids = chance.random() < 0.5
    stored = await store.append_messages(
        shared_key(session),
        [
            Message.user(f"{call} {part}/{count}", id=MessageId(new_id()) if own_ids else None)
            for part in range(1, count + 1)
        ],
    )
    say(session=session, appended=[(message.id, message.seq, message.text) for message in stored])


async def _take_turn(store: Store, session: int, chance: random.Random) -> None:
    ref, instruction = shared_key(session), new_id()
    turn = await store.add_turn(ref, NewTurn(instruction_summary=instruction))
    report = {"session": session, "turn": turn.id, "sequence": turn.sequence_number}
    say(**report, status="pending")
    match chance.randrange(3):
        case 0:
            answer = TurnAnswer(agent_answer_summary=answer_of(instruction), usage=TokenUsage(3, 5))
            await store.complete_turn(ref, turn.id, answer)
            say(**report, status="completed")
        case 1:
            await store.fail_turn(ref, turn.id, TurnFailure(errors=(instruction,)))
            say(**report, status="failed")


async def _stream(store: Store, session: int, chance: random.Random) -> None:
    stream = await store.open_stream(shared_key(session), Message.agent("", partial=True))
    report = {"session": session, "stream": stream.message.id, "seq": stream.message.seq}
    say(**report, text="", state="open")
    text = ""
    for _ in range(chance.randint(1, 5)):
        piece = f'"{chance.random()}"\n'
        stream.write(piece)
        text += piece
        await stream.drain()
        say(**report, text=text, state="open")
    if chance.random() < 0.5:
        say(**report, text=text, state="ending")
        await stream.end()
        say(**report, text=text, state="ended")


async def meet(url: str, *, tasks: int) -> None:
    """Ask for the same key from many tasks at once."""
    async with open_store(url) as store:
        await told_to_go()
        found = await asyncio.gather(*(store.get_or_create(shared_key()) for _ in range(tasks)))
        say(sessions=[session.id for session in found])


async def chatter(url: str, *, tasks: int, sessions: int, times: int) -> None:
    """Append from many tasks to sessions that other processes append to as well."""
    async with open_store(url) as store:
        await told_to_go()

        async def talk(task: int) -> list[tuple[int, int, str, str]]:
            said: list[tuple[int, int, str, str]] = []
            for number in range(times):
                session = (task + number) % sessions
                text = f"{os.getpid()}.{task}.{number}"
                (message,) = await store.append_messages(shared_key(session), [Message.user(padded(text))])
                assert message.id is not None
                said.append((session, message.seq, message.id, text))
            return said

        said = await asyncio.gather(*(talk(task) for task in range(tasks)))
        say(said=[each for messages in said for each in messages])


async def instruct(url: str, *, tasks: int, times: int) -> None:
    """Open and complete turns of one session from many tasks, together with other processes."""
    async with open_store(url) as store:
        await told_to_go()

        async def take_turns() -> list[int]:
            sequences = []
            for _ in range(times):
                turn = await store.add_turn(shared_key(), NewTurn(instruction_summary="go on"))
                answer = TurnAnswer(agent_answer_summary="done", usage=TokenUsage(1, 2))
                await store.complete_turn(shared_key(), turn.id, answer)
                sequences.append(turn.sequence_number)
            return sequences

        taken = await asyncio.gather(*(take_turns() for _ in range(tasks)))
        say(sequences=[sequence for sequences in taken for sequence in sequences])


async def visit(url: str, *, times: int = 1, obeying_permissions: bool = False) -> None:
    """Open a store that may not be there yet, leave a message in it, and close it."""
    if obeying_permissions:
        obey_permissions()
    await told_to_go()
    for _ in range(times):
        try:
            async with open_store(url) as store:
                session = await store.get_or_create(shared_key())
                (message,) = await store.append_messages(shared_key(), [Message.user("I was here")])
                say(session=session.id, message=message.id)
        except HoldfastError as error:
            say(error=type(error).__name__, sentence=str(error), retriable=error.retriable)


async def remigrate(url: str, *, times: int) -> None:
    """Take the schema one step back and forth again."""
    await told_to_go()
    for _ in range(times):
        await migrate(url, "0002")
        say(revisions=await migrate(url))


async def fill(url: str, *, limit: int, size: int) -> None:
    """Append until files may not grow any more; then lift the limit and go on with the same store."""
    async with open_store(url) as store, asyncio.timeout(SECONDS):
        for number in range(2):
            await store.get_or_create(shared_key(number))
        stream = await store.open_stream(shared_key(1), Message.agent("", partial=True))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        failures = 0
        while failures < 3:
            failures += await _fill_once(store, size)
        stream.write("said on a full disk")
        try:
            await stream.drain()
        except HoldfastError as error:
            say(error=type(error).__name__, sentence=str(error), retriable=error.retriable)
        say(still_readable=len(await store.get_history(shared_key())) > 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await stream.drain()
        say(stream=(await stream.end()).text)
        say(failures_after=await _fill_once(store, size), problems=list(await store.problems()))


async def _fill_once(store: Store, size: int) -> int:
    """Eight appends at once; how many of them failed."""

    async def append() -> int:
        messages = [Message.user("x" * size, id=MessageId(new_id())) for _ in range(2)]
        try:
            await store.append_messages(shared_key(), messages)
        except HoldfastError as error:
            say(error=type(error).__name__, sentence=str(error), retriable=error.retriable)
            say(refused=[message.id for message in messages])
            return 1
        say(appended=[message.id for message in messages])
        return 0

    return sum(await asyncio.gather(*(append() for _ in range(8))))


async def pin(url: str) -> None:
    """Hold a read transaction open, as a foreign program with no manners would."""
    connection = apsw.Connection(str(sqlite_path(url)), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("BEGIN")
    before = connection.execute("SELECT count(*) FROM messages").fetchall()
    await told_to_go()
    after = connection.execute("SELECT count(*) FROM messages").fetchall()
    connection.execute("COMMIT")
    connection.close()
    say(unchanged=before == after)


async def write_back(url: str) -> None:
    """Hold the lock of a process that writes the log of a SQLite database back, as one that stalls does."""
    with sqlite_path(url).with_name(f"{sqlite_path(url).name}-shm").open("r+b") as shared:
        # https://www.sqlite.org/walformat.html, "WAL Locks": WAL_CKPT_LOCK.
        fcntl.lockf(shared, fcntl.LOCK_EX, 1, 121)
        await told_to_go()


ROLES = {
    role.__name__: role for role in (live, meet, chatter, instruct, visit, remigrate, fill, pin, write_back)
}

if __name__ == "__main__":
    _, name, url, arguments = sys.argv
    asyncio.run(ROLES[name](url, **json.loads(arguments)))
