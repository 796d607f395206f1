"""Search on the page: what was said is found, shown where it stands, and opened there."""

import re

from playwright.async_api import Page, Request, expect

from holdfast import Message, NewSession, SessionPatch, SessionStatus, Store
from holdfast.model.content import ThoughtContent
from holdfast.model.records import NewCompaction
from tests.web import scenes
from tests.web.visitors import Visitor

ROWS = ".rows li"
SEARCH = "Search titles and messages"


async def said(store: Store, title: str, *texts: str) -> str:
    session = await store.create_session(NewSession(title=title))
    await store.append_messages(session.id, [Message.user(text) for text in texts])
    return session.id


async def test_what_was_said_is_found_and_opened_where_it_stands(page: Page, store: Store) -> None:
    session = await store.create_session(NewSession(title="A long talk"))
    await scenes.long_talk(store, session, 3000)
    await store.append_messages(session.id, [Message.agent("The *ptarmigan* turns white in winter.")])
    await scenes.long_talk(store, session, 3000)
    await page.keyboard.press("/")
    await page.keyboard.type("white ptarm")
    row = page.locator(ROWS)
    await expect(row).to_have_count(1)
    await expect(row.locator(".snippet")).to_have_text("The *ptarmigan* turns white in winter.")
    assert await row.locator("mark").all_text_contents() == ["ptarmigan", "white"]
    assert "q=white+ptarm" in page.url
    await row.click()
    found = page.locator(".message.found")
    await expect(found).to_be_in_viewport()
    await expect(found).to_contain_text("The ptarmigan turns white")
    assert page.url.endswith(f"#/sessions/{session.id}/messages/3001")
    await expect(page.get_by_role("button", name="Latest")).to_be_visible()
    await page.reload()
    await expect(found).to_be_in_viewport()
    await expect(page.get_by_role("searchbox")).to_have_value("white ptarm")
    await page.get_by_role("button", name="Latest").click()
    await expect(page.get_by_text("message 3000 of the talk").last).to_be_in_viewport()


async def test_what_is_folded_away_is_unfolded_for_who_looked_for_it(page: Page, store: Store) -> None:
    session = await store.create_session(NewSession(title="Folded"))
    thought = Message.of("agent", ThoughtContent(text="Is it a capercaillie?", partial=False))
    await store.append_messages(session.id, [Message.user("Which bird?"), thought, Message.agent("It is.")])
    fold = NewCompaction(strategy="summary", params={}, first_seq=1, last_seq=2, summary="A bird.")
    await store.commit_compaction(session.id, fold)
    await page.get_by_role("searchbox", name=SEARCH).fill("capercaillie")
    await expect(page.locator(ROWS)).to_have_count(1)
    await page.locator(ROWS).click()
    await expect(page.get_by_text("Is it a capercaillie?").last).to_be_in_viewport()


async def test_what_was_said_stays_text_in_the_list(page: Page, store: Store) -> None:
    await said(store, "Hostile", "<img src=x onerror=alert(1)> & <b>dotterel</b>")
    await page.get_by_role("searchbox", name=SEARCH).fill("dotterel")
    await expect(page.locator(ROWS)).to_have_count(1)
    await expect(page.locator(f"{ROWS} .snippet")).to_have_text(
        "<img src=x onerror=alert(1)> & <b>dotterel</b>"
    )
    assert await page.locator(f"{ROWS} .snippet img, {ROWS} .snippet b").count() == 0


async def test_a_search_and_filters_go_together_in_the_address(visitor: Visitor, store: Store) -> None:
    going, over = await said(store, "Going", "a siskin"), await said(store, "Over", "a siskin")
    await store.patch(over, SessionPatch(status=SessionStatus.COMPLETED))
    page = await visitor.open("?q=siskin&status=completed")
    links = page.locator(f"{ROWS} a")
    await expect(links).to_have_count(1)
    await expect(links).to_have_attribute("href", f"#/sessions/{over}/messages/1")
    await page.get_by_role("combobox", name="Status").select_option("")
    await expect(links).to_have_count(2)
    assert page.url.endswith("?q=siskin")
    await store.patch(going, SessionPatch(title="Still going"))  # what has the words keeps its place
    await expect(links.first).to_contain_text("Still going")
    await expect(links).to_have_count(2)


