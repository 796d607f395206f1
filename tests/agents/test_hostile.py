"""A hostile agent: whatever it says, asks for or leaves undone, our session stays true and ends in time."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from holdfast import JsonContent, Session, SessionStatus, Store, ToolContent, Turn, TurnStatus
from holdfast.agents.asking import MAX_OPEN
from holdfast.agents.live import Limits
from holdfast.agents.permissions import Decision
from holdfast.agents.process import mark_of, strays
from holdfast.agents.sandbox import Wanted
from holdfast.agents.supervisor import StartFailed, Supervisor
from holdfast.agents.terminals import LIMIT
from holdfast.agents.wire import INVALID_PARAMS, MAX_LINE, REQUEST_CANCELLED
from holdfast.model.question import QuestionStatus
from tests.agents.hostile import facing, hostile
from tests.agents.worlds import World
from tests.waiting import until

IMPATIENT = Limits(cancel=0.2)


@pytest.fixture(autouse=True)
def no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that an agent does is a fault of ours."""
    yield
    faults = [each for each in caplog.get_records("call") if each.exc_info or each.name == "asyncio"]
    assert [fault.getMessage() for fault in faults] == []


async def goes_on(world: World, supervisor: Supervisor, session: Session) -> None:
    """Whatever happened before, the next prompt is answered."""
    turn = await world.ask(supervisor, session, "and now?")
    assert (turn.status, turn.agent_answer_summary) == (TurnStatus.COMPLETED, "I go on.")
    assert await world.status(session) == ("active", None)
    assert await world.store.problems() == []


async def said(world: World, session: Session) -> str:
    """All that the agent said, in one."""
    return "".join(text for role, text in await world.texts(session) if role == "agent")


async def lost(world: World, supervisor: Supervisor, session: Session, turn: Turn) -> tuple[Turn, str | None]:
    """The turn of an agent that is lost, and the reason its session gives."""
    ended = await world.ended(session, turn)

    async def nobody_runs() -> bool:
        return not supervisor.agents

    await until(nobody_runs)
    status, reason = await world.status(session)
    assert status == "error"
    assert await world.store.processes(session.id) == []
    return ended, reason


# What it says

ODD = [
    b"this is no JSON",
    b'{"jsonrpc": "2.0", "method": ',
    b"[1]",
    b"42",
    b"null",
    b'"text"',
    b"{}",
    b"\xff\xfe\x80",
    b"\x00\x00",
    b'{"method": "a\x00b"}',
    b"[" * 100_000,
    b'{"method": "session/update", "params": ' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"id": 1, "id": 2, "id": 99}',
    b'{"method": 7}',
    b'{"method": null, "id": {}}',
    b'{"method": "session/update"}',
    b'{"method": "session/update", "params": null}',
    b'{"method": "session/update", "params": [1]}',
    b'{"method": "session/update", "params": {"update": 1, "update": "two"}, "params": {}}',
    b'{"method": "$/cancel_request"}',
    b'{"method": "$/cancel_request", "params": 5}',
    b'{"id": 99, "result": {}}',
    b'{"id": 1, "result": {"protocolVersion": 1}}',
    b'{"id": -1, "result": {}}',
    b'{"id": 1.5, "result": {}}',
    b'{"id": 1e999, "result": {}}',
    b'{"id": "1", "result": {}}',
    b'{"id": null, "result": {}}',
    b'{"id": [3], "result": {}}',
    b'{"id": ' + b"9" * 5000 + b', "result": {}}',
    b'{"id": null, "error": {"code": 1, "message": "x"}}',
    b'{"id": 99, "error": "in no shape"}',
]


@pytest.mark.req("ACP-17")
async def test_no_line_is_so_odd_that_the_next_one_is_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    go = f"for number, odd in enumerate({ODD!r}):\n    raw(odd)\n    say(f'{{number}} ')\ndone()"
    async with facing(world, go) as (supervisor, session):
        turn = await world.ask(supervisor, session, "go")
        assert turn.status is TurnStatus.COMPLETED
        assert await said(world, session) == "".join(f"{number} " for number in range(len(ODD)))
        warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert len(warnings) == len(ODD)
        assert any(text.endswith(": this is no JSON") for text in warnings)
        await goes_on(world, supervisor, session)


