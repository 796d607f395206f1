"""The page for people who do not see it, or use no mouse."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast import NewSession, Store
from holdfast.model.ids import RepoId
from holdfast.questions import QuestionBox
from tests.server.servers import Served
from tests.web import scenes
from tests.web.test_session import begin, prompt, said
from tests.web.visitors import DESK, PHONE, visiting

CHECKS = (Path(__file__).parent / "accessibility.js").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_every_control_has_a_name_and_every_text_enough_contrast(
    browser: Browser,
    served: Served,
    store: Store,
    repo_id: RepoId,
    box: QuestionBox,
    size: tuple[int, int],
    dark: bool,
) -> None:
    repo = served.workspace / "atlas"
    session = await scenes.retried_webhooks(store, repo_id, repo)
    await scenes.asked(box, session, repo)
    question = await scenes.asked_several(box, session, repo)
    turn = await store.last_turn(session.id)
    assert turn is not None
    async with visiting(browser, served, size, dark=dark) as visitor:
        page = await visitor.open(f"#/sessions/{session.id}")
        await expect(page.get_by_role("article", name="Agent").last).to_contain_text("One thing to decide")
        assert await wrong_with(page) == []
        await page.evaluate("location.hash = '#/inbox'")
        await expect(page.locator(f"[data-set='{question.id}']")).to_be_visible()
        assert await wrong_with(page) == []
        await page.evaluate(f"location.hash = '#/sessions/{session.id}/turns/{turn.id}'")
        await expect(page.locator(".turn-timeline")).to_be_visible()
        assert await wrong_with(page) == []
        await page.keyboard.press("n")
        await expect(page.get_by_role("dialog", name="New session")).to_be_visible()
        assert await wrong_with(page) == []


async def test_a_session_is_begun_read_and_answered_without_a_mouse(page: Page) -> None:
    await expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
    await page.keyboard.press("n")
    await page.keyboard.type("Keys only.")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("write keys.txt: typed")
    await page.keyboard.press("Control+Enter")
    question = page.get_by_role("region", name="demo wants your permission")
    await expect(question).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("i")
    await expect(page.locator(".inbox .question.pending")).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.locator(".question.current")).to_contain_text("Write keys.txt")
    await page.keyboard.press("1")
    await expect(page.locator(".settled-cards")).to_contain_text("Write keys.txt")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("region", name="Welcome")).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.locator(".rows a:focus")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()


async def test_the_next_session_is_the_one_beside_the_open_one(page: Page, store: Store) -> None:
    for number in (1, 2, 3):
        await store.create_session(NewSession(title=f"Neighbour {number}"))
    await page.get_by_role("link", name="Neighbour 2").click()
    await expect(page.get_by_role("heading", name="Neighbour 2")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()
    await page.get_by_role("region", name="Messages").focus()
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="Neighbour 1")).to_be_focused()


async def test_it_is_announced_that_the_agent_has_answered(page: Page) -> None:
    await begin(page, "Begin.\nsay Ready.")
    await expect(page.get_by_role("link", name="Turn 1 ·")).not_to_contain_text("running")
    await prompt(page, "Answer.\nsay Done.")
    await expect(said(page)).to_contain_text("Done.")
    await expect(page.get_by_role("status").filter(has_text="The agent has answered.")).to_be_attached()


async def test_focus_is_seen_and_dialogs_keep_and_return_it(page: Page) -> None:
    opener = page.locator(".sidebar").get_by_role("button", name="New session")
    await opener.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="New session")
    await expect(dialog).to_be_visible()
    for _ in range(12):
        await page.keyboard.press("Tab")
        assert await page.evaluate(KEPT)
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(opener).to_be_focused()
    outline = await opener.evaluate("each => getComputedStyle(each).outlineStyle")
    assert outline == "solid"


async def test_the_inbox_says_that_it_is_the_current_page(page: Page) -> None:
    link = page.get_by_role("link", name="Inbox")
    await link.click()
    await expect(link).to_have_attribute("aria-current", "page")
    await page.keyboard.press("Escape")
    await expect(link).not_to_have_attribute("aria-current", "page")


KEPT = "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"


async def wrong_with(page: Page) -> list[str]:
    found: list[str] = await page.evaluate(CHECKS)
    return found
