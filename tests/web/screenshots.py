"""Takes the pictures of docs/screenshots: `make screenshots`.

A server of its own, with sessions as agents of the paid world leave them, is visited with a desk,
a tablet and a phone, in light and dark. Where Inter and JetBrains Mono are installed (fonts-inter,
fonts-jetbrains-mono), the page uses them.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page, expect

from holdfast import NewSession, Session, Store, open_store
from holdfast.model.records import Repo
from holdfast.model.session import SessionPatch
from holdfast.model.status import SessionStatus
from holdfast.questions import QuestionBox
from tests.server.servers import Served
from tests.web import scenes
from tests.web.visitors import DESK, PHONE, TABLET, opened_browser, visiting

TARGET = Path(__file__).parents[2] / "docs" / "screenshots"

OTHERS = (
    ("codex", "Upgrade to Python 3.13", SessionStatus.COMPLETED),
    ("gemini", "Explain the ledger's invariants", SessionStatus.COMPLETED),
    ("claude", "Find the slow query on /invoices", SessionStatus.CANCELLED),
    ("opencode", "Translate the error messages", SessionStatus.ERROR),
    ("claude", "Split the settlement job", SessionStatus.COMPLETED),
)


async def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        served = Served(Path(home))
        served.start()
        try:
            await take_all(served, target)
        finally:
            served.stop()


async def take_all(served: Served, target: Path) -> None:
    async with opened_browser() as browser:
        async with visiting(browser, served) as visitor:
            page = await visitor.open()
            await expect(page.get_by_role("button", name="Start a demo session")).to_be_visible()
            await page.screenshot(path=target / "first-visit.png")
        session = await furnish(served)
        for name, size, dark, views in DEVICES:
            async with visiting(browser, served, size, dark=dark) as visitor:
                page = await visitor.open()
                for view in views:
                    await VIEWS[view](page, session)
                    await page.screenshot(path=target / f"{view}-{name}.png")
        async with visiting(browser, served) as visitor:
            page = await visitor.open()
            await page.get_by_role("button", name="New session").first.click()
            await page.get_by_role("dialog").get_by_label("Prompt").fill("Retry failed webhooks")
            await page.screenshot(path=target / "new-session.png")


async def show_session(page: Page, session: Session) -> None:
    await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
    await expect(page.get_by_role("article", name="Agent").last).to_contain_text("One thing to decide")
    edit = page.get_by_text("Edit billing/webhooks.py")
    await edit.evaluate("each => each.scrollIntoView({block: 'center'})")
    await expect(page.locator(".diff .added").first).to_be_visible()


async def show_turn(page: Page, session: Session) -> None:
    await show_session(page, session)
    await page.get_by_role("link", name="Turn 8 ·").evaluate("each => each.click()")
    await expect(page.locator(".turn-timeline")).to_be_visible()


async def show_inbox(page: Page, session: Session) -> None:
    await page.evaluate("location.hash = '#/inbox'")
    await expect(page.get_by_role("region", name="claude asks you")).to_be_visible()
    await expect(page.get_by_role("link", name=session.name).first).to_be_attached()


VIEWS = {"session": show_session, "turn": show_turn, "inbox": show_inbox}

DEVICES = (
    ("desk", DESK, False, ("session", "turn", "inbox")),
    ("desk-dark", DESK, True, ("session",)),
    ("tablet", TABLET, False, ("session",)),
    ("phone", PHONE, False, ("session", "inbox")),
    ("phone-dark", PHONE, True, ("inbox",)),
)


async def furnish(served: Served) -> Session:
    """What an inhabited server has; the session to look at."""
    repo = served.repository("billing")
    async with open_store(served.store_url) as opened:
        store = opened.as_principal(scenes.PERSON)
        (stored,) = await store.save_repos([_repo(repo)])
        assert stored.id is not None
        for agent, title, status in OTHERS:
            await _other(store, NewSession(agent=agent, title=title, repo_id=stored.id), status)
        session = await scenes.retried_webhooks(store, stored.id, repo)
        box = QuestionBox(served.questions)
        await scenes.asked(box, session, repo)
        await scenes.asked_several(box, session, repo)
        return session


def _repo(path: Path) -> Repo:
    return Repo(name=path.name, path=str(path), branch="main")


async def _other(store: Store, new: NewSession, status: SessionStatus) -> None:
    session = await store.create_session(new)
    await scenes.long_talk(store, session, 4)
    await store.patch(session.id, SessionPatch(status=status))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET))