UPDATES: dict[str, dict[str, Any]] = {
    "agent_message_chunk": {"content": {"type": "text", "text": "x"}, "messageId": "m", "_meta": {}},
    "agent_thought_chunk": {"content": {"type": "text", "text": "x"}},
    "user_message_chunk": {"content": {"type": "image", "data": "x", "mimeType": "image/png"}},
    "tool_call": {
        "toolCallId": "a", "title": "t", "kind": "edit", "status": "pending", "content": [], "locations": [],
        "rawInput": {}, "rawOutput": {}, "_meta": {},
    },
    "tool_call_update": {"toolCallId": "b", "status": "completed", "content": []},
    "plan": {"entries": []},
    "available_commands_update": {"availableCommands": []},
    "current_mode_update": {"currentModeId": "m"},
    "config_option_update": {"configOptions": []},
    "session_info_update": {"title": "t"},
    "usage_update": {"used": 1, "size": 2, "cost": None},
    "of_another_world": {"thing": 1},
}  # fmt: skip

WRONG: list[Any] = [
    None,
    True,
    -1,
    10**30,
    1.5e300,
    "",
    "\0",
    "x" * 70_000,
    [],
    [[[]]],
    {},
    {"": {"type": 1}},
]


async def test_every_field_of_every_update_may_be_anything(world: World) -> None:
    go = f"""
for kind, fields in {UPDATES!r}.items():
    for field in fields:
        for wrong in {WRONG!r}:
            update(kind, **(fields | {{field: wrong}}))
    for wrong in {WRONG!r}:
        update(wrong, **fields)
say("the end")
done()"""
    async with facing(world, go) as (supervisor, session):
        turn = await world.ask(supervisor, session, "go")
        assert (turn.status, turn.agent_answer_summary) == (TurnStatus.COMPLETED, "the end")
        await goes_on(world, supervisor, session)


async def test_an_update_in_no_known_shape_is_stored_as_it_came(world: World) -> None:
    go = "update('tool_call', toolCallId='a', content=5); update('weather', sun=True); done()"
    async with facing(world, go) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        kept = [m.content for m in await world.messages(session) if isinstance(m.content, JsonContent)]
        assert [each.value for each in kept] == [
            {"sessionUpdate": "tool_call", "toolCallId": "a", "content": 5},
            {"sessionUpdate": "weather", "sun": True},
        ]


async def test_text_that_is_cut_in_the_middle_of_a_character_is_kept(world: World) -> None:
    """Programs in JavaScript cut a text between the halves of a surrogate pair; others between two bytes."""
    go = r"""
chunk = b'{"method": "session/update", "params": {"update": {"sessionUpdate": "agent_message_chunk", '
for text in (b'a\\ud83d', b'\\ude00b', b'c\xc3', b'\xa9d', b'\\ud83d\\ude00', b'\\\\ud83d'):
    raw(chunk + b'"content": {"type": "text", "text": "' + text + b'"}}}}')
done()"""
    async with facing(world, go) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        assert await said(world, session) == "a��bc��d😀\\ud83d"
        await goes_on(world, supervisor, session)


async def test_text_with_a_nul_character_is_kept_and_its_turn_ends(world: World) -> None:
    async with facing(world, r"say('a\0b'); answer({'stopReason': 'end\0turn'})") as (supervisor, session):
        turn = await world.ask(supervisor, session, "go")
        assert (turn.status, turn.agent_answer_summary) == (TurnStatus.COMPLETED, "a�b")
        assert turn.stop_reason == "end�turn"
        assert await said(world, session) == "a\0b"
        await goes_on(world, supervisor, session)


async def test_a_megabyte_on_standard_error_comes_before_the_answer(world: World) -> None:
    noise = "sys.stderr.write('x' * 1_000_000); sys.stderr.flush()"
    async with facing(world, at_start=noise) as (supervisor, session):
        await goes_on(world, supervisor, session)


async def test_a_line_of_twenty_megabytes_is_stored_and_one_beyond_the_cap_is_not(world: World) -> None:
    go = f"say('x' * 20_000_000); say('y' * {MAX_LINE}); say('z'); done()"
    async with facing(world, go) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        text = await said(world, session)
        assert (len(text), text[0], text[-1], "y" in text) == (20_000_001, "x", "z", False)
        await goes_on(world, supervisor, session)


async def test_memory_stays_flat_while_many_tiny_updates_pass(world: World) -> None:
    chunk = (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}'
    )
    go = f"for _ in range(200): raw(*[{chunk!r}] * 1000)\ndone()"
    async with facing(world, go) as (supervisor, session):
        await goes_on(world, supervisor, session)
        process = psutil.Process()
        before = process.memory_info().rss
        turn = await world.ask(supervisor, session, "go")
        assert turn.status is TurnStatus.COMPLETED
        assert process.memory_info().rss - before < 64 * 1024 * 1024
        assert len(await said(world, session)) == 200_000 + len("I go on.")


