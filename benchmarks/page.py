"""How fast the page is: `python -m benchmarks.page` (Chromium, loopback, a server of its own).

Opening a session is measured from the click on it until its last message is on the page and
painted; what the browser spends on loading the page itself comes before and is the same for all.
Streaming is measured as the script time of each update while an agent talks as fast as it can.
"""

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from playwright.async_api import Page, expect

from holdfast import NewSession, open_store
from tests.server.servers import Served
from tests.web import scenes
from tests.web.visitors import Visitor, opened_browser, visiting

OPENING = """async (id) => {
  const began = performance.now();
  location.hash = `#/sessions/${id}`;
  await new Promise((resolve) => {
    const painted = () => requestAnimationFrame(() => setTimeout(resolve));
    const look = () => (document.querySelector(".timeline .message") ? painted() : setTimeout(look));
    look();
  });
  return performance.now() - began;
}"""


async def main(messages: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        served = Served(Path(home))
        served.repository()
        served.start()
        try:
            async with opened_browser() as browser, visiting(browser, served) as visitor:
                await measure(served, visitor, messages, rounds)
        finally:
            served.stop()


async def measure(served: Served, visitor: Visitor, messages: int, rounds: int) -> None:
    page = await visitor.open()
    await expect(page.get_by_role("button", name="Start a demo session")).to_be_visible()
    sent, whole = await page.evaluate(WEIGHT)
    print(f"page weight: {sent / 1000:.0f} KB as sent, {whole / 1000:.0f} KB unpacked")
    sessions: dict[int, str] = {}
    times: dict[int, list[float]] = {}
    async with open_store(served.store_url) as opened:
        store = opened.as_principal(scenes.PERSON)
        for count in (100, messages):
            session = await store.create_session(NewSession(title=f"{count} messages"))
            await scenes.long_talk(store, session, count)
            sessions[count], times[count] = session.id, []
    for _ in range(rounds):
        for count, session_id in sessions.items():
            times[count].append(await opening(page, session_id))
    for count, taken in times.items():
        shown = ", ".join(f"{time:.0f}" for time in taken)
        print(f"opening {count:,} messages: median {statistics.median(taken):.0f} ms ({shown})")
    ratio = statistics.median(times[messages]) / statistics.median(times[100])
    print(f"{messages:,} messages against 100: {ratio:.2f}x")
    await streaming(page)


async def opening(page: Page, session_id: str) -> float:
    await page.evaluate("location.hash = '#/'")
    await expect(page.locator(".timeline")).to_have_count(0)
    time: float = await page.evaluate(OPENING, session_id)
    return time


async def streaming(page: Page) -> None:
    await page.reload()
    await page.evaluate("window.measured = []")
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    await dialog.get_by_label("Prompt").fill("Talk.\nflood 20000")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("article", name="Agent").last).to_contain_text("19999", timeout=120_000)
    updates = await page.evaluate("window.measured")
    updates.sort()
    median, p95 = updates[len(updates) // 2], updates[int(len(updates) * 0.95)]
    print(f"streaming: {len(updates)} updates, script time p50 {median:.2f} ms, p95 {p95:.2f} ms")


WEIGHT = """performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter(({ name }) => !name.includes("/api/"))
  .reduce(([sent, whole], each) => [sent + each.encodedBodySize, whole + each.decodedBodySize], [0, 0])"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    asyncio.run(main(given.messages, given.rounds))
