"""From nothing to an answered permission request."""

from playwright.async_api import Browser, Page, Route, expect

from tests.server.servers import Served
from tests.web.test_session import allow
from tests.web.visitors import DESK, Visitor, visiting


async def test_two_clicks_lead_from_nothing_to_a_working_session(
    own_server: Served, browser: Browser
) -> None:
    own_server.start()
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        await page.get_by_role("button", name="Start a demo session").click()
        await page.get_by_role("button", name="Ask me before it writes").click()
        question = page.get_by_role("region", name="demo wants your permission")
        await expect(question).to_contain_text("Write hello.txt")
        await question.get_by_role("button", name="Allow").first.click()
        answer = page.get_by_role("article", name="Agent")
        await expect(answer.last).to_contain_text("everything that led to it is kept here")
        assert visitor.complaints == []
        assert visitor.elsewhere == []
    written = own_server.workspace / "holdfast-demo" / "hello.txt"
    assert written.read_text() == "Hello from your first session.\n"


async def test_the_link_that_serve_prints_signs_in_once(own_server: Served, browser: Browser) -> None:
    own_server.start()
    link = next(word for word in own_server.printed.split() if "/sign-in?" in word)
    async with visiting(browser, own_server, signed_in=False) as visitor:
        page = await visitor.context.new_page()
        for _ in range(2):  # who is signed in may use the link again
            await page.goto(link)
            await expect(page.get_by_role("heading", name="Sessions that hold fast")).to_be_visible()
    async with visiting(browser, own_server, signed_in=False) as another:
        page = await another.context.new_page()
        await page.goto(link)
        heading = page.get_by_role("heading", name="Sign in to Holdfast")
        await expect(heading).to_be_visible()
        await expect(page.get_by_text("holdfast token link")).to_be_visible()
        box = await page.locator(".empty-page").bounding_box()
        assert box is not None
        assert abs(2 * box["x"] + box["width"] - DESK[0]) < 20  # it stands in the middle


async def test_agents_that_are_not_installed_say_how_to_get_them(page: Page) -> None:
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    await expect(dialog.get_by_role("radio", name="demo")).to_be_checked()
    await dialog.get_by_text("and how to get them").click()
    gemini = dialog.get_by_role("radio", name="gemini")
    await expect(gemini).to_be_disabled()
    await expect(dialog).to_contain_text("npm install -g @google/gemini-cli")


async def test_a_key_that_comes_right_after_a_dialog_is_heard(page: Page) -> None:
    prompt = page.get_by_role("dialog", name="New session").get_by_label("Prompt")
    await page.keyboard.press("n")
    await prompt.fill("Greet me.")
    await page.evaluate("""() => {
        const focused = document.activeElement;
        focused.closest("dialog").close();
        focused.dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true }));
    }""")
    await expect(prompt).to_have_value("Greet me.")


async def test_a_prompt_that_was_begun_is_there_when_the_dialog_opens_again(page: Page) -> None:
    await page.set_viewport_size({"width": 1280, "height": 800})
    prompt = page.get_by_role("dialog", name="New session").get_by_label("Prompt")
    await page.keyboard.press("n")
    await prompt.fill("Greet me.\nsay Hello")
    await page.keyboard.press("Escape")
    await expect(prompt).to_have_count(0)
    await page.keyboard.press("n")
    await expect(prompt).to_have_value("Greet me.\nsay Hello")
    field, footer = await prompt.bounding_box(), await page.locator("dialog footer").bounding_box()
    assert field is not None
    assert footer is not None
    assert field["y"] + field["height"] <= footer["y"]
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("heading", name="Greet me.")).to_be_visible()
    await page.get_by_role("button", name="New session").first.click()
    await expect(prompt).to_have_value("")


async def test_a_suggestion_that_is_clicked_twice_is_sent_once(own_server: Served, browser: Browser) -> None:
    own_server.start()
    async with visiting(browser, own_server) as visitor:
        page = await visitor.open()
        await page.get_by_role("button", name="Start a demo session").click()
        await page.get_by_role("button", name="Run a command").dblclick()
        await allow(page)
        await expect(page.get_by_role("article", name="Agent").last).to_contain_text("what the repository")
        assert [each for each in visitor.requests if each.endswith("/prompt")] == [
            f"/api/sessions/{page.url.split('/')[-1]}/prompt"
        ]


async def test_why_an_agent_did_not_start_is_told_in_its_lines(page: Page, visitor: Visitor) -> None:
    why = "\n".join(["The agent did not start.", *(f"  File {number}" for number in range(60))])

    async def refuse(route: Route) -> None:
        await route.fulfill(status=502, content_type="application/problem+json", json={"detail": why})

    await page.route("**/api/sessions", refuse)
    await page.keyboard.press("n")
    await expect(page.get_by_role("dialog").get_by_label("Repository")).not_to_have_value("")
    await page.keyboard.press("Control+Enter")
    problem = page.get_by_role("dialog").get_by_role("alert")
    assert await problem.inner_text() == why
    box = await problem.bounding_box()
    assert box is not None
    assert box["height"] < 200
    visitor.complaints.clear()


async def test_a_session_begins_with_its_first_prompt(page: Page, visitor: Visitor) -> None:
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    await dialog.get_by_label("Prompt").fill("Greet me.\nsay Hello there")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("heading", name="Greet me.")).to_be_visible()
    await expect(page.get_by_role("article", name="Agent")).to_contain_text("Hello there")
    await expect(page.get_by_role("navigation", name="Sessions")).to_contain_text("Greet me.")