async def test_what_is_said_before_the_session_is_open_and_after_the_answer_is_kept(world: World) -> None:
    async with facing(world, "done()\nsay('late')", before_new="say('early')") as (supervisor, session):
        assert await said(world, session) == "early"
        await world.ask(supervisor, session, "go")

        async def heard_to_the_end() -> bool:
            is_open = any(message.open for message in await world.messages(session))
            return not is_open and await said(world, session) == "earlylate"

        await until(heard_to_the_end)
        await goes_on(world, supervisor, session)


# What it answers


UNUSABLE = [
    "None",
    "[]",
    "'x'",
    "{}",
    "{'sessionId': 5}",
    "{'sessionId': ''}",
    "{'sessionId': 'x' * 100_000}",
    r"{'sessionId': '\0'}",
    "{'sessionId': 's', 'modes': 1}",
]


@pytest.mark.parametrize("opened", UNUSABLE)
async def test_an_agent_that_opens_no_usable_session_is_not_started(world: World, opened: str) -> None:
    hostile(world, opened=opened)
    async with world.supervisor() as supervisor:
        with pytest.raises(StartFailed, match="did not start"):
            await world.open(supervisor, "hostile")
    assert (await world.store.list()).total == 0


NONSENSE = [
    '"result": null',
    '"result": [1]',
    '"result": 5',
    '"result": {"stopReason": 5}',
    '"error": "in no shape"',
    '"error": {"code": "x"}',
    '"error": {"code": 1, "message": "no"}, "result": {}',
    '"jsonrpc": "1.0"',
]


async def test_a_prompt_that_is_answered_with_nonsense_fails_and_the_next_does_not(world: World) -> None:
    go = "send('{\"id\": ' + str(line['id']) + ', ' + next(nonsense) + '}')"
    async with facing(world, go, at_start=f"nonsense = iter({NONSENSE!r})") as (supervisor, session):
        for _ in NONSENSE:
            turn = await world.ask(supervisor, session, "go")
            assert (turn.status, turn.stop_reason, len(turn.errors)) == (TurnStatus.FAILED, "error", 1)
            await goes_on(world, supervisor, session)


IMPOSSIBLE = [5, "many", {"inputTokens": -5, "outputTokens": 10**30}, {"inputTokens": 1.5}]


async def test_an_unknown_stop_reason_is_kept_and_impossible_usage_is_none(world: World) -> None:
    go = "answer({'stopReason': 'because', 'usage': next(impossible), '_meta': 7})"
    async with facing(world, go, at_start=f"impossible = iter({IMPOSSIBLE!r})") as (supervisor, session):
        for _ in IMPOSSIBLE:
            turn = await world.ask(supervisor, session, "go")
            assert (turn.status, turn.stop_reason) == (TurnStatus.COMPLETED, "because")
            assert (turn.usage.input, turn.usage.output) == (0, 0)


async def test_answers_that_come_twice_or_too_early_end_no_other_turn(world: World) -> None:
    early = "send({'id': line['id'] + ahead, 'result': {'stopReason': 'end_turn'}})"
    go = f"for ahead in range(3): {early}\ndone()"
    async with facing(world, go) as (supervisor, session):
        assert (await world.ask(supervisor, session, "go")).status is TurnStatus.COMPLETED
        await goes_on(world, supervisor, session)
        await goes_on(world, supervisor, session)


# What it asks for


