"""What a command writes is part of the tool call that shows its terminal, whatever the agent says of it."""

from typing import Any

from holdfast import Session, ToolContent
from holdfast.agents.permissions import Decision
from holdfast.agents.recorder import PRINTED_LENGTH
from tests.agents.hostile import facing
from tests.agents.worlds import World
from tests.waiting import until

SHOW = """
def show(number, script):
    request(number, "terminal/create", command="sh", args=["-c", script])
    terminal = next(told)["result"]["terminalId"]
    shown = [{"type": "terminal", "terminalId": terminal}]
    update("tool_call", toolCallId="call", title=script, kind="execute", status="in_progress", content=shown)
    return terminal

def ask(number, method, terminal):
    request(number, method, terminalId=terminal)
    return next(told)["result"]
"""


async def shown(world: World, session: Session) -> dict[str, Any]:
    """The terminal in the tool call of the session."""
    (call,) = [
        each.content for each in await world.messages(session) if isinstance(each.content, ToolContent)
    ]
    (part,) = call.content
    assert isinstance(part, dict)
    return part


async def test_the_output_is_kept_when_the_agent_says_only_that_the_command_ended(world: World) -> None:
    go = """
terminal = show(1, "echo one; echo two; exit 3")
ask(2, "terminal/wait_for_exit", terminal)
update("tool_call_update", toolCallId="call", status="failed")
ask(3, "terminal/release", terminal)
done()"""
    async with facing(world, go, at_start=SHOW, permissions=Decision.ALLOW) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        part = await shown(world, session)
    assert part["output"] == "one\ntwo\n"
    assert part["exitStatus"] == {"exitCode": 3, "signal": None}


async def test_the_output_is_seen_while_the_command_runs(world: World) -> None:
    go = """
terminal = show(1, "echo begun; while [ ! -e end ]; do sleep 0.01; done; echo over")
ask(2, "terminal/wait_for_exit", terminal)
update("tool_call_update", toolCallId="call", status="completed")
done()"""
    async with facing(world, go, at_start=SHOW, permissions=Decision.ALLOW) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")

        async def is_begun() -> bool:
            calls = [each for each in await world.messages(session) if isinstance(each.content, ToolContent)]
            return bool(calls) and (await shown(world, session)).get("output") == "begun\n"

        await until(is_begun)
        (world.repository / "end").touch()
        await world.ended(session, turn)
        assert (await shown(world, session))["output"] == "begun\nover\n"


async def test_a_command_that_is_released_leaves_the_end_of_its_output(world: World) -> None:
    go = f"""
terminal = show(1, "head -c {PRINTED_LENGTH} /dev/zero | tr '\\\\0' x; echo end; touch written; sleep 600")
while not os.path.exists("written"): time.sleep(0.01)
ask(2, "terminal/release", terminal)
update("tool_call_update", toolCallId="call", status="completed")
done()"""
    async with facing(world, go, at_start=SHOW, permissions=Decision.ALLOW) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        part = await shown(world, session)
    assert part["output"].endswith("xend\n")
    assert len(part["output"]) == PRINTED_LENGTH
    assert part["truncated"] is True
