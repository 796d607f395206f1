"""Bindings in the store and in the settings, and `holdfast bindings` as a person runs it."""

import asyncio
import json

import pytest

from holdfast import Message, Principal, Store
from holdfast.errors import AccessDenied, InvalidInput, NotFound
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import Bindings
from holdfast.routing.gateway import Gateway
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.stored import add_binding, following_bindings, read_bindings, remove_binding
from tests.cli.command import Cli
from tests.routing.gateways import events, remembers, text_of
from tests.routing.messages import said
from tests.settings import configure

HELP = Binding(agent="helper", channel="irc", peer="group:#help")
SETTINGS = """
[routing]
default_agent = "main"

[[routing.bindings]]
agent = "ops"
channel = "irc"
peer = "group:#ops-*"
"""


@pytest.mark.req("STO-10")
async def test_kept_bindings_decide_until_they_are_removed(store: Store) -> None:
    policy = RoutingPolicy(default_agent="main")
    message = said("group:#help", channel="irc")
    record = await add_binding(store, HELP)
    assert (await read_bindings(store, policy)).decide(message).agent == "helper"
    assert (await remove_binding(store, record.number)).rule == HELP.rule()
    assert (await read_bindings(store, policy)).decide(message).agent == "main"
    with pytest.raises(NotFound):
        await remove_binding(store, record.number)
    assert [entry.action for entry in await store.list_audit()] == ["binding.remove", "binding.add"]


@pytest.mark.req("STO-21")
async def test_a_changed_binding_leaves_sessions_with_their_agent(store: Store) -> None:
    policy = RoutingPolicy(default_agent="main")
    message = said("group:#help", channel="irc")
    before = (await read_bindings(store, policy)).decide(message).key
    await store.get_or_create(before)
    await store.append_messages(before, [Message.user("asked of main")])
    stored = await store.get_session(before)
    await add_binding(store, HELP)
    after = (await read_bindings(store, policy)).decide(message).key
    assert (before.agent_id, after.agent_id) == ("main", "helper")
    assert await store.get_session(before) == stored
    assert [each.text for each in await store.as_agent("main").get_history(before)] == ["asked of main"]
    assert (await store.get_or_create(after)).id != stored.id


async def test_only_admins_change_bindings(store: Store) -> None:
    member = store.as_principal(Principal("local", "ada"))
    with pytest.raises(AccessDenied, match="Only an admin may add a binding; ada is none"):
        await add_binding(member, HELP)
    with pytest.raises(AccessDenied, match="agent 'helper' is none"):
        await remove_binding(store.as_agent("helper"), 1)
    assert await store.list_bindings() == []


async def test_a_kept_binding_that_makes_no_sense_is_named(store: Store) -> None:
    record = await store.add_binding({"agent": "a", "chanel": "irc"})
    with pytest.raises(InvalidInput, match=f"Binding {record.number} in the store is wrong"):
        await read_bindings(store)


