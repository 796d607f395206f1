"""The list of sessions: it is what the server has, whatever the tab went through."""

import re

from playwright.async_api import Locator, Page, Route, expect

from holdfast import Message, NewSession, Store
from holdfast.model.turn import NewTurn, TurnAnswer
from tests.web.test_session import choose
from tests.web.visitors import Visitor

HIDDEN = """
    let visibility = "hidden";
    Object.defineProperty(document, "visibilityState", { get: () => visibility });
    window.lookAtIt = () => {
        visibility = "visible";
        document.dispatchEvent(new Event("visibilitychange"));
    };
"""
"""A tab in the background. Every tab that Playwright opens believes that somebody looks at it."""


async def test_a_tab_opened_in_the_background_has_what_happened_before_it_was_looked_at(
    visitor: Visitor, page: Page, store: Store
) -> None:
    await store.create_session(NewSession(title="Before"))
    await visitor.context.add_init_script(HIDDEN)
    background = await visitor.open()  # the other tab is the one that announces
    await expect(rows(background).first).to_contain_text("Before")
    await store.create_session(NewSession(title="In the meantime"))
    await expect(rows(page).first).to_contain_text("In the meantime")
    await background.evaluate("lookAtIt()")
    await expect(rows(background).first).to_contain_text("In the meantime")


async def test_a_feed_that_fails_at_first_misses_nothing(visitor: Visitor, page: Page, store: Store) -> None:
    await store.create_session(NewSession(title="Before"))
    elsewhere = await visitor.open()

    async def fail(route: Route) -> None:
        await expect(rows(page).first).to_contain_text("Before")
        await store.create_session(NewSession(title="Nobody listens"))
        await expect(rows(elsewhere).first).to_contain_text("Nobody listens")
        await route.abort()

    await page.route(re.compile(r"/api/events(?!.*wait=)"), fail, times=1)
    await page.reload()
    await expect(rows(page).first).to_contain_text("Nobody listens")
    visitor.complaints.clear()


async def test_a_deleted_session_does_not_come_back(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Not for long"))
    page = await visitor.open(f"#/sessions/{session.id}")
    row = rows(page).filter(has_text="Not for long")
    await expect(row).to_be_visible()

    async def answer_late(route: Route) -> None:
        answer = await route.fetch()
        await expect(row).to_have_count(0)
        await route.fulfill(response=answer)

    await page.route("**/*purge=true", answer_late)
    await choose(page, "Delete…")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await page.wait_for_url("**/#/")
    await store.create_session(NewSession(title="What came after"))
    await expect(rows(page).first).to_contain_text("What came after")
    await expect(row).to_have_count(0)


async def test_the_mark_of_what_is_unread_goes_when_it_is_read(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Being read"))
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(page.get_by_role("heading", name="Being read")).to_be_visible()
    await page.evaluate("location.hash = '#/'")
    await store.append_messages(session.id, [Message.agent("Something new.")])
    row = rows(page).filter(has_text="Being read")
    await expect(row).to_contain_text("unread")
    await row.click()
    await expect(page.get_by_text("Something new.")).to_be_visible()
    await expect(row).not_to_contain_text("unread")


async def test_an_answer_that_ends_while_nobody_looks_is_unread(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Half heard"))
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="Tell me"))
    stream = await store.open_stream(session.id, Message.agent("", partial=True), turn_id=turn.id)
    stream.write("It begins")
    await stream.drain()
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(page.get_by_text("It begins").last).to_be_visible()
    row = rows(page).filter(has_text="Half heard")
    await expect(row).not_to_contain_text("unread")
    await page.evaluate("location.hash = '#/'")
    await expect(page.get_by_role("region", name="Welcome")).to_be_visible()
    stream.write(" and ends.")
    await stream.end()
    await store.complete_turn(session.id, turn.id, TurnAnswer(agent_answer_summary="Told."))
    await expect(row).to_contain_text("unread")
    await row.click()
    await expect(page.get_by_text("It begins and ends.").last).to_be_visible()
    await expect(row).not_to_contain_text("unread")


async def test_a_session_that_was_never_open_here_is_unread_once_it_goes_on(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Begun elsewhere"))
    await store.append_messages(session.id, [Message.agent("Long ago.")])
    page = await visitor.open()
    row = rows(page).filter(has_text="Begun elsewhere")
    await expect(row).to_be_visible()
    await expect(row).not_to_contain_text("unread")
    await store.append_messages(session.id, [Message.agent("Just now.")])
    await expect(row).to_contain_text("unread")


async def test_a_filter_that_is_not_known_is_told_in_words(visitor: Visitor, store: Store) -> None:
    await store.create_session(NewSession(title="Still there"))
    page = await visitor.open("?status=bogus")
    note = page.get_by_text("The address has a filter that is not known.")
    await note.get_by_role("button", name="Show all").click()
    await expect(rows(page).first).to_be_visible()
    await expect(note).to_have_count(0)
    visitor.complaints.clear()


async def test_a_very_high_window_is_filled(visitor: Visitor, store: Store) -> None:
    for number in range(100):
        await store.create_session(NewSession(agent="starling", title=f"One of many, {number}"))
    page = await visitor.context.new_page()
    await page.set_viewport_size({"width": 1200, "height": 10_000})
    await page.goto(f"{visitor.served.url}/?agent=starling")
    await expect(rows(page)).to_have_count(100)


async def test_of_a_long_list_only_what_is_near_is_on_the_page(visitor: Visitor, store: Store) -> None:
    for number in range(300):
        await store.create_session(NewSession(agent="knot", title=f"Knot {number}"))
    page = await visitor.open("?agent=knot")
    await expect(rows(page).first).to_contain_text(re.compile(r"Knot 29\d"))  # some began in one millisecond
    for number in range(260, -1, -20):
        await rows(page).filter(has_text=re.compile(rf"Knot {number}(?!\d)")).scroll_into_view_if_needed()
    await expect(page.get_by_role("link", name="Knot 0 ")).to_be_in_viewport()
    assert await rows(page).count() < 120
    await store.create_session(NewSession(agent="knot", title="The latest knot"))
    await page.locator(".row-area").evaluate("(each) => each.scrollTo(0, 0)")
    await expect(page.get_by_role("link", name="The latest knot")).to_be_in_viewport()
    await expect(page.get_by_role("link", name="Knot 299 ")).to_be_in_viewport()
    assert await rows(page).count() < 120


def rows(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Sessions").get_by_role("listitem")
