"""What the agent is shown in place of messages, on the page: summaries, nothing, or less."""

import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from holdfast import NewSession, Session, Store
from holdfast.compaction.plan import Fold, Plan, Replacement
from holdfast.model.records import Compaction, NewCompaction
from tests.web import scenes
from tests.web.visitors import Visitor


@pytest_asyncio.fixture(loop_scope="session")
async def session(store: Store) -> Session:
    """A talk of sixty messages."""
    session = await store.create_session(NewSession(title="A long talk"))
    await scenes.long_talk(store, session, 60)
    return session


async def test_a_shortened_result_hides_nothing_and_is_marked(
    visitor: Visitor, store: Store, session: Session
) -> None:
    short = scenes.tool("Read billing/money.py", "read", "call-1", result={"lines": 2000})
    await store.append_messages(session.id, [short, *scenes.talk(62, 64)])
    shorter = Replacement(seq=61, content={"type": "text", "text": "…"})
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(message(page, 64)).to_be_visible()
    await compact(store, session, Plan(replaced=(shorter,)))
    await expect(page.get_by_text("The agent sees this shortened")).to_have_count(1)
    await expect(page.get_by_text("Read billing/money.py")).to_be_visible()
    await expect(summaries(page)).to_have_count(0)
    await page.get_by_role("button", name="Undo: let the agent see this whole again").click()
    await expect(page.get_by_text("The agent sees this shortened")).to_have_count(0)
    (undone,) = await store.list_compactions(session.id)
    assert undone.undone_at is not None


async def test_a_summary_that_went_into_a_later_one_stands_no_more(
    visitor: Visitor, store: Store, session: Session
) -> None:
    first = await compact(store, session, folding((1, 20), summary="Twenty numbers."))
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(summaries(page)).to_contain_text("Twenty numbers.")
    await compact(store, session, folding((1, 43), (45, 50), summary="Many numbers."), first)
    await expect(summaries(page)).to_contain_text("Many numbers.")
    await expect(summaries(page)).to_have_count(1)
    await expect(summaries(page)).to_contain_text("The agent sees a summary of 49 messages")
    await expect(message(page, 44)).to_be_visible()  # which is not among them
    await expect(message(page, 46)).to_be_hidden()
    await summaries(page).get_by_role("button", name="Undo the summary").click()
    await expect(summaries(page)).to_contain_text("Twenty numbers.")
    await expect(message(page, 46)).to_be_visible()
    await expect(message(page, 20)).to_be_hidden()


async def test_where_a_summary_goes_on_after_what_is_not_in_it_a_mark_stands(
    visitor: Visitor, store: Store, session: Session
) -> None:
    await compact(store, session, folding((1, 43), (45, 50), (52, 52), summary="Many numbers."))
    page = await visitor.open(f"#/sessions/{session.id}")
    mark = page.get_by_text("6 messages are in the summary above")
    await expect(mark).to_be_visible()
    await expect(page.get_by_text("1 message is in the summary above")).to_be_visible()
    await expect(message(page, 46)).to_be_hidden()
    toggle = mark.locator("..").get_by_role("button")
    for label, shown in (("Hide", True), ("Show", False)):
        await toggle.press("Enter")
        await expect(toggle).to_have_text(label)
        await expect(toggle).to_be_focused()
        await expect(message(page, 46)).to_be_visible(visible=shown)


async def test_the_headings_of_a_summary_stand_outside_its_lists(
    visitor: Visitor, store: Store, session: Session
) -> None:
    summary = "Asked:\n- what comes next?\nDecided:\n- to count\nNames:\none · two"
    await compact(store, session, folding((1, 40), summary=summary))
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(summaries(page).get_by_role("listitem")).to_have_text(["what comes next?", "to count"])
    await expect(summaries(page)).to_contain_text("Decided:")


async def test_what_is_left_out_without_a_summary_is_called_that(
    visitor: Visitor, store: Store, session: Session
) -> None:
    await compact(store, session, Plan(dropped=((1, 40),)))
    page = await visitor.open(f"#/sessions/{session.id}")
    gone = page.get_by_role("region", name="Messages that are left out")
    await expect(gone).to_contain_text("The agent is not shown these 40 messages")
    await expect(summaries(page)).to_have_count(0)
    await expect(message(page, 40)).to_be_hidden()
    await gone.get_by_role("button", name="Show the 40 originals").click()
    await expect(message(page, 40)).to_be_visible()
    await gone.get_by_role("button", name="Undo").click()
    await expect(gone).to_have_count(0)
    await expect(message(page, 40)).to_be_visible()


async def test_originals_are_unfolded_and_folded_with_the_keyboard(
    visitor: Visitor, store: Store, session: Session
) -> None:
    await compact(store, session, folding((1, 56), summary="Many numbers."))
    page = await visitor.open(f"#/sessions/{session.id}")
    toggle = summaries(page).get_by_role("button", name="originals")
    await toggle.focus()
    for label, shown in (("Hide the originals", True), ("Show the 56 originals", False)):
        await page.keyboard.press("Enter")
        await expect(toggle).to_have_text(label)
        await expect(toggle).to_be_focused()
        await expect(message(page, 56)).to_be_visible(visible=shown)


def folding(*ranges: tuple[int, int], summary: str) -> Plan:
    return Plan(folds=(Fold(ranges=ranges, tokens=10, summary=summary),))


async def compact(
    store: Store, session: Session, plan: Plan, planned_on: Compaction | None = None
) -> Compaction:
    """Carry out a plan."""
    new = NewCompaction(
        first_seq=plan.touched[0][0],
        last_seq=plan.touched[-1][1],
        strategy="by hand",
        summary=plan.summary,
        parent_id=planned_on.id if planned_on else None,
        edits=plan.edits(),
    )
    return await store.commit_compaction(session.id, new)


def summaries(page: Page) -> Locator:
    return page.get_by_role("region", name="Summary of earlier messages")


def message(page: Page, number: int) -> Locator:
    return page.get_by_text(f"message {number} of the talk")
