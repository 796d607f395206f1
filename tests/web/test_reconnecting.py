"""What the page shows when the server goes away and comes back."""

import signal

from playwright.async_api import Browser, expect

from tests.server.servers import Served
from tests.web.test_session import begin, prompt, said
from tests.web.visitors import visiting


async def test_a_server_that_is_killed_while_it_streams_comes_back_without_a_reload(
    own_server: Served, browser: Browser
) -> None:
    own_server.repository()
    own_server.start()
    port = int(own_server.url.rsplit(":", 1)[1])
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        await page.evaluate("window.neverReloaded = true")
        await begin(page, "Count for a while.\nslow 2000")
        await expect(said(page)).to_contain_text("4 5 6")
        own_server.stop(signal.SIGKILL)
        await expect(page.get_by_text("Not connected.")).to_be_visible()
        own_server.start(port)
        await expect(page.get_by_text("Not connected.")).to_have_count(0)
        await expect(page.get_by_text("cancelled: the server was restarted")).to_be_visible()
        await expect(page.locator(".streaming")).to_have_count(0)
        await page.get_by_role("button", name="Resume").click()
        await prompt(page, "Go on.\nsay Here again.")
        await expect(said(page)).to_contain_text("Here again.")
        await expect(page.get_by_role("link", name="Turn 2 ·")).not_to_contain_text("running")
        live = await page.get_by_role("log").inner_text()
        assert await page.evaluate("window.neverReloaded") is True
        await page.reload()
        await expect(page.get_by_role("log")).to_have_text(live, use_inner_text=True)


async def test_a_prompt_that_cannot_be_sent_is_not_lost(own_server: Served, browser: Browser) -> None:
    own_server.repository()
    own_server.start()
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        await begin(page, "Begin.\nsay ok")
        await expect(said(page)).to_contain_text("ok")
        own_server.stop(signal.SIGKILL)
        await prompt(page, "Important words")
        await expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
        await expect(page.get_by_role("textbox", name="Prompt")).to_have_value("Important words")
