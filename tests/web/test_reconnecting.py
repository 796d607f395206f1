"""What the page shows when the server goes away and comes back."""

import asyncio
import re
import signal

from playwright.async_api import Browser, Page, Route, expect

from holdfast import Message, NewSession, Session, Store, open_store
from holdfast.model.turn import NewTurn
from tests.server.servers import Served
from tests.web import scenes
from tests.web.scenes import PERSON
from tests.web.test_session import begin, prompt, said
from tests.web.visitors import Visitor, visiting

FAST_CLOCK = """
    const { timeout } = AbortSignal;
    AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, milliseconds / 20);
"""


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


async def test_a_server_that_falls_silent_is_not_taken_for_one_that_has_nothing_to_say(
    own_server: Served, browser: Browser
) -> None:
    own_server.start()
    assert own_server.process is not None
    session = await spoken(own_server, "Of curlews", "A curlew calls.")
    async with visiting(browser, own_server) as visitor:
        await visitor.context.clock.install()
        page = await visitor.open(f"#/sessions/{session.id}")
        await expect(page.get_by_text("A curlew calls.").last).to_be_visible()
        own_server.process.send_signal(signal.SIGSTOP)
        try:
            await page.clock.run_for(60_000)
            await expect(page.get_by_text("Not connected.")).to_be_visible()
        finally:
            own_server.process.send_signal(signal.SIGCONT)
        async with open_store(own_server.store_url) as store:
            heard = [Message.agent("And is heard again.")]
            await store.as_principal(PERSON).append_messages(session.id, heard)
        await page.clock.run_for(60_000)
        await expect(page.get_by_text("Not connected.")).to_have_count(0)
        await expect(page.get_by_text("And is heard again.").last).to_be_visible()


async def test_a_prompt_that_cannot_be_sent_is_not_lost(own_server: Served, browser: Browser) -> None:
    own_server.repository()
    own_server.start()
    port = int(own_server.url.rsplit(":", 1)[1])
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        await begin(page, "Begin.\nsay ok")
        await expect(said(page)).to_contain_text("ok")
        own_server.stop(signal.SIGKILL)
        await prompt(page, "Important words")
        await expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
        await expect(page.get_by_role("textbox", name="Prompt")).to_have_value("Important words")
        own_server.start(port)
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.get_by_role("textbox", name="Prompt")).to_have_value("Important words")


async def test_what_was_asked_for_meanwhile_is_shown_once_the_server_is_back(
    own_server: Served, browser: Browser
) -> None:
    own_server.start()
    port = int(own_server.url.rsplit(":", 1)[1])
    session = await spoken(own_server, "Of curlews", "A curlew calls.")
    await spoken(own_server, "Of nothing", "Silence.")
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        rows = page.get_by_role("navigation", name="Sessions").get_by_role("listitem")
        await expect(rows).to_have_count(2)
        own_server.stop(signal.SIGKILL)
        await rows.filter(has_text="Of curlews").click()
        unreachable = page.get_by_text("The server cannot be reached.")
        await expect(page.get_by_role("main").locator(unreachable)).to_be_visible()
        await page.get_by_role("searchbox").fill("curlew")
        await expect(unreachable).to_have_count(2)
        own_server.start(port)
        await expect(page.get_by_role("heading", name="Of curlews")).to_be_visible()
        await expect(page.get_by_text("A curlew calls.").last).to_be_visible()
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("A curlew calls.")
        await expect(unreachable).to_have_count(0)
        assert page.url.endswith(f"#/sessions/{session.id}")


async def test_what_was_scrolled_to_meanwhile_is_shown_once_the_server_is_back(
    own_server: Served, browser: Browser
) -> None:
    own_server.start()
    port = int(own_server.url.rsplit(":", 1)[1])
    async with open_store(own_server.store_url) as opened:
        store = opened.as_principal(PERSON)
        session = await store.create_session(NewSession(title="Long"))
        await scenes.long_talk(store, session, 600)
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open(f"#/sessions/{session.id}")
        await expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()  # all of it is there
        own_server.stop(signal.SIGKILL)
        async with page.expect_event("requestfailed", lambda request: "/messages?" in request.url):
            await page.evaluate("document.querySelector('.scroller').scrollTop = 0")
        own_server.start(port)
        await expect(page.get_by_text("Question 1: what comes after 0?")).to_be_in_viewport()


async def test_a_turn_that_was_asked_for_meanwhile_is_shown_once_the_server_is_back(
    own_server: Served, browser: Browser
) -> None:
    own_server.start()
    port = int(own_server.url.rsplit(":", 1)[1])
    session = await spoken(own_server, "Of curlews", "A curlew calls.")
    async with open_store(own_server.store_url) as store:
        turn = await store.as_principal(PERSON).add_turn(session.id, NewTurn(instruction_summary="Listen"))
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        await expect(page.get_by_role("link", name="Of curlews")).to_be_visible()
        own_server.stop(signal.SIGKILL)
        await page.evaluate(f"location.hash = '#/sessions/{session.id}/turns/{turn.id}'")
        await expect(page.get_by_role("heading", name="This cannot be shown")).to_be_visible()
        own_server.start(port)
        await expect(page.get_by_role("heading", name="Turn 1")).to_be_visible()


async def test_a_session_that_is_half_read_is_read_again(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Half read"))
    page = await visitor.open()
    await page.route(re.compile("/turns"), lambda route: route.abort(), times=1)
    async with page.expect_event("requestfailed"):
        await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
    await store.append_messages(session.id, [Message.agent("And it is live.")])
    await expect(page.get_by_text("And it is live.")).to_be_visible()
    visitor.complaints.clear()


async def test_a_search_that_fails_late_says_nothing_of_the_next_one(visitor: Visitor, page: Page) -> None:
    is_over, failed = asyncio.Event(), asyncio.Event()

    async def fail_late(route: Route) -> None:
        await is_over.wait()
        await route.abort()

    await page.route(re.compile("q=first"), fail_late)
    page.on("requestfailed", lambda _: failed.set())
    search = page.get_by_role("searchbox")
    async with page.expect_request(re.compile("q=first")):
        await search.fill("first of all")
    await search.fill("nothing is called this")
    note = page.get_by_text("No session fits.")
    await expect(note).to_be_visible()
    is_over.set()
    await failed.wait()
    await page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    await expect(note).to_be_visible()
    visitor.complaints.clear()


async def test_a_request_that_is_never_answered_is_given_up_with_a_sentence(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Slow to come"))
    await visitor.context.add_init_script(FAST_CLOCK)
    page = await visitor.open()
    answered = asyncio.Event()

    async def wait(route: Route) -> None:
        await answered.wait()
        await route.abort()

    await page.route(re.compile(f"/api/sessions/{session.id}"), wait, times=1)
    await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
    await expect(page.get_by_text("The server did not answer in time.")).to_be_visible()
    answered.set()
    await expect(page.get_by_role("heading", name="Slow to come")).to_be_visible()
    visitor.complaints.clear()


async def spoken(served: Served, title: str, text: str) -> Session:
    async with open_store(served.store_url) as opened:
        store = opened.as_principal(PERSON)
        session = await store.create_session(NewSession(title=title))
        await store.append_messages(session.id, [Message.agent(text)])
        return session
