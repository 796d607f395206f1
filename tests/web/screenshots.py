"""Takes the pictures of docs/screenshots: `make screenshots`.

A server of its own, with sessions as agents of the paid world leave them, is visited with a desk,
a tablet and a phone, in light and dark. Where Inter and JetBrains Mono are installed (fonts-inter,
fonts-jetbrains-mono), the page uses them.
"""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import Page, expect

from holdfast import NewSession, Session, Store, open_store
from holdfast.execution.demo import DemoModel
from holdfast.model.records import Repo
from holdfast.model.session import SessionPatch
from holdfast.model.status import SessionStatus
from holdfast.model.turn import NewTurn
from holdfast.questions import QuestionBox
from tests.server.servers import Served, owner_of
from tests.web import scenes
from tests.web.visitors import DESK, PHONE, TABLET, opened_browser, visiting

TARGET = Path(__file__).parents[2] / "docs" / "screenshots"

HOME = Path("/tmp/demo")
"""Where the server lives while it is looked at: the same each time, because the pictures show it."""

WORKING = "Index the invoices by month"
QUESTION = "Where are the amounts of an invoice rounded?"

OTHERS = (
    ("codex", "Upgrade to Python 3.13", SessionStatus.COMPLETED),
    ("gemini", "Explain the ledger's invariants", SessionStatus.COMPLETED),
    ("claude", "Find the slow query on /invoices", SessionStatus.CANCELLED),
    ("opencode", "Translate the error messages", SessionStatus.ERROR),
    ("claude", "Split the settlement job", SessionStatus.COMPLETED),
)


async def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    HOME.mkdir()
    try:
        with DemoModel() as model:
            await take_all(Served(HOME, **scenes.model_settings(HOME, model)), target)
    finally:
        shutil.rmtree(HOME)


async def take_all(served: Served, target: Path) -> None:
    served.start()
    try:
        await visit(served, target)
    finally:
        served.stop()


async def visit(served: Served, target: Path) -> None:
    async with opened_browser() as browser:
        async with visiting(browser, served) as visitor:
            page = await visitor.open()
            await expect(page.get_by_role("button", name="Start a demo session")).to_be_visible()
            await page.screenshot(path=target / "first-visit.png")
        inhabited = await furnish(served)
        for name, size, dark, views in DEVICES:
            async with visiting(browser, served, size, dark=dark) as visitor:
                page = await visitor.open()
                for view in views:
                    await VIEWS[view](page, inhabited)
                    await page.screenshot(path=target / f"{view}-{name}.png")


class Inhabited(NamedTuple):
    """What there is to look at."""

    session: Session
    answer: dict[str, Any]
    """Of a model."""


async def furnish(served: Served) -> Inhabited:
    repo = served.repository("billing")
    scenes.write_billing(repo)
    answer = await scenes.explained_turn(owner_of(served), repo, QUESTION)
    async with open_store(served.store_url) as opened:
        store = opened.as_principal(scenes.PERSON)
        (stored,) = await store.save_repos([Repo(name=repo.name, path=str(repo), branch="main")])
        assert stored.id is not None
        for agent, title, status in OTHERS:
            await _other(store, NewSession(agent=agent, title=title, repo_id=stored.id), status)
        working = await store.create_session(NewSession(agent="codex", title=WORKING, repo_id=stored.id))
        await store.add_turn(working.id, NewTurn(instruction_summary=WORKING))
        session = await scenes.retried_webhooks(store, stored.id, repo)
        box = QuestionBox(served.questions)
        await scenes.asked(box, session, repo)
        await scenes.asked_several(box, session, repo)
        return Inhabited(session, answer)


async def show_session(page: Page, inhabited: Inhabited) -> None:
    await page.evaluate(f"location.hash = '#/sessions/{inhabited.session.id}'")
    await expect(page.get_by_role("article", name="Agent").last).to_contain_text("One thing to decide")
    edit = page.get_by_text("Edit billing/webhooks.py")
    await edit.evaluate("each => each.scrollIntoView({block: 'center'})")
    await expect(page.locator(".diff .added").first).to_be_visible()


async def show_turn(page: Page, inhabited: Inhabited) -> None:
    """A turn of a model, with one of its sources unfolded, and replayed."""
    answer = inhabited.answer
    await page.evaluate(f"location.hash = '#/sessions/{answer['sessionId']}/turns/{answer['turnId']}'")
    sources = page.get_by_role("region", name="Sources")
    await sources.locator("summary").first.click()
    await expect(sources.locator("pre")).to_be_visible()
    await page.get_by_role("button", name="Replay").click()
    await expect(page.get_by_text("Identical.")).to_be_visible()
    sent = page.get_by_role("region", name="What was sent")
    await sent.evaluate("each => each.scrollIntoView({block: 'end'})")
    await page.locator(".scroller").evaluate("each => each.scrollBy(0, 24)")


async def show_inbox(page: Page, inhabited: Inhabited) -> None:
    await page.evaluate("location.hash = '#/inbox'")
    await expect(page.get_by_role("region", name="claude asks you")).to_be_visible()
    await expect(page.get_by_role("link", name=inhabited.session.name).first).to_be_attached()


async def show_new_session(page: Page, inhabited: Inhabited) -> None:
    await page.evaluate("location.hash = '#/'")
    await page.get_by_role("button", name="New session").first.click()
    await page.get_by_role("dialog").get_by_label("Prompt").fill(inhabited.session.name)


VIEWS = {"session": show_session, "turn": show_turn, "inbox": show_inbox, "new-session": show_new_session}

DEVICES = (
    ("desk", DESK, False, ("session", "turn", "inbox", "new-session")),
    ("desk-dark", DESK, True, ("session",)),
    ("tablet", TABLET, False, ("session",)),
    ("phone", PHONE, False, ("session", "inbox")),
    ("phone-dark", PHONE, True, ("inbox",)),
)


async def _other(store: Store, new: NewSession, status: SessionStatus) -> None:
    session = await store.create_session(new)
    await scenes.long_talk(store, session, 4)
    await store.patch(session.id, SessionPatch(status=status))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET))
