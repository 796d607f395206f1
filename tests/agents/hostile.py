"""Agents that mean no good: ACP on the surface, and a few lines of mischief where a test puts them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from textwrap import indent
from typing import Any

from holdfast import Session
from holdfast.agents.catalogue import AgentEntry
from holdfast.agents.live import Limits
from holdfast.agents.permissions import Decision
from holdfast.agents.sandbox import Wanted
from holdfast.agents.supervisor import Supervisor
from tests.agents.scripts import script
from tests.agents.worlds import World

BODY = '''
def raw(*lines):
    for data in lines:
        sys.stdout.buffer.write(data + b"\\n")
    sys.stdout.buffer.flush()

def update(kind, /, **fields):
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}
    send({"jsonrpc": "2.0", "method": "session/update", "params": params})

def say(text):
    update("agent_message_chunk", content={"type": "text", "text": text})

def request(number, method, **params):
    send({"jsonrpc": "2.0", "id": number, "method": method, "params": {"sessionId": "s", **params}})

def permission(number, call="call"):
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
               {"optionId": "no", "name": "No", "kind": "reject_once"}]
    tool = {"toolCallId": call, "title": "Rule the world"}
    request(number, "session/request_permission", toolCall=tool, options=options)

def answer(result):
    send({"jsonrpc": "2.0", "id": line["id"], "result": result})

def done():
    answer({"stopReason": "end_turn"})

TELL = """
import os, signal, time

def tell():
    with open("new", "w") as file: file.write(str(os.getpid()))
    os.rename("new", "child")

"""

def start(code):
    subprocess.Popen([sys.executable, "-c", TELL + code])

told = lines()
AT_START
for line in told:
    method = line.get("method")
    if method == "initialize":
        answer({"protocolVersion": 1})
    elif method == "session/new":
BEFORE_NEW
        answer(OPENED)
AFTER_NEW
    elif method == "session/prompt" and line["params"]["prompt"][0]["text"] != "go":
        say("I go on.")
        done()
    elif method == "session/prompt":
ON_GO
'''


def hostile(
    world: World,
    on_go: str = "done()",
    *,
    at_start: str = "",
    before_new: str = "pass",
    opened: str = "{'sessionId': 's'}",
    after_new: str = "pass",
    permissions: Decision = Decision.ASK,
    sandbox: Wanted = Wanted.AUTO,
) -> None:
    """Make an agent `hostile` known. It does `on_go` when it is told to go, and else just answers."""
    body = BODY.replace("AT_START", at_start).replace("OPENED", opened)
    for place, code in (("BEFORE_NEW", before_new), ("AFTER_NEW", after_new), ("ON_GO", on_go)):
        body = body.replace(place, indent(code, " " * 8))
    command, *args = script(world.directory, body)
    world.agents["hostile"] = AgentEntry(
        command=command, args=tuple(args), permissions=permissions, sandbox=sandbox
    )


@asynccontextmanager
async def facing(
    world: World, on_go: str = "done()", *, limits: Limits | None = None, **more: Any
) -> AsyncIterator[tuple[Supervisor, Session]]:
    """A supervisor with a session of such an agent."""
    hostile(world, on_go, **more)
    async with world.supervisor(limits=limits) as supervisor:
        yield supervisor, await world.open(supervisor, "hostile")
