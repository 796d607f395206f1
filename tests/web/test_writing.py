"""What a person writes is sent once, and lost never."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Locator, Page, Request, Route, expect

from tests.web.test_session import begin, box_of, prompt, said
from tests.web.visitors import Visitor


async def test_a_session_is_begun_once_however_often_start_is_pressed(page: Page) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.extend(_new_session(request)))
    dialog = await new_session(page, "Once.\nsay ok")
    async with held(page, "**/api/sessions"):
        for _ in range(3):
            await dialog.get_by_label("Prompt").press("Control+Enter")
    await expect(page.get_by_role("heading", name="Once.")).to_be_visible()
    assert len(sent) == 1


async def test_a_prompt_that_a_new_session_did_not_take_waits_there_to_be_sent(
    page: Page, visitor: Visitor
) -> None:
    dialog = await new_session(page, "Greet me.\nsay Hello there")
    await page.route("**/prompt", lambda route: route.abort())
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog).to_have_count(0)
    text = page.get_by_role("textbox", name="Prompt")
    await expect(text).to_have_value("Greet me.\nsay Hello there")
    await page.unroute("**/prompt")
    await page.get_by_role("button", name="Send").click()
    await expect(said(page)).to_contain_text("Hello there")
    await expect(text).to_have_value("")
    visitor.complaints.clear()


async def test_a_dialog_stays_when_a_selection_ends_beside_it(page: Page) -> None:
    dialog = await new_session(page, "To be selected.")
    box = await box_of(dialog)
    text = await box_of(dialog.get_by_label("Prompt"))
    await page.mouse.move(text["x"] + 60, text["y"] + 20)
    await page.mouse.down()
    await page.mouse.move(box["x"] - 50, text["y"] + 20)
    await page.mouse.up()
    await expect(dialog.get_by_label("Prompt")).to_have_value("To be selected.")
    await page.mouse.click(box["x"] + 4, box["y"] + 4)
    await expect(dialog).to_be_visible()
    await page.mouse.click(box["x"] - 50, box["y"] + 20)
    await expect(dialog).to_have_count(0)


async def test_what_is_written_while_a_prompt_is_sent_stays(page: Page, visitor: Visitor) -> None:
    await begin(page, "Begin.\nsay Ready.")
    text = page.get_by_role("textbox", name="Prompt")
    async with held(page, "**/prompt"):
        await prompt(page, "say First.")
        await text.press_sequentially("and then")
    await expect(said(page)).to_contain_text("First.")
    await expect(text).to_have_value("and then")
    await page.route("**/prompt", lambda route: route.abort())
    async with held(page, "**/prompt"):
        await text.press("Enter")
        await text.press_sequentially("something else")
    await expect(page.get_by_role("alert").filter(has_text=re.compile("cannot be reached"))).to_be_visible()
    await expect(text).to_have_value("and then\nsomething else")
    visitor.complaints.clear()


async def new_session(page: Page, text: str) -> Locator:
    """The dialog that begins a session, with a prompt in it."""
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    await dialog.get_by_label("Prompt").fill(text)
    return dialog


@asynccontextmanager
async def held(page: Page, url: str) -> AsyncIterator[None]:
    """Requests to an address reach the server only after this."""
    over = asyncio.Event()

    async def wait(route: Route) -> None:
        await over.wait()
        await route.fallback()

    await page.route(url, wait)
    yield
    over.set()
    await page.unroute(url, wait)


def _new_session(request: Request) -> list[str]:
    is_new = request.method == "POST" and request.url.endswith("/api/sessions")
    return [request.url] if is_new else []