async def test_a_session_is_found_once_the_words_are_said_in_it(visitor: Visitor, store: Store) -> None:
    quiet = await said(store, "Quiet", "nothing yet")
    page = await visitor.open("?q=wryneck")
    await expect(page.get_by_text("No session fits.")).to_be_visible()
    await store.append_messages(quiet, [Message.agent("There: a wryneck!")])
    await expect(page.locator(f"{ROWS} .snippet")).to_have_text("There: a wryneck!")
    await expect(page.get_by_text("No session fits.")).to_be_hidden()


async def test_going_back_takes_the_search_and_the_filters_along(page: Page, store: Store) -> None:
    await said(store, "First", "a dunlin")
    await said(store, "Second", "a whimbrel")
    search, row = page.get_by_role("searchbox", name=SEARCH), page.locator(ROWS)
    await search.fill("dunlin")
    await expect(row).to_have_text([re.compile("a dunlin")])
    await row.click()
    await expect(page.get_by_role("heading", name="First")).to_be_visible()
    await search.fill("whimbrel")
    await expect(row).to_have_text([re.compile("a whimbrel")])
    await page.go_back()
    await expect(search).to_have_value("dunlin")
    await expect(row).to_have_text([re.compile("a dunlin")])
    assert "q=dunlin" in page.url
    await page.go_forward()
    await expect(search).to_have_value("whimbrel")
    await expect(row).to_have_text([re.compile("a whimbrel")])


async def test_a_compacted_session_is_among_the_active_ones(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(agent="stilt", title="Folded but alive"))
    await store.patch(session.id, SessionPatch(status=SessionStatus.COMPACTED))
    page = await visitor.open("?agent=stilt")
    await page.get_by_role("combobox", name="Status").select_option("Active")
    await expect(page.get_by_role("combobox", name="Status")).to_have_class("set")
    await expect(page.locator(ROWS)).to_have_count(1)
    await expect(page.locator(ROWS)).to_contain_text("active")
    await page.reload()
    await expect(page.locator(ROWS)).to_have_count(1)


async def test_a_filter_of_the_address_that_is_not_offered_is_shown(visitor: Visitor) -> None:
    page = await visitor.open("?status=active,idle&agent=godwit")
    await expect(page.get_by_role("combobox", name="Status")).to_have_value("active,idle")
    await expect(page.get_by_role("combobox", name="Agent")).to_have_value("godwit")
    await page.get_by_role("combobox", name="Agent").select_option("")
    await expect(page.get_by_role("combobox", name="Agent")).to_have_value("")


async def test_a_search_is_repeated_only_while_something_changes(visitor: Visitor, store: Store) -> None:
    session = await said(store, "Quiet", "a lapwing")
    searches: list[str] = []

    def note(request: Request) -> None:
        if "sessions?q=" in request.url:
            searches.append(request.url)

    visitor.context.on("request", note)
    await visitor.context.clock.install()
    page = await visitor.open("?q=lapwing")
    await expect(page.locator(f"{ROWS} .snippet")).to_have_text("a lapwing")
    await let_pass(page, seconds=40)
    assert len(searches) <= FEW
    await store.append_messages(session, [Message.user("Another lapwing.")])
    await expect(page.locator(f"{ROWS} .snippet")).to_have_text("Another lapwing.")
    searches.clear()
    await let_pass(page, seconds=40)
    assert len(searches) <= FEW


FEW = 4
"""Searches that one change may lead to, while its words are being read. One every two seconds is many."""


async def let_pass(page: Page, seconds: int) -> None:
    for _ in range(seconds):
        await page.clock.run_for(1000)
        await page.evaluate("fetch('/api/me').then((answer) => answer.text())")
