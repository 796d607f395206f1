"""A session survives a crash.

Run it: `python examples/survive_a_crash.py`. It starts a second process that talks in a session
and streams an answer, kills that process in the middle of a word (SIGKILL, no warning), opens the
store again, and shows that every acknowledged message is there.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast import Message, PeerKind, SessionKey, open_store

KEY = SessionKey("main", "example", "local", PeerKind.GROUP, "crash-test")
ANSWER = "Because the store writes what was said before it says that it did. " * 400


async def talk(url: str) -> None:
    """The process that will be killed. It prints a line after each thing that is safely stored."""
    async with open_store(url) as store:
        await store.get_or_create(KEY)
        for number in range(1, 4):
            await store.append_messages(KEY, [Message.user(f"question {number}")])
            print(f"stored question {number}", flush=True)
        stream = await store.open_stream(KEY, Message.agent("", partial=True))
        for word in ANSWER.split():
            stream.write(f"{word} ")
            await stream.drain()
            print(f"streamed {word}", flush=True)


async def look(url: str) -> None:
    """What is there afterwards."""
    async with open_store(url) as store:
        session = await store.get_session(KEY)
        print(f"reopened: session {session.id} is {session.status} with {session.message_count} messages")
        for message in await store.get_history(KEY):
            cut_short = "  [interrupted]" if message.metadata.get("interrupted") else ""
            said = f"{message.text[:48]!r} ({len(message.text)} chars){cut_short}"
            print(f"  {message.seq}. {message.role:5} {said}")
        print(f"problems found: {len(await store.problems())}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory) / 'holdfast.db'}"
        talker = subprocess.Popen([sys.executable, __file__, url], stdout=subprocess.PIPE, text=True)
        assert talker.stdout is not None
        streamed = 0
        for line in talker.stdout:
            if line.startswith("stored"):
                print(line, end="")
                continue
            print(line.removeprefix("streamed ").strip(), end=" ", flush=True)
            streamed += 1
            if streamed == 25:
                break
        talker.kill()
        talker.wait()
        print(f"\n--- killed with SIGKILL after {streamed} words ---")
        asyncio.run(look(url))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(talk(sys.argv[1]))
    else:
        main()
