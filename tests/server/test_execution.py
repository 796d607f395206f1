"""Instructions over HTTP: one route, three ways to hear the answer, and what can be read afterwards."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import NewCompaction, open_store
from holdfast.client import Client
from holdfast.execution.answer import AnswerKind, ExecuteResponse
from holdfast.execution.demo import DemoModel
from holdfast.execution.events import StageReached, TextAdded
from holdfast.execution.input import ActiveFile
from tests.server.servers import Organization, Person, Served, events_of, owner_of, problem
from tests.settings import configure
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.xdist_group("executing")  # one server for all of them

EXECUTE = "/api/ai/agent/execute"
SETTINGS = """
[providers.default]
chains = true

[contexts.reviewer]
model = "strict"

[conversations.holdfast]
instructions = "It is about durable sessions."
"""


@pytest.fixture(scope="module")
def model() -> Iterator[DemoModel]:
    with DemoModel() as serving:
        yield serving


@pytest.fixture(scope="module")
def executing(tmp_path_factory: pytest.TempPathFactory, model: DemoModel, process: None) -> Iterator[Served]:
    """A server that has a model."""
    home = tmp_path_factory.mktemp("executing")
    configure(home, SETTINGS)
    served = Served(home, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none", HOLDFAST_MODEL="demo")
    notes = served.repository() / "notes.md"
    notes.write_text("A file of the repository.\n")
    served.start()
    yield served
    assert served.stop() == 0
    assert "Traceback" not in served.complaints()


@pytest.fixture
def owner(executing: Served) -> Person:
    return owner_of(executing)


async def execute(person: Person, instruction: str, **fields: Any) -> dict[str, Any]:
    response = await person.post(EXECUTE, {"instruction": instruction, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.req("EXE-01", "EXE-25", "EXE-26")
async def test_one_route_answers_every_kind_of_client(owner: Person, model: DemoModel) -> None:
    files = [{"path": "a.py", "content": "a = 1\n", "isTouched": True}]
    answers = [
        await execute(owner, "Look", clientType=client, activeFiles=files)
        for client in ("browser", "cli", "thick")
    ]
    for answer in answers:
        assert set(answer) == {"kind", "text", "sources", "warnings", "sessionId", "turnId", "usage"}
        assert (answer["kind"], answer["text"]) == ("answer", "It is in one of these:\n\n- a.py\n")
    assert model.requests[-1] == model.requests[-2] == model.requests[-3]


@pytest.mark.req("EXE-21", "EXE-23")
async def test_a_turn_can_be_read_in_full_and_in_brief(owner: Person) -> None:
    instruction = "Explain it. " + "x" * 3000
    answer = await execute(owner, instruction)
    turns = f"/api/sessions/{answer['sessionId']}/turns"
    turn = (await owner.get(f"{turns}/{answer['turnId']}")).json()
    assert len(turn["instructionSummary"]) == 1024
    assert (await owner.get(turn["fullInstructionUrl"])).text == instruction
    assert (await owner.get(turn["fullAgentAnswerUrl"])).text == answer["text"]
    sent = (await owner.get(turn["openAIRequestPayloadUrl"])).json()
    assert sent["input"][-1]["content"][0]["text"].endswith(instruction)
    assert (await owner.get(turn["openAIResponsePayloadUrl"])).json()["id"] == turn["openAIResponseId"]
    brief = (await owner.get(f"{turns}/{answer['turnId']}/summary")).json()
    assert brief["agentAnswerSummary"] == answer["text"]
    assert (await owner.get(f"{turns}/last")).json() == turn
    whole = (await owner.get(f"/api/sessions/{answer['sessionId']}")).json()
    assert [message["role"] for message in whole["messages"]] == ["user", "agent"]


async def test_a_replay_says_that_the_request_is_identical(owner: Person) -> None:
    answer = await execute(owner, "Look", activeFiles=[{"path": "a.py", "content": "a = 1\n"}])
    made = (await owner.get(f"/api/sessions/{answer['sessionId']}/turns/{answer['turnId']}/replay")).json()
    assert made["identical"] is True
    assert made["sentHash"] == made["remadeHash"]


@pytest.mark.req("EXE-27")
async def test_a_rerun_reads_the_files_of_the_repository_again(executing: Served, owner: Person) -> None:
    asked = {"clientType": "thick", "repo": "project", "activeFiles": [{"path": "notes.md"}]}
    first = await execute(owner, "Look", **asked)
    assert first["text"] == "It is in one of these:\n\n- notes.md\n"
    path = f"/api/sessions/{first['sessionId']}/turns/{first['turnId']}"
    before = (await owner.get(path)).json()
    (executing.workspace / "project" / "notes.md").write_text("It has changed.\n")
    again = (await owner.post(f"{path}/rerun")).json()
    assert again["turnId"] != first["turnId"]
    rerun = (await owner.get(f"/api/sessions/{first['sessionId']}/turns/{again['turnId']}")).json()
    assert rerun["sequenceNumber"] == 2
    assert rerun["activeFileRefs"][0]["contentHash"] != before["activeFileRefs"][0]["contentHash"]
    assert (await owner.get(path)).json() == before


async def test_a_rerun_takes_another_instruction_and_other_files(executing: Served, owner: Person) -> None:
    first = await execute(owner, "Look", activeFiles=[{"path": "a.py", "content": "a = 1\n"}])
    async with Client(executing.url, owner.secret) as client:
        files = [ActiveFile(path="b.py", content="b = 1\n")]
        again = await client.rerun_turn(
            first["sessionId"], first["turnId"], instruction="Look there", active_files=files
        )
        turn = await client.turn(first["sessionId"], again.turn_id)
    assert again.text == "It is in one of these:\n\n- b.py\n"
    assert turn.instruction_summary == "Look there"


async def test_no_file_outside_the_repository_is_read(owner: Person) -> None:
    done = await execute(owner, "Look")
    rerun = f"/api/sessions/{done['sessionId']}/turns/{done['turnId']}/rerun"
    for route in (EXECUTE, rerun):
        for path, code in (("/etc/passwd", "invalid_input"), ("../../stderr", "path_traversal")):
            refused = problem(
                await owner.post(route, {"instruction": "Look", "activeFiles": [{"path": path}]})
            )
            assert refused["code"] == code
            assert len(refused["detail"]) < 200
        denied = (await owner.get("/api/audit?limit=1")).json()["entries"][0]
        assert (denied["subject"], denied["detail"]["code"]) == (route, "path_traversal")


async def test_a_link_out_of_the_repository_is_not_followed(executing: Served, owner: Person) -> None:
    (executing.workspace / "project" / "link").symlink_to(executing.home / "stderr")
    answer = await execute(
        owner, "Look", clientType="thick", repo="project", activeFiles=[{"path": "link"}, {"path": "gone"}]
    )
    assert [warning.partition(" was not sent")[0] for warning in answer["warnings"][:2]] == ["link", "gone"]
    assert answer["text"].startswith("I was given no file")


async def test_the_answer_can_be_heard_as_events(owner: Person) -> None:
    response = await owner.post(EXECUTE, {"instruction": "Look"}, headers={"Accept": "text/event-stream"})
    events = events_of(response.text)
    assert next(data["stage"] for name, _, data in events if name == "stage") == "sessionStarted"
    text = "".join(data["text"] for name, _, data in events if name == "delta")
    name, _, answer = events[-1]
    assert (name, answer["text"]) == ("answer", text)
    again = await owner.get(f"/api/sessions/{answer['sessionId']}/turns/last")
    assert again.json()["id"] == answer["turnId"]


async def test_the_answer_can_be_heard_in_lines(owner: Person) -> None:
    response = await owner.post(EXECUTE, {"instruction": "Look"}, headers={"Accept": "application/x-ndjson"})
    *parts, last = map(json.loads, response.text.splitlines())
    assert [part["index"] for part in parts] == list(range(len(parts)))
    assert (last["kind"], last["index"]) == ("final", 99999)
    assert "".join(part["deltaText"] for part in parts) == last["final"]["text"]


async def test_the_client_hears_it_too(owner: Person) -> None:
    async with Client(owner.url, owner.secret) as client:
        heard = [event async for event in client.execute({"instruction": "Look"}, key="client-1")]
        again = [event async for event in client.execute({"instruction": "Look"}, key="client-1")]
        contexts = await client.contexts()
        made = await client.replay_turn(again[-1].session_id, again[-1].turn_id)  # type: ignore[union-attr]
    assert {type(event) for event in heard} == {StageReached, TextAdded, ExecuteResponse}
    assert again == heard[-1:]
    assert [context.name for context in contexts.agents] == ["default", "reviewer"]
    assert made.identical


async def test_a_failed_turn_is_an_answer_that_says_so(owner: Person) -> None:
    answer = await execute(owner, "ERR500")
    assert (answer["kind"], answer["errorCode"]) == (AnswerKind.ERROR, "model_error")
    assert "out of order" in answer["errorMessage"]


async def test_a_key_with_another_request_is_a_conflict(owner: Person, model: DemoModel) -> None:
    headers = {"Idempotency-Key": "http-1"}
    first = await owner.post(EXECUTE, {"instruction": "Once"}, headers=headers)
    calls = len(model.requests)
    assert (await owner.post(EXECUTE, {"instruction": "Once"}, headers=headers)).json() == first.json()
    assert len(model.requests) == calls
    other = await owner.post(EXECUTE, {"instruction": "Twice"}, headers=headers)
    assert (other.status_code, problem(other)["code"]) == (409, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_input"),
        ({"instruction": "   "}, 400, "invalid_input"),
        ({"instruction": "x" * 1_000_001}, 400, "invalid_input"),
        ({"instruction": "x" * 10_000_000}, 413, "body_too_large"),
        ({"instruction": "x", "agentContextId": "nobody"}, 404, "context_not_found"),
        ({"instruction": "x", "conversationContextId": "nothing"}, 404, "context_not_found"),
        ({"instruction": "x", "sessionId": "01a1e252-d321-7308-bdae-db93e6f71518"}, 404, "session_not_found"),
        ({"instruction": "x", "mode": "destroy"}, 400, "invalid_input"),
    ],
)
async def test_what_cannot_be_executed_is_a_problem_and_leaves_nothing(
    owner: Person, model: DemoModel, body: dict[str, Any], status: int, code: str
) -> None:
    calls, before = len(model.requests), (await owner.get("/api/sessions")).json()["total"]
    response = await owner.post(EXECUTE, body)
    assert (response.status_code, problem(response)["code"]) == (status, code)
    assert len(model.requests) == calls
    assert (await owner.get("/api/sessions")).json()["total"] == before


@pytest.mark.req("EXE-19", "EXE-20", "EXE-22")
async def test_summaries_say_what_was_worked_on_and_how_it_went(executing: Served) -> None:
    async with open_store(executing.store_url) as store:
        org = await Organization.found("summaries", executing, store)
        other = await Organization.found("elsewhere", executing, store)
    done = await execute(org.ada, "Done", agentContextId="reviewer", conversationContextId="holdfast")
    await execute(org.admin, "ERR500", sessionId=done["sessionId"])
    await execute(org.bob, "Bob's own")
    await execute(other.ada, "Of another organization")

    async def listed(person: Person, **query: str) -> list[dict[str, Any]]:
        page = (await person.get("/api/ai/agent/sessions", params=query)).json()
        assert page["total"] == len(page["sessions"])
        sessions: list[dict[str, Any]] = page["sessions"]
        return sessions

    (mine,) = await listed(org.ada)
    assert (mine["id"], mine["name"], mine["turnCount"]) == (done["sessionId"], "Done", 2)
    assert (mine["agentContextId"], mine["agentContextName"]) == ("reviewer", "reviewer")
    assert (mine["conversationContextId"], mine["conversationContextName"]) == ("holdfast", "holdfast")
    assert (mine["lastTurnStatus"], mine["lastTurnDate"][-1]) == ("failed", "Z")
    assert len(await listed(org.admin)) == 2
    assert [each["id"] for each in await listed(org.admin, userId="root")] == [done["sessionId"]]
    assert [each["name"] for each in await listed(org.admin, userId="bob")] == ["Bob's own"]
    assert [each["name"] for each in await listed(other.admin)] == ["Of another organization"]


async def test_nobody_elses_turn_can_be_run_again_or_replayed(executing: Served) -> None:
    async with open_store(executing.store_url) as store:
        org = await Organization.found("mine", executing, store)
        other = await Organization.found("theirs", executing, store)
    answer = await execute(org.ada, "Mine")
    path = f"/api/sessions/{answer['sessionId']}/turns/{answer['turnId']}"
    for stranger in (org.bob, other.ada, other.admin):
        assert (await stranger.post(f"{path}/rerun")).status_code == 404
        assert (await stranger.get(f"{path}/replay")).status_code == 404
        response = await stranger.post(EXECUTE, {"instruction": "x", "sessionId": answer["sessionId"]})
        assert response.status_code == 404


async def test_a_running_turn_is_stopped_by_the_route_that_stops_agents(
    owner: Person, model: DemoModel
) -> None:
    async with (
        owner.client() as client,
        client.stream(
            "POST", EXECUTE, json={"instruction": "HANG"}, headers={"Accept": "text/event-stream"}
        ) as response,
    ):
        heard = ""
        stopped = False
        async for piece in response.aiter_text():
            heard += piece
            if "llmStarted" in heard and not stopped:
                stopped = True
                (_, _, stage) = events_of(heard)[0]
                cancelled = await owner.post(f"/api/sessions/{stage['sessionId']}/cancel")
                assert cancelled.status_code == 200
    name, _, answer = events_of(heard)[-1]
    assert (name, answer["errorCode"]) == ("answer", "interrupted")


async def test_ending_a_session_stops_its_turn_and_those_that_wait_for_theirs(
    owner: Person, model: DemoModel
) -> None:
    session = (await execute(owner, "Look"))["sessionId"]
    before = len(model.requests)
    running = asyncio.create_task(execute(owner, "HANG", sessionId=session))
    await until(lambda: len(model.requests) > before)
    waiting = asyncio.create_task(execute(owner, "More", sessionId=session))
    while (await owner.get(f"/api/sessions/{session}/turns/last")).json()["sequenceNumber"] < 3:
        continue
    assert (await owner.call("DELETE", f"/api/sessions/{session}")).json()["status"] == "cancelled"
    async with asyncio.timeout(SECONDS):
        ended = await asyncio.gather(running, waiting)
    assert [each["errorCode"] for each in ended] == ["interrupted", "session_ended"]
    assert len(model.requests) == before + 1
    assert (await owner.get(f"/api/sessions/{session}")).json()["status"] == "cancelled"


async def test_archiving_a_session_stops_its_turn(owner: Person, model: DemoModel) -> None:
    session = (await execute(owner, "Look"))["sessionId"]
    before = len(model.requests)
    running = asyncio.create_task(execute(owner, "HANG", sessionId=session))
    await until(lambda: len(model.requests) > before)
    archived = await owner.call("PATCH", f"/api/sessions/{session}", json={"status": "archived"})
    assert archived.json()["status"] == "archived"
    async with asyncio.timeout(SECONDS):
        assert (await running)["errorCode"] == "interrupted"


async def test_a_prompt_to_a_models_session_is_told_where_instructions_go(owner: Person) -> None:
    session = (await execute(owner, "Look"))["sessionId"]
    refused = problem(await owner.post(f"/api/sessions/{session}/prompt", {"text": "More"}))
    assert (refused["status"], refused["sessionStatus"]) == (409, "active")
    assert EXECUTE in refused["detail"]


async def test_a_session_that_was_ended_takes_instructions_again_once_it_is_resumed(owner: Person) -> None:
    session = (await execute(owner, "Look"))["sessionId"]
    assert (await owner.call("DELETE", f"/api/sessions/{session}")).json()["status"] == "cancelled"
    ended = await owner.post(EXECUTE, {"instruction": "More", "sessionId": session})
    assert (ended.status_code, problem(ended)["sessionStatus"]) == (409, "cancelled")
    assert (await owner.post(f"/api/sessions/{session}/resume")).json()["status"] == "active"
    assert (await execute(owner, "More", sessionId=session))["kind"] == "answer"


async def test_a_fork_of_a_models_session_knows_what_was_said_and_goes_on_by_itself(
    executing: Served, owner: Person, model: DemoModel
) -> None:
    asked = {"agentContextId": "reviewer", "conversationContextId": "holdfast", "repo": "project"}
    first = await execute(owner, "The bird is a heron", **asked)
    original = first["sessionId"]
    await owner.call("DELETE", f"/api/sessions/{original}")
    async with Client(executing.url, executing.presence.token) as client:
        fork = await client.fork_session(original)
    assert fork.status == "active"
    assert (fork.agent_context_id, fork.conversation_context_id) == ("reviewer", "holdfast")
    assert fork.repo_name == "project"
    assert fork.custom["forkedFrom"]["session"] == original
    before, after = [
        [message["content"] for message in (await owner.get(f"/api/sessions/{each}")).json()["messages"]]
        for each in (original, fork.id)
    ]
    assert before == after
    answer = await execute(owner, "Which bird?", sessionId=fork.id)
    sent = model.requests[-1]
    assert "previous_response_id" not in sent
    assert [item["role"] for item in sent["input"]] == ["user", "assistant", "user"]
    assert "The bird is a heron" in json.dumps(sent["input"][0])
    assert first["text"] in sent["input"][1]["content"][0]["text"]
    turn = (await owner.get(f"/api/sessions/{fork.id}/turns/{answer['turnId']}")).json()
    assert (turn["sequenceNumber"], turn["status"]) == (1, "completed")
    assert (await owner.get(f"/api/sessions/{original}")).json()["status"] == "cancelled"


async def test_a_fork_is_shown_to_a_model_as_its_original_is(executing: Served, owner: Person) -> None:
    original = (await execute(owner, "Look"))["sessionId"]
    async with open_store(executing.store_url) as opened:
        store = opened.as_principal(owner.principal)
        fold = NewCompaction(first_seq=1, last_seq=1, strategy="summary", summary="Somebody looked.")
        parent = await store.commit_compaction(original, fold)
        whole = msgspec.structs.replace(fold, last_seq=2, summary="All was seen.", parent_id=parent.id)
        await store.commit_compaction(original, whole)
        undone = await store.commit_compaction(original, fold)
        await store.undo_compaction(original, undone.id)
        fork = (await owner.post(f"/api/sessions/{original}/fork")).json()
        copies = await store.list_compactions(fork["id"])
    assert [(each.last_seq, each.summary) for each in copies] == [
        (1, "Somebody looked."),
        (2, "All was seen."),
    ]
    assert [each.parent_id for each in copies] == [None, copies[0].id]
    assert copies[0].id != parent.id


async def test_a_models_session_of_somebody_else_cannot_be_forked(executing: Served, owner: Person) -> None:
    session = (await execute(owner, "Look"))["sessionId"]
    async with open_store(executing.store_url) as store:
        strangers = await Organization.found("elsewhere-too", executing, store)
        before = await store.as_system().count_sessions()
        for person in (strangers.admin, strangers.ada):
            assert problem(await person.post(f"/api/sessions/{session}/fork"))["status"] == 404
        assert await store.as_system().count_sessions() == before


@pytest.mark.usefixtures("process")
async def test_without_a_model_the_error_says_how_to_configure_one(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        response = await owner_of(served).post(EXECUTE, {"instruction": "Look"})
        assert response.status_code == 503
        assert "HOLDFAST_MODEL" in problem(response)["detail"]
    finally:
        assert served.stop() == 0


@pytest.mark.usefixtures("process")
async def test_a_turn_that_runs_when_the_server_stops_is_answered_as_failed(
    tmp_path: Path, model: DemoModel
) -> None:
    served = Served(tmp_path, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none", HOLDFAST_MODEL="demo")
    served.start()
    before = len(model.requests)
    running = asyncio.create_task(execute(owner_of(served), "HANG"))
    await until(lambda: len(model.requests) > before)
    assert await asyncio.to_thread(served.stop) == 0
    answer = await running
    assert (answer["kind"], answer["errorCode"]) == ("error", "shutdown")
    assert "Traceback" not in served.complaints()
