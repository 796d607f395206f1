"""Light and dark: as the system says or the person has chosen, from the first paint on."""

from playwright.async_api import Browser, Page, expect

from tests.server.servers import Served
from tests.web.visitors import Visitor, visiting


async def test_the_sign_in_page_is_dark_where_the_system_is(browser: Browser, served: Served) -> None:
    async with visiting(browser, served, dark=True, signed_in=False) as visitor:
        page = await visitor.open()
        await expect(page.get_by_role("heading", name="Sign in to Holdfast")).to_be_visible()
        assert await is_dark(page)


async def test_what_was_chosen_holds_before_the_page_has_started(visitor: Visitor, page: Page) -> None:
    assert not await is_dark(page)
    await page.get_by_role("button", name="Light or dark").click()
    assert await is_dark(page)
    await page.route("**/assets/app.js", lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_role("navigation", name="Sessions")).to_have_count(0)
    assert await is_dark(page)
    visitor.complaints.clear()


async def is_dark(page: Page) -> bool:
    red = await page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]")
    return int(red) < 128
