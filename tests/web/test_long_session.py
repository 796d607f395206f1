"""A session of 100,000 messages opens at its end as fast as one of a hundred, and is scrolled smoothly.

What is asserted is work, not time: requests and elements. Times are what `benchmarks/page.py` measures.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest_asyncio
from playwright.async_api import expect

from holdfast import Message, NewSession, Session, Store, open_store
from holdfast.questions import QuestionBox
from tests.server.servers import Served
from tests.web import scenes
from tests.web.test_writing import held
from tests.web.visitors import Visitor

MANY = 100_000

SHELF = 2500
"""Messages that stand on one shelf of the timeline."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def long_session(served: Served) -> AsyncIterator[Session]:
    async with open_store(served.store_url) as opened:
        store = opened.as_principal(scenes.PERSON)
        session = await store.create_session(NewSession(title="Very long"))
        await scenes.long_talk(store, session, MANY)
        yield await store.get_session(session.id)


async def test_it_opens_at_its_end_with_no_more_work_than_a_short_one(
    visitor: Visitor, store: Store, long_session: Session
) -> None:
    short = await store.create_session(NewSession(title="Short"))
    await scenes.long_talk(store, short, 100)
    asked, shown = {}, {}
    for session, last in ((short, 100), (long_session, MANY)):
        page = await visitor.open()
        await expect(page.locator(".rows a").first).to_be_visible()
        visitor.requests.clear()
        await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
        await expect(page.get_by_text(f"message {last} of the talk")).to_be_in_viewport()
        asked[session.id] = [path.replace(session.id, "ID") for path in visitor.requests]
        shown[session.id] = await page.locator(".message").count()
        await page.close()
    assert len(asked[long_session.id]) <= len(asked[short.id]) + 1
    assert shown[long_session.id] <= 150


async def test_any_place_of_it_is_reached_and_only_what_is_near_is_kept(
    visitor: Visitor, long_session: Session
) -> None:
    page = await visitor.open(f"#/sessions/{long_session.id}")
    await expect(page.get_by_text(f"message {MANY} of the talk")).to_be_in_viewport()
    for share in (0.5, 0.25, 0.0):
        await page.evaluate(f"{SCROLLER}.scrollTop = {SCROLLER}.scrollHeight * {share}")
        await expect(page.locator(".stretch .message").first).to_be_attached()
        await page.wait_for_function(SOMETHING_IS_SEEN)
        assert await page.locator(".message").count() <= 400
    await expect(page.get_by_text("Question 1: what comes after 0?")).to_be_in_viewport()
    await page.get_by_role("button", name="Latest").click()
    await expect(page.get_by_text(f"message {MANY} of the talk")).to_be_in_viewport()


async def test_what_is_said_is_seen_at_the_end_and_does_not_move_who_reads_above(
    visitor: Visitor, store: Store, long_session: Session
) -> None:
    page = await visitor.open(f"#/sessions/{long_session.id}")
    await expect(page.get_by_text(f"message {MANY} of the talk")).to_be_in_viewport()
    await store.append_messages(long_session.id, [Message.agent("Something new")])
    await expect(page.get_by_text("Something new")).to_be_in_viewport()
    await page.evaluate(f"{SCROLLER}.scrollTop -= 3000")
    await expect(page.get_by_role("button", name="Latest")).to_be_visible()
    await page.wait_for_function(SOMETHING_IS_SEEN)
    before = await page.evaluate(PLACE_OF_WHAT_IS_READ)
    await store.append_messages(long_session.id, [Message.agent("Something newer")])
    await expect(page.get_by_text("Something newer")).to_be_attached()
    assert abs(await page.evaluate(PLACE_OF_WHAT_IS_READ) - before) <= 1


async def test_what_arrives_while_somebody_reads_above_is_not_kept_on_the_page(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Far above"))
    await scenes.long_talk(store, session, 400)
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()
    await page.evaluate(f"{SCROLLER}.scrollTop = 0")
    await expect(page.get_by_text("Question 1: what comes after 0?")).to_be_in_viewport()
    for first in range(401, 1401, 50):
        await store.append_messages(session.id, scenes.talk(first, first + 49))
        await expect(page.get_by_text(f"message {first + 49} of the talk")).to_be_attached()
    assert await page.locator(".message").count() <= 300


async def test_what_is_said_across_the_edge_of_a_shelf_can_be_read(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="At the edge"))
    await scenes.long_talk(store, session, SHELF - 60)
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(page.get_by_text(f"message {SHELF - 60} of the talk")).to_be_in_viewport()
    await store.append_messages(session.id, scenes.talk(SHELF - 59, SHELF + 20))
    await expect(page.get_by_text(f"message {SHELF + 20} of the talk")).to_be_in_viewport()
    await page.evaluate(f"{SCROLLER}.scrollTop -= 3000")
    for number in (SHELF + 2, SHELF, SHELF - 48, SHELF - 50):
        await page.get_by_text(f"message {number} of the talk").scroll_into_view_if_needed()


async def test_a_question_that_waits_is_in_sight_when_its_session_opens(
    visitor: Visitor, served: Served, store: Store, box: QuestionBox
) -> None:
    session = await store.create_session(NewSession(title="Asked at the end"))
    await scenes.long_talk(store, session, 20)
    await scenes.asked(box, session, served.workspace / "atlas")
    await visitor.context.add_init_script(SIZES_ARE_TOLD_LATE)
    page = await visitor.open()
    await expect(page.get_by_role("link", name="Inbox 1 waiting")).to_be_visible()
    async with held(page, "**/api/markdown"):  # so that the empty room is seen first, which is higher
        await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
        await page.wait_for_function(f"() => {SCROLLER}?.scrollTop > 0")
    await expect(page.get_by_role("textbox", name="Prompt")).to_be_focused()  # all of it is there
    await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    await expect(page.get_by_role("button", name="Allow")).to_be_in_viewport()


async def test_each_day_is_named_once_where_it_begins(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="For days"))
    begin = datetime(2026, 3, 30, tzinfo=UTC)
    days = [begin + timedelta(hours=6 * number) for number in range(120)]
    said = [
        msgspec.structs.replace(each, timestamp=at)
        for each, at in zip(scenes.talk(1, 120), days, strict=True)
    ]
    await store.append_messages(session.id, said)
    page = await visitor.open(f"#/sessions/{session.id}")
    await page.set_viewport_size({"width": 1200, "height": 15_000})
    await expect(page.locator(".day")).to_have_count(30)
    await expect(page.locator(".day").first).to_have_text("Monday, 30 March 2026")


SCROLLER = "document.querySelector('.scroller')"

SIZES_ARE_TOLD_LATE = """
    window.ResizeObserver = class extends ResizeObserver {
        constructor(told) {
            super((...sizes) => requestAnimationFrame(() => told(...sizes)));
        }
    };
"""
"""As on a machine with much to do: what was scrolled is told of before what has grown."""

SOMETHING_IS_SEEN = """() => {
  const { x, y, width, height } = document.querySelector('.scroller').getBoundingClientRect();
  const near = [0, 20, 40].map((by) => document.elementFromPoint(x + width / 2, y + height / 2 + by));
  return near.some((each) => each.closest('.message'));
}"""

PLACE_OF_WHAT_IS_READ = """() => {
  const { x, y, width, height } = document.querySelector('.scroller').getBoundingClientRect();
  const near = [0, 20, 40].map((by) => document.elementFromPoint(x + width / 2, y + height / 2 + by));
  window.read ??= near.map((each) => each.closest('.message')).find(Boolean);
  return window.read.getBoundingClientRect().y;
}"""
