"""The page in a hand: 360 pixels wide, with a finger."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from holdfast import NewSession, Store
from holdfast.model.ids import RepoId
from holdfast.model.question import NewQuestionSet, Option, Question
from holdfast.model.turn import NewTurn
from holdfast.questions import QuestionBox
from tests.server.servers import Served
from tests.web import scenes
from tests.web.test_session import box_of
from tests.web.visitors import PHONE, Visitor, visiting


@pytest_asyncio.fixture(loop_scope="session")
async def phone(browser: Browser, served: Served) -> AsyncIterator[Visitor]:
    async with visiting(browser, served, PHONE) as visitor:
        yield visitor
        assert visitor.complaints == []


async def test_a_permission_is_answered_with_a_finger_and_nothing_is_wider_than_the_phone(
    phone: Visitor, served: Served, store: Store, repo_id: RepoId, box: QuestionBox
) -> None:
    session = await scenes.retried_webhooks(store, repo_id, served.workspace / "atlas")
    question = await scenes.asked(box, session, served.workspace / "atlas")
    page = await phone.open()
    row = page.get_by_role("link", name="Retry failed webhooks").first
    await expect(row).to_contain_text("waits for you")
    await expect_no_sideways_scrolling(page)
    await row.tap()
    await expect(page.get_by_role("article", name="Agent").last).to_contain_text("One thing to decide")
    await expect_no_sideways_scrolling(page)
    await page.get_by_role("link", name="All sessions").tap()
    await page.get_by_role("link", name="Inbox").tap()
    await expect_no_sideways_scrolling(page)
    allow = page.locator(f"[data-set='{question.id}']").get_by_role("button", name="Allow")
    box_of_it = await allow.bounding_box()
    assert box_of_it is not None
    assert box_of_it["height"] >= 44
    await allow.tap()
    await expect(page.locator(f"[data-set='{question.id}']")).to_contain_text("Answered by local")


async def test_a_newcomer_sees_the_invitation(browser: Browser, own_server: Served) -> None:
    own_server.start()
    async with visiting(browser, own_server, PHONE) as visitor:
        page = await visitor.open()
        await expect(page.get_by_role("button", name="Start a demo session")).to_be_in_viewport()
        await expect_no_sideways_scrolling(page)


async def test_a_question_that_waits_is_reached_before_there_is_any_session(
    browser: Browser, own_server: Served
) -> None:
    own_server.start()
    question = Question(title="Deploy", prompt="Deploy now?", options=(Option("Yes"), Option("No")))
    await QuestionBox(own_server.questions).ask(NewQuestionSet(questions=(question,), agent="script"))
    async with visiting(browser, own_server, PHONE) as visitor:
        page = await visitor.open()
        await page.get_by_role("link", name="Inbox 1 waiting").tap()
        await expect(page.get_by_text("Deploy now?")).to_be_visible()


async def test_a_prompt_of_two_lines_is_written_with_a_finger(phone: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Two lines"))
    page = await phone.open(f"#/sessions/{session.id}")
    text = page.get_by_role("textbox", name="Prompt")
    await text.tap()
    await text.press_sequentially("one")
    await text.press("Enter")
    await text.press_sequentially("two")
    await expect(text).to_have_value("one\ntwo")


async def test_the_details_of_a_session_are_closed_before_it_is_left(phone: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Looked at closely"))
    page = await phone.open(f"#/sessions/{session.id}")
    button = page.get_by_role("button", name="Details")
    await expect(button).to_have_attribute("aria-expanded", "false")
    await button.tap()
    await expect(button).to_have_attribute("aria-expanded", "true")
    details = page.get_by_role("complementary", name="About this session")
    await expect(details).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(details).to_be_hidden()
    await expect(page.get_by_role("heading", name="Looked at closely")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()


async def test_many_prompts_that_wait_leave_room_for_the_conversation(phone: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Much to do"))
    for number in range(25):
        await store.add_turn(session.id, NewTurn(instruction_summary=f"Step {number}"))
    page = await phone.open(f"#/sessions/{session.id}")
    queue = page.get_by_role("list", name="Prompts that wait")
    await expect(queue.get_by_role("listitem")).to_have_count(24)
    messages = await box_of(page.get_by_role("region", name="Messages"))
    assert messages["height"] > PHONE[1] / 2


async def expect_no_sideways_scrolling(page: Page) -> None:
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE[0]