async def test_nothing_outside_the_repository_is_touched_and_every_try_is_audited(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret")
    outside = str(tmp_path / "secret")
    go = f"""
os.symlink({str(tmp_path)!r}, "link")
request(0, "fs/read_text_file", path={outside!r})
request("one", "fs/read_text_file", path="link/secret")
request(2.5, "fs/write_text_file", path="../../secret", content="mine")
request(None, "terminal/create", command="touch", args=["here"], cwd={str(tmp_path)!r})
request(-4, "fs/write_text_file", path="big", content="x" * 17_000_000)
answers = [next(told) for _ in range(5)]
say(json.dumps([[each["id"], each["error"]["code"]] for each in answers]))
done()"""
    async with facing(world, go) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        refused = msgspec.json.decode(await said(world, session))
        assert sorted(refused, key=str) == [[code, INVALID_PARAMS] for code in ("one", -4, 0, 2.5, None)]
        await goes_on(world, supervisor, session)
    assert (tmp_path / "secret").read_text() == "s3cret"
    assert not (tmp_path / "here").exists()
    assert not (world.repository / "big").exists()
    audit = await world.store.list_audit()
    assert sorted((entry.action, entry.outcome, entry.detail["method"]) for entry in audit) == [
        ("agent.path", "denied", "fs/read_text_file"),
        ("agent.path", "denied", "fs/read_text_file"),
        ("agent.path", "denied", "fs/write_text_file"),
        ("agent.path", "denied", "terminal/create"),
    ]


async def test_a_flood_of_permission_requests_asks_people_only_so_many(world: World) -> None:
    go = """
for number in range(300): permission(number, "call")
outcomes = []
while len(outcomes) < 300:
    heard = next(told)
    if "result" in heard: outcomes.append(heard["result"]["outcome"])
say(str(sum(each.get("optionId") == "no" for each in outcomes)) + " refused")
answer({"stopReason": "cancelled"})"""
    async with facing(world, go) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")

        async def all_others_are_refused() -> bool:
            return await audited(world.store, "denied") == 300 - MAX_OPEN

        await until(all_others_are_refused)
        assert len(await world.box.list({QuestionStatus.PENDING})) == MAX_OPEN
        await supervisor.cancel_turn(world.store, session.id)
        await world.ended(session, turn)
        assert await said(world, session) == f"{300 - MAX_OPEN} refused"
        reasons = [text for role, text in await world.texts(session) if role == "system"]
        assert [text for text in reasons if "without anybody being asked: 32 requests" in text] == reasons[:1]
        assert await world.box.list({QuestionStatus.PENDING}) == ()
        await goes_on(world, supervisor, session)


async def test_a_flood_of_terminals_starts_only_so_many(world: World) -> None:
    go = """
for number in range(200): request(number, "terminal/create", command="sleep", args=["600"])
answers = [next(told) for _ in range(200)]
say(str(sum("result" in each for each in answers)))
done()"""
    async with facing(world, go, permissions=Decision.ALLOW) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        assert await said(world, session) == str(LIMIT)
        assert len(await world.store.processes(session.id)) == LIMIT + 1
        await goes_on(world, supervisor, session)
    assert await world.store.processes(session.id) == []


async def test_requests_under_one_id_are_each_answered(world: World) -> None:
    go = """
for name in ("a", "b"): permission(7, name)
request(7, "no/such/method")
answers = [each for each in (next(told) for _ in range(4)) if "id" in each]
say(json.dumps(sorted("result" in each for each in answers)))
answer({"stopReason": "cancelled"})"""
    async with facing(world, go) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")

        async def both_are_asked() -> bool:
            return len(await world.box.list({QuestionStatus.PENDING})) == 2

        await until(both_are_asked)
        await supervisor.cancel_turn(world.store, session.id)
        await world.ended(session, turn)
        assert await said(world, session) == "[false, true, true]"
        await goes_on(world, supervisor, session)


async def test_a_request_that_is_withdrawn_at_once_is_answered_so(world: World) -> None:
    go = """
permission("p")
send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}})
say(str(next(told)["error"]["code"]))
done()"""
    async with facing(world, go) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        assert await said(world, session) == str(REQUEST_CANCELLED)
        assert await world.box.list({QuestionStatus.PENDING}) == ()
        await goes_on(world, supervisor, session)


async def test_a_crash_while_a_person_is_asked_withdraws_the_question(world: World) -> None:
    async with facing(world, "permission(0); next(told)") as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")
        (asked,) = await until(lambda: world.box.list({QuestionStatus.PENDING}))
        psutil.Process(supervisor.agents[session.id].process.pid).kill()
        ended, reason = await lost(world, supervisor, session, turn)
        assert (ended.status, reason) == (TurnStatus.FAILED, "agent_crashed")
        assert (await world.box.get(asked.id)).status is QuestionStatus.REJECTED
        (tool,) = [m.content for m in await world.messages(session) if isinstance(m.content, ToolContent)]
        assert not tool.open


# What it does to its pipes and processes


@pytest.mark.req("ACP-19")
@pytest.mark.parametrize("pipe", [0, 1])
async def test_an_agent_that_closes_a_pipe_and_stays_is_ended(world: World, pipe: int) -> None:
    go = f"say('bye'); signal.signal(signal.SIGTERM, signal.SIG_IGN); os.close({pipe}); time.sleep(600)"
    async with facing(world, go) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")
        if pipe == 0:
            await until(lambda: heard(world, session, "bye"))
            await supervisor.cancel_turn(world.store, session.id)
        ended, reason = await lost(world, supervisor, session, turn)
        assert (ended.status, reason) == (TurnStatus.FAILED, "pipe_broken")
        assert await said(world, session) == "bye"


async def test_a_crash_report_is_stored_whatever_the_agent_wrote_last(world: World) -> None:
    go = r"sys.stderr.buffer.write(b'a\0b\xff\n'); raw(b'\xff\0\0'); os._exit(3)"
    async with facing(world, go) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")
        ended, reason = await lost(world, supervisor, session, turn)
        assert (ended.status, reason) == (TurnStatus.FAILED, "agent_crashed")
        report = (await world.messages(session))[-1]
        assert (report.metadata["exitCode"], report.metadata["stderr"]) == (3, "a\0b�")


async def test_an_agent_that_never_reads_a_large_prompt_is_warned_of_and_ended(world: World) -> None:
    patience = Limits(cancel=0.2, silence=0.2)
    async with facing(world, limits=patience, after_new="time.sleep(600)") as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "x" * 10_000_000)
        await until(lambda: heard(world, session, "has not answered"))
        await supervisor.cancel_turn(world.store, session.id)
        assert await world.status(session) == ("active", None)
        assert (await supervisor.cancel(world.store, session.id)).status is SessionStatus.CANCELLED
        assert (await world.store.get_turn(session.id, turn.id)).status is TurnStatus.FAILED


