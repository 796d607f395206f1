"""Somebody with a browser, who notices everything that goes wrong in it."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
    expect,
)

from tests.server.servers import Served
from tests.waiting import SECONDS

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is Chromium without the windows that nobody looks at, and takes half as much of a processor."""

CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

expect.set_options(timeout=SECONDS * 1000)

DESK = (1440, 900)
TABLET = (1024, 768)
PHONE = (360, 740)


class Visitor:
    """A signed-in browser profile; its tabs share the cookie."""

    def __init__(self, served: Served, context: BrowserContext) -> None:
        self.served = served
        self.context = context
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.requests: list[str] = []
        context.set_default_timeout(SECONDS * 1000)
        context.on("request", self._requested)

    async def open(self, view: str = "") -> Page:
        """A new tab at a view of the page."""
        page = await self.context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        await page.goto(f"{self.served.url}/{view}")
        return page

    async def sign_in(self) -> None:
        """Use up a sign-in link in this browser, without a page to look at."""
        token = {"Authorization": f"Bearer {self.served.presence.token}"}
        made = await self.context.request.post(f"{self.served.url}/api/sign-in-links", headers=token, data={})
        signed_in = await self.context.request.get((await made.json())["url"])
        assert signed_in.ok, await signed_in.text()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location['url']})")

    def _requested(self, request: Request) -> None:
        address = urlsplit(request.url)
        self.requests.append(address.path)
        if address.scheme in ("http", "https") and f"{address.scheme}://{address.netloc}" != self.served.url:
            self.elsewhere.append(request.url)


@asynccontextmanager
async def opened_browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # Its sandbox needs rights that containers do not have; what it is shown here is our own page.
        # To imitate a graphics processor costs more than to draw without one.
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(
    browser: Browser,
    served: Served,
    size: tuple[int, int] = DESK,
    *,
    dark: bool = False,
    signed_in: bool = True,
) -> AsyncIterator[Visitor]:
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        has_touch=size == PHONE,
        is_mobile=size == PHONE,
        locale="en-GB",
        timezone_id="UTC",
    )
    visitor = Visitor(served, context)
    try:
        if signed_in:
            await visitor.sign_in()
        yield visitor
    finally:
        await context.close()
