"""An ACP agent answers a chat: a real child process, through the supervisor and the gateway."""

import asyncio

import pytest

from holdfast import Store, TurnStatus
from holdfast.agents.chat import AgentRunner
from holdfast.agents.supervisor import Supervisor
from holdfast.model.status import SessionStatus
from holdfast.routing.bindings import Bindings
from holdfast.routing.events import MessageEnded, Outgoing, TextAdded, TurnEnded
from holdfast.routing.gateway import Busy, Gateway
from holdfast.routing.incoming import Incoming, Peer
from tests.agents.worlds import World


def message(text: str) -> Incoming:
    return Incoming(channel="irc", peer=Peer.parse("group:#dev"), sender="ada", text=text)


async def door(store: Store, world: World, supervisor: Supervisor, busy: Busy = Busy.WAIT) -> Gateway:
    repo = await world.repo()
    assert repo.id is not None
    runner = AgentRunner(supervisor, repo.id)
    return Gateway(store, Bindings(agents=["demo"]), {"demo": runner}, busy=busy)


async def told(gateway: Gateway, text: str) -> list[Outgoing]:
    return [event async for event in gateway.receive(message(text))]


def said(events: list[Outgoing]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextAdded)).rstrip()


@pytest.mark.req("STO-19")
async def test_an_agent_answers_a_chat_and_is_started_again_when_it_is_gone(
    store: Store, world: World
) -> None:
    async with world.supervisor() as supervisor:
        gateway = await door(store, world, supervisor)
        first = await told(gateway, "say hello there")
        assert said(first) == "hello there"
        assert any(isinstance(event, MessageEnded) for event in first)
        last = first[-1]
        assert isinstance(last, TurnEnded)
        assert last.turn.status is TurnStatus.COMPLETED
        assert said(await told(gateway, "say again")) == "again"
        (session,) = await store.list()
        assert str(session.key) == "demo:irc:default:group:#dev"
        await supervisor.complete(store, session.id)
        assert said(await told(gateway, "say and again")) == "and again"
        assert (await store.get_session(session.id)).status is SessionStatus.ACTIVE
        assert (await store.list()).total == 1


async def test_a_later_message_interrupts_an_agent(store: Store, world: World) -> None:
    async with world.supervisor() as supervisor:
        gateway = await door(store, world, supervisor, Busy.INTERRUPT)
        waiting = asyncio.create_task(told(gateway, "say one\nwait"))
        while not (await store.list()).total or not await store.pending_turns():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert said(await told(gateway, "say two")) == "two"
        interrupted = (await waiting)[-1]
        assert isinstance(interrupted, TurnEnded)
        assert interrupted.turn.stop_reason == "cancelled"
