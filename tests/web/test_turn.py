"""A turn on the page: everything that explains its answer, and the ways to ask once more."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from holdfast import Message, NewSession, SessionFilter, Store
from holdfast.blobs.address import KEPT, folder_of, key
from holdfast.execution.demo import DemoModel
from holdfast.model.session import SessionPatch
from holdfast.model.turn import ChunkRef, NewTurn, TurnAnswer
from tests.server.servers import Person, Served, owner_of
from tests.waiting import SECONDS
from tests.web import scenes
from tests.web.test_accessibility import wrong_with
from tests.web.test_session import choose, prompt, said
from tests.web.visitors import DESK, PHONE, Visitor, visiting

QUESTION = "Where are the amounts of an invoice rounded?"


@pytest.fixture
def owner(served: Served) -> Person:
    return owner_of(served)


@pytest_asyncio.fixture(loop_scope="session")
async def answered(served: Served, owner: Person) -> dict[str, Any]:
    """A question to a model, and its answer."""
    return await scenes.explained_turn(owner, served.workspace / "atlas", QUESTION)


@pytest_asyncio.fixture(loop_scope="session")
async def page(visitor: Visitor, answered: dict[str, Any]) -> Page:
    """The page, on which that turn is explained."""
    return await visitor.open(turn_of(answered))


async def test_a_turn_of_a_model_is_explained(page: Page, owner: Person, answered: dict[str, Any]) -> None:
    turn = (await owner.get(f"/api{turn_of(answered)[1:]}")).json()
    shown = page.get_by_role("region", name="Turn")
    await expect(shown.locator(".prompt-box")).to_have_text(QUESTION)
    await expect(shown.locator(".text li").first).to_have_text("billing/invoice.py")
    for part in ("billing/ledger.csv was not sent", turn["openAIResponseId"], "Model", "with this turn"):
        await expect(shown).to_contain_text(part)
    files = page.get_by_role("region", name="Files").get_by_role("listitem")
    await expect(files).to_contain_text(["touched", "too large to send"])
    await expect(files.first).to_contain_text(turn["activeFileRefs"][0]["contentHash"])
    await expect(shown.locator(".turn-timeline li")).to_have_count(2)


async def test_sources_and_files_show_the_exact_text_that_was_sent(
    page: Page, answered: dict[str, Any]
) -> None:
    source = next(each for each in answered["sources"] if each["path"] == "billing/money.py")
    lines = f"{source['startLine']}–{source['endLine']}"
    item = page.get_by_role("listitem").filter(has_text=f"billing/money.py:{lines}")
    await expect(item).to_contain_text(source["contentHash"])
    await item.locator("summary").click()
    sent = scenes.MONEY.splitlines(keepends=True)[source["startLine"] - 1 : source["endLine"]]
    await expect(item.locator("pre")).to_be_visible()
    assert (await item.locator("pre").text_content() or "").rstrip("\n") == "".join(sent).rstrip("\n")
    await expect(item.locator("pre span").first).to_have_attribute("data-line", str(source["startLine"]))
    file = page.get_by_role("listitem").filter(has_text="billing/invoice.py").last
    await file.locator("summary").click()
    await expect(file.locator("pre")).to_contain_text("def total(invoice: Invoice)")


async def test_the_bytes_that_went_over_the_line_are_shown_when_they_are_asked_for(
    page: Page, visitor: Visitor
) -> None:
    request = page.locator("details", has_text="Request")
    await expect(request).to_be_visible()
    assert not [path for path in visitor.requests if path.startswith("/api/blobs/")]
    await request.locator("summary").click()
    await expect(request.locator("pre")).to_contain_text('"model": "scripted"')
    response = page.locator("details", has_text="Response")
    await response.locator("summary").click()
    await expect(response.locator("pre")).to_contain_text('"output_text"')


async def test_a_replay_says_in_words_whether_the_request_is_identical(
    page: Page, served: Served, owner: Person, answered: dict[str, Any]
) -> None:
    replay = page.get_by_role("button", name="Replay")
    await replay.click()
    await expect(page.get_by_text("Identical.")).to_be_visible()
    file = (await owner.get(f"/api{turn_of(answered)[1:]}")).json()["activeFileRefs"][0]["contentHash"]
    (served.data / "blobs" / key(KEPT, folder_of("local"), file)).unlink()
    await replay.click()
    await expect(page.get_by_text("Not identical.")).to_be_visible()
    await expect(page.get_by_text("It cannot be made again")).to_be_visible()


async def test_a_turn_is_run_again_and_its_answer_goes_on_from_the_first(
    page: Page, answered: dict[str, Any]
) -> None:
    await page.get_by_role("button", name="Run again").click()
    second = page.get_by_role("link", name="Turn 2 ·")
    await expect(second).not_to_contain_text("running")
    await second.click()
    chain = page.get_by_role("region", name="Chain")
    await expect(chain).to_contain_text("resp_")
    await chain.get_by_role("link", name=answered["turnId"]).click()
    await expect(page.get_by_role("heading", name="Turn 1")).to_be_visible()


async def test_a_long_instruction_is_shown_whole_when_it_is_asked_for(
    visitor: Visitor, owner: Person
) -> None:
    instruction = f"Look. {'And look again. ' * 100}That was all."
    answer = (await owner.post("/api/ai/agent/execute", {"instruction": instruction})).json()
    page = await visitor.open(turn_of(answer))
    box = page.locator(".prompt-box")
    await expect(box).to_contain_text("And look again.")
    await expect(box).not_to_contain_text("That was all.")
    await box.get_by_role("button", name="Show all of it").click()
    await expect(box).to_have_text(instruction)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_an_explained_turn_can_be_read_by_everybody(
    browser: Browser, served: Served, answered: dict[str, Any], size: tuple[int, int]
) -> None:
    async with visiting(browser, served, size, dark=size == PHONE) as visitor:
        page = await visitor.open(turn_of(answered))
        await page.get_by_role("button", name="Replay").click()
        await expect(page.get_by_text("Identical.")).to_be_visible()
        for folded in await page.locator("details").all():
            await folded.locator("summary").click()
            await expect(folded.locator("pre")).to_be_visible()
        assert await wrong_with(page) == []
        column = page.locator(".turn-view .column")
        assert await column.evaluate("each => each.scrollWidth <= each.clientWidth")


async def test_a_turn_long_ago_is_explained_too(visitor: Visitor, store: Store) -> None:
    session = await scenes.many_turns(store, 120)
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(page.get_by_role("link", name="Turn 120 ·")).to_be_in_viewport()
    await page.locator(".scroller").evaluate("each => (each.scrollTop = 0)")
    first = page.get_by_role("article", name="You").filter(has_text=re.compile("Step 1 of many$"))
    await first.get_by_role("link", name="Turn").click()
    await expect(page.get_by_role("heading", name="Turn 1", exact=True)).to_be_visible()
    await expect(page.locator(".prompt-box")).to_have_text("Step 1 of many")


async def test_a_running_turn_stays_as_it_is_read_while_it_goes_on(
    visitor: Visitor, store: Store, answered: dict[str, Any]
) -> None:
    source = msgspec.convert(answered["sources"][0], ChunkRef)
    session = await store.create_session(NewSession(title="Running"))
    asked = NewTurn(instruction_summary="Look around.", chunk_refs=(source,))
    turn = await store.add_turn(session.id, asked, said=[Message.user("Look around.\n" * 60)])
    page = await visitor.open(f"#/sessions/{session.id}/turns/{turn.id}")
    fold = page.get_by_role("region", name="Sources").locator("details")
    await fold.locator("summary").click()
    await expect(fold.locator("pre")).to_be_visible()
    await fold.locator("summary").focus()
    scrolled = await page.locator(".turn-view .scroller").evaluate("each => each.scrollTop")
    assert scrolled > 0
    found = scenes.tool("Look into billing", "search", "call-1")
    await store.append_messages(session.id, [found], turn_id=turn.id)
    await expect(page.get_by_role("region", name="When")).to_contain_text("Look into billing")
    await expect(fold.locator("pre")).to_be_visible()
    await expect(fold.locator("summary")).to_be_focused()
    assert abs(await page.locator(".turn-view .scroller").evaluate("each => each.scrollTop") - scrolled) < 60
    await store.complete_turn(session.id, turn.id, TurnAnswer(agent_answer_summary="Nothing."))
    await expect(page.get_by_role("region", name="Answer")).to_contain_text("Nothing.")
    await expect(fold.locator("summary")).to_be_focused()


async def test_a_running_turn_is_shown_as_it_is_however_late_an_earlier_look_is_answered(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Running"))
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="Go."), said=[Message.user("Go.")])
    page = await visitor.open(f"#/sessions/{session.id}/turns/{turn.id}")
    when = page.get_by_role("region", name="When").get_by_role("listitem")
    await expect(when).to_have_count(1)
    looked, answer = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        response = await route.fetch()
        looked.set()
        await answer.wait()
        await route.fulfill(response=response)

    await page.route("**/messages?*", late, times=1)
    await store.append_messages(session.id, [scenes.tool("First", "read", "call-1")], turn_id=turn.id)
    async with asyncio.timeout(SECONDS):
        await looked.wait()
    await store.append_messages(session.id, [scenes.tool("Second", "read", "call-2")], turn_id=turn.id)
    await store.patch(session.id, SessionPatch(title="Gone on"))
    await expect(page.get_by_role("navigation", name="Sessions")).to_contain_text("Gone on")
    async with page.expect_response("**/messages?*"):
        answer.set()
    await expect(when).to_have_text([re.compile(name) for name in ("Waited", "First", "Second")])


async def test_the_times_of_a_long_turn_end_with_how_many_more_there_are(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Diligent"))
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="Go."), said=[Message.user("Go.")])
    minutes = (turn.created_at + timedelta(minutes=number) for number in range(1, 41))
    steps = [msgspec.structs.replace(Message.agent("A step."), timestamp=at) for at in minutes]
    await store.append_messages(session.id, steps, turn_id=turn.id)
    page = await visitor.open(f"#/sessions/{session.id}/turns/{turn.id}")
    times = page.get_by_role("region", name="When").get_by_role("listitem")
    await expect(times).to_have_count(32)
    await expect(times.nth(30)).to_contain_text("1 min 0 s")
    await expect(times.last).to_have_text("and 10 more")


async def test_of_a_turn_of_very_many_messages_the_last_words_are_the_answer(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Very diligent"))
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="Go."), said=[Message.user("Go.")])
    steps = [Message.agent(f"Step {number}.") for number in range(1, 1301)]
    await store.append_messages(session.id, steps, turn_id=turn.id)
    page = await visitor.open(f"#/sessions/{session.id}/turns/{turn.id}")
    answer = page.get_by_role("region", name="Answer")
    await expect(answer).to_contain_text("Step 1300.")
    await expect(page.get_by_role("region", name="When")).to_contain_text("and more than")
    await store.complete_turn(session.id, turn.id, TurnAnswer(agent_answer_summary="Step 1300."))
    later = await store.add_turn(session.id, NewTurn(instruction_summary="On."), said=[Message.user("On.")])
    await store.append_messages(session.id, scenes.talk(1, 200), turn_id=later.id)
    await page.reload()
    await expect(answer).to_contain_text("Step 1300.")


async def test_a_failed_turn_says_what_went_wrong(visitor: Visitor, owner: Person) -> None:
    answer = (await owner.post("/api/ai/agent/execute", {"instruction": "ERR500"})).json()
    page = await visitor.open(turn_of(answer))
    wrong = page.get_by_role("region", name="What went wrong")
    await expect(wrong).to_contain_text("The model is out of order")


async def test_a_session_with_a_model_is_begun_led_and_stopped_from_the_page(
    visitor: Visitor, model: DemoModel
) -> None:
    page = await visitor.open()
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    await dialog.get_by_role("radio", name="default Model scripted").check()
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Write what the model shall do")
    await dialog.get_by_label("Prompt").fill("Say something.")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("heading", name="Say something.")).to_be_visible()
    await expect(said(page)).to_contain_text("I was given no file")
    await prompt(page, "SLOW and in full.")
    await expect(page.locator(".streaming")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Prompt")).to_have_value("")
    await page.get_by_role("button", name="Stop the turn").click()
    await expect(page.get_by_role("link", name="Turn 2 · failed")).to_be_visible()
    assert "/api/ai/agent/execute" in visitor.requests


async def test_what_a_conversation_is_about_is_chosen_for_a_model_alone(
    visitor: Visitor, model: DemoModel, store: Store
) -> None:
    page = await visitor.open()
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    about = dialog.get_by_label("Conversation context")
    await dialog.get_by_role("radio", name="demo").check()
    await expect(about).to_be_hidden()
    await dialog.get_by_role("radio", name="default Model scripted").check()
    await expect(about).to_have_value("")
    await about.select_option("billing")
    await dialog.get_by_label("Prompt").fill("What is a price?")
    await dialog.get_by_role("button", name="Start").click()
    await expect(said(page)).to_contain_text("I was given no file")
    await expect(page.get_by_role("complementary", name="About this session")).to_contain_text("billing")
    assert "Amounts are in cents." in model.requests[-1]["instructions"]
    (session,) = await store.list(SessionFilter(text="What is a price?"))
    assert session.conversation_context_id == "billing"


async def test_a_session_with_a_model_is_forked_and_resumed_from_the_page(
    visitor: Visitor, owner: Person, model: DemoModel
) -> None:
    answer = (await owner.post("/api/ai/agent/execute", {"instruction": "Remember the heron."})).json()
    page = await visitor.open(f"#/sessions/{answer['sessionId']}")
    await expect(said(page)).to_contain_text("I was given no file")
    await choose(page, "Complete")
    await expect(page.get_by_text("This session is completed.")).to_be_visible()
    await page.get_by_role("button", name="Fork").click()
    await page.wait_for_url(lambda url: answer["sessionId"] not in url)
    await expect(page.get_by_text("Remember the heron.").last).to_be_visible()
    await prompt(page, "Which bird?")
    await expect(page.get_by_role("link", name="Turn 1 ·")).to_be_visible()
    await expect(page.get_by_role("article", name="Agent")).to_have_count(2)
    assert "Remember the heron." in str(model.requests[-1]["input"])
    await page.get_by_role("link", name="another session").click()
    await page.get_by_role("button", name="Resume").click()
    await prompt(page, "And on.")
    await expect(page.get_by_role("link", name="Turn 2 ·")).to_be_visible()


def turn_of(answer: dict[str, Any]) -> str:
    return f"#/sessions/{answer['sessionId']}/turns/{answer['turnId']}"