async def test_an_agent_that_asks_much_and_reads_nothing_is_ended(world: World) -> None:
    go = """
open("big", "w").write("x" * 1_000_000)
for number in range(1000): request(number, "fs/read_text_file", path="big")
open("asked", "w")
time.sleep(600)"""
    async with facing(world, go, limits=IMPATIENT) as (supervisor, session):
        await supervisor.prompt(world.store, session.id, "go")
        await until(lambda: exists(world.repository / "asked"))
        assert (await supervisor.cancel(world.store, session.id)).status is SessionStatus.CANCELLED


@pytest.mark.req("ACP-13")
async def test_a_shutdown_ends_agents_that_neither_read_nor_heed_a_signal(world: World) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    async with facing(world, limits=IMPATIENT, after_new=deaf) as (supervisor, session):
        sessions = [session, *[await world.open(supervisor, "hostile") for _ in range(2)]]
        for each in sessions:
            await supervisor.prompt(world.store, each.id, "x" * 1_000_000)
    assert [await world.status(each) for each in sessions] == [("cancelled", "shutdown")] * 3
    assert [await world.store.processes(each.id) for each in sessions] == [[]] * 3


DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"

LEAVES = {
    "nothing": f"{DEAF}; tell(); time.sleep(600)",
    "its group": f"os.setsid(); {DEAF}; tell(); time.sleep(600)",
    "its group and its parent": "os.setsid(); os.fork() and os._exit(0); tell(); time.sleep(600)",
}


@pytest.mark.parametrize("what", LEAVES)
@pytest.mark.parametrize("way", ["cancelled", "crashed"])
@pytest.mark.parametrize("sandbox", [Wanted.AUTO, Wanted.OFF])
async def test_a_child_that_leaves_is_ended_with_the_session(
    world: World, what: str, way: str, sandbox: Wanted
) -> None:
    """The child holds the agent's pipes, too."""
    go = f"start({LEAVES[what]!r})\nwhile not os.path.exists('child'): time.sleep(0.01)\n"
    go += "os._exit(5)" if way == "crashed" else "done()"
    async with facing(world, go, limits=IMPATIENT, sandbox=sandbox) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "go")
        if way == "cancelled":
            await world.ended(session, turn)
            assert strays(mark_of(session.id, world.store.incarnation))
            await supervisor.cancel(world.store, session.id)
        else:
            await lost(world, supervisor, session, turn)
        assert not strays(mark_of(session.id, world.store.incarnation))


@pytest.mark.parametrize("sandbox", [Wanted.AUTO, Wanted.OFF])
async def test_a_command_that_leaves_its_terminal_is_ended_with_the_session(
    world: World, sandbox: Wanted
) -> None:
    go = """
request(1, "terminal/create", command="setsid sh -c 'echo $$ > new; mv new child; exec sleep 600' & wait")
next(told)
while not os.path.exists("child"): time.sleep(0.01)
done()"""
    async with facing(world, go, permissions=Decision.ALLOW, sandbox=sandbox) as (supervisor, session):
        await world.ask(supervisor, session, "go")
        await supervisor.complete(world.store, session.id)
        assert not strays(mark_of(session.id, world.store.incarnation))


async def heard(world: World, session: Session, words: str) -> bool:
    return any(words in text for _, text in await world.texts(session))


async def exists(path: Path) -> bool:
    return path.exists()


async def audited(store: Store, outcome: str) -> int:
    return sum(entry.outcome == outcome for entry in await store.list_audit(limit=1000))