@pytest.mark.req("STO-10")
async def test_a_running_bot_follows_the_kept_bindings(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    policy = RoutingPolicy(default_agent="main", agents=("main", "helper"))
    message = said("group:#help", channel="irc")
    first = await add_binding(store, HELP)
    bot = Gateway(store, Bindings((), policy), {"main": remembers, "helper": remembers})

    async def until(agent: str) -> None:
        while bot.bindings.decide(message).agent != agent:  # noqa: ASYNC110  # a condition, not an event
            await asyncio.sleep(0.01)

    async with following_bindings(bot, store, policy, seconds=0.01):
        assert text_of(await events(bot, message)) == "helper: 0 before this"
        await remove_binding(store, first.number)
        await until("main")
        wrong = await add_binding(store, Binding(agent="ghost", channel="irc"))
        while "'ghost', for which this bot has no runner" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert bot.bindings.decide(message).agent == "main"
        await remove_binding(store, wrong.number)
        await add_binding(store, HELP)
        await until("helper")
    assert caplog.text.count("bindings stay as they were") == 1


async def test_a_binding_for_an_agent_without_a_runner_is_logged_and_the_bot_goes_on(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    policy = RoutingPolicy(default_agent="main")
    bot = Gateway(store, Bindings((), policy), {"main": remembers})
    await add_binding(store, HELP)
    told = "Binding 1 names the agent 'helper', for which this bot has no runner; it has main."
    async with following_bindings(bot, store, policy, seconds=0.01):
        assert told in caplog.text
        assert text_of(await events(bot, said("group:#help", channel="irc"))) == "main: 0 before this"


@pytest.mark.req("STO-10")
def test_bindings_are_added_explained_listed_and_removed_by_hand(cli: Cli) -> None:
    configure(cli.home, SETTINGS)
    added = cli("bindings", "add", "helper", "--channel", "irc", "--peer", "group:#ops-h*")
    assert added.stdout == "Binding 1: irc peer=group:#ops-h* → helper\n", added.stderr
    asked = ("bindings", "explain", "--channel", "irc", "--peer", "group:#ops-help")
    assert cli(*asked).stdout.splitlines() == [
        "agent       ops",
        "session     ops:irc:default:group:#ops-help",
        "matched by  wildcard peer: irc peer=group:#ops-* → ops",
        "ambiguous   just as specific: irc peer=group:#ops-h* → helper",
        "not         irc peer=group:#ops-h* → helper: it is just as specific, and the chosen one stands "
        "before it",
    ]
    explained = json.loads(cli(*asked, "--json").stdout)
    assert explained["ambiguous"] == [{"agent": "helper", "channel": "irc", "peer": "group:#ops-h*"}]
    assert [row["number"] for row in json.loads(cli("bindings", "list", "--json").stdout)] == [None, 1]
    assert "settings  irc peer=group:#ops-* → ops" in cli("bindings", "list").stdout
    assert cli("bindings", "remove", "1").stdout == "Removed binding 1: irc peer=group:#ops-h* → helper\n"
    assert cli("bindings", "remove", "1").stderr.startswith("holdfast: There is no binding 1")


def test_a_binding_for_an_agent_that_is_not_known_is_refused_or_doubted(cli: Cli) -> None:
    add = ("bindings", "add", "--channel", "irc")
    configure(cli.home, '[routing]\ndefault_agent = "main"\n')
    for known in ("gemini", "default", "Main"):
        (named,) = cli(*add, known).stderr.splitlines()
        assert named.startswith("Store: ")
    doubted = cli(*add, "nosuch")
    assert (doubted.returncode, doubted.stdout) == (0, "Binding 4: irc → nosuch\n")
    assert doubted.stderr.partition("\n")[2].startswith(
        "No agent 'nosuch' is configured here: unless a bot brings it, nobody"
    )
    configure(cli.home, '[routing]\nagents = ["clerk", "librarian"]\n')
    refused = cli(*add, "nosuch")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "names the agent 'nosuch', which is not known; known are clerk, librarian." in refused.stderr
    assert "No agent" not in cli(*add, "Clerk").stderr
    assert len(json.loads(cli("bindings", "list", "--json").stdout)) == 5


def test_the_only_agent_that_may_be_named_is_the_default_in_commands_too(cli: Cli) -> None:
    configure(cli.home, '[routing]\nagents = ["clerk"]\n')
    explained = cli("bindings", "explain", "--channel", "irc", "--peer", "group:#a", "--json")
    assert json.loads(explained.stdout)["key"] == "clerk:irc:default:group:#a", explained.stderr


def test_a_message_for_nobody_says_what_to_do(cli: Cli) -> None:
    result = cli("bindings", "explain", "--channel", "irc", "--peer", "dm:ada")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "holdfast: No binding is for dm:ada on irc (account default), and no default agent is declared: "
        "add a binding, or set default_agent in [routing].\n"
    )


@pytest.mark.req("STO-10")
def test_when_nobody_answers_it_is_explained_why_no_binding_does(cli: Cli) -> None:
    configure(cli.home, '[[routing.bindings]]\nagent = "ops"\nchannel = "irc"\npeer = "group:#ops-*"\n')
    asked = ("bindings", "explain", "--channel", "irc", "--peer", "group:#help")
    reason = "it is for group:#ops-*, and this is group:#help"
    result = cli(*asked)
    assert (result.returncode, result.stdout) == (1, f"not         irc peer=group:#ops-* → ops: {reason}\n")
    assert result.stderr.startswith("holdfast: No binding is for group:#help on irc")
    result = cli(*asked, "--json")
    assert (result.returncode, json.loads(result.stdout)) == (
        1,
        {
            "agent": None,
            "rejected": [
                {
                    "binding": {"agent": "ops", "channel": "irc", "peer": "group:#ops-*"},
                    "reason": reason,
                    "matches": False,
                }
            ],
        },
    )
