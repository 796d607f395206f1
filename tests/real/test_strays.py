"""Commands that an agent runs end with it, though agents run them outside their own process group."""

import os
import signal

import psutil

from tests.real.agents import RealAgent
from tests.real.serving import Served
from tests.waiting import until


async def sleeping(served: Served, agent: RealAgent) -> psutil.Process:
    """A command that the agent was told to run, and was allowed to."""
    await served.prompt("TOOLSLEEP, please")
    if agent.name != "hermes":  # which asks for files only
        await served.allow(await served.question())

    async def is_running() -> bool:
        return agent.processes("sleep") != []

    await until(is_running)
    return agent.processes("sleep")[0]


async def test_a_command_ends_with_the_session(served: Served, agent: RealAgent) -> None:
    command = await sleeping(served, agent)
    assert os.getpgid(command.pid) != served.process_group
    await served.cancel()
    assert agent.processes("sleep") == []


async def test_a_command_ends_with_an_agent_that_was_killed(served: Served, agent: RealAgent) -> None:
    await sleeping(served, agent)
    os.killpg(served.process_group, signal.SIGKILL)
    await served.until_status("error")
    assert agent.processes("sleep") == []
