"""A session on the page: seen while it happens, and steered."""

from playwright.async_api import FloatRect, Locator, Page, Route, expect

from holdfast import Message, NewSession, Store
from holdfast.model.ids import RepoId
from holdfast.model.session import SessionPatch
from tests.server.servers import Served
from tests.web import scenes
from tests.web.visitors import Visitor


async def test_words_are_seen_while_they_are_said(page: Page) -> None:
    await begin(page, "Count for a while.\nslow 2000")
    answer = said(page)
    await expect(answer).to_contain_text("3 4")
    await expect(page.locator(".streaming")).to_be_visible()
    seen = len(await answer.inner_text())
    await expect(answer).to_contain_text(f" {seen // 2} ")
    await page.get_by_role("button", name="Stop the turn").click()
    await expect(page.locator(".streaming")).to_have_count(0)
    await expect(page.get_by_role("link", name="Turn 1 ·")).not_to_contain_text("running")


async def test_what_is_shown_live_is_what_a_reload_shows(page: Page) -> None:
    await begin(page, "Do it all.\nthink Hm.\nplan One; Two\nrun echo hello\nsay Some **bold** words")
    await allow(page)
    await expect(said(page)).to_contain_text("Some bold words")
    await expect(page.get_by_role("link", name="Turn 1 ·")).not_to_contain_text("running")
    log = page.get_by_role("log")
    live = await log.inner_text()
    await page.reload()
    await expect(log).to_have_text(live, use_inner_text=True)


async def test_finished_paragraphs_are_markdown_while_the_rest_still_streams(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Streaming"))
    page = await visitor.open(f"#/sessions/{session.id}")
    await expect(page.get_by_role("heading", name="Streaming")).to_be_visible()
    stream = await store.open_stream(session.id, Message.agent("", partial=True))
    for piece in ("A **bold** start.\n", "\n```\ncode\n\n", "is **not"):
        stream.write(piece)
        await stream.drain()
    await expect(said(page).locator("strong")).to_have_text("bold")
    await expect(said(page)).to_contain_text("is **not")
    stream.write("** bold.\n```")
    await stream.end()
    await expect(page.locator(".streaming")).to_have_count(0)
    await expect(said(page).locator("strong")).to_have_text("bold")


async def test_nothing_waits_for_a_text_that_takes_long_to_be_made_markdown(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="A long story"))
    story, book = "It was a *dark* night. " * 2_000, "It was a *dark* night. " * 20_000
    await store.append_messages(session.id, [Message.agent(story), Message.agent(book)])
    await store.append_messages(session.id, [Message.agent("The **end**.")])
    page = await visitor.open()
    sent: list[str] = []

    async def hold_what_is_long(route: Route) -> None:
        sent.append(route.request.post_data or "")
        if story in sent[-1]:
            await expect(said(page)).to_have_text("The end.")
        await route.fallback()

    await page.route("**/api/markdown", hold_what_is_long)
    await page.evaluate(f"location.hash = '#/sessions/{session.id}'")
    answers = page.get_by_role("article", name="Agent")
    await expect(answers.first.locator("em").first).to_have_text("dark")
    await expect(answers.nth(1)).to_contain_text("It was a *dark* night.")
    assert not any(book in each for each in sent)


async def test_a_prompt_given_meanwhile_waits_its_turn(page: Page) -> None:
    await begin(page, "Count for a while.\nslow 2000")
    await expect(said(page)).to_contain_text("1 2")
    await prompt(page, "And then?\nsay That was the second.")
    queue = page.get_by_role("list", name="Prompts that wait")
    await expect(queue).to_contain_text("And then?")
    await page.get_by_role("button", name="Stop the turn").click()
    await expect(said(page)).to_contain_text("That was the second.")
    await expect(queue).to_be_hidden()


async def test_thoughts_are_folded_and_plans_show_their_progress(page: Page) -> None:
    await begin(page, "Think.\nthink The whole of the thought\nplan First; Second\nrun true\nsay ok")
    await allow(page)
    await expect(said(page)).to_contain_text("ok")
    thought = page.locator("details.thought")
    await expect(thought).not_to_have_attribute("open", "")
    await thought.locator("summary").click()
    await expect(thought.locator(".text")).to_contain_text("The whole of the thought")
    plans = page.get_by_role("log").get_by_role("region", name="Plan")
    await expect(plans).to_have_count(1)
    await expect(plans).to_contain_text("2 of 2 done")


async def test_a_command_shows_its_output_and_a_failure_its_exit_code(page: Page) -> None:
    await begin(page, "Run.\nrun printf '\\033[31mred\\033[0m plain'; exit 3")
    await allow(page)
    tool = page.locator("details.tool")
    await expect(tool).to_contain_text("Exit code 3")
    await expect(tool.locator(".ansi-1")).to_have_text("red")


async def test_what_a_command_writes_is_seen_while_it_runs(page: Page, served: Served) -> None:
    await begin(page, "Run.\nrun echo begun; while [ ! -e over ]; do sleep 0.01; done; echo over")
    await allow(page)
    output = page.locator("details.tool .output")
    await expect(output).to_have_text("begun\n")
    (served.workspace / "atlas" / "over").touch()
    await expect(output).to_have_text("begun\nover\n")


async def test_a_long_output_says_what_is_left_out_and_begins_at_its_end(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Talkative"))
    text = "".join(f"line {number:05}\n" for number in range(11_000))
    ran = scenes.tool("make", "execute", "call-1", status="failed", result={"output": text, "exitCode": 2})
    await store.append_messages(session.id, [ran])
    page = await visitor.open(f"#/sessions/{session.id}")
    tool = page.locator("details.tool")
    await expect(tool).to_contain_text("21,000 characters before this are not shown")
    output = tool.locator(".output")
    assert await output.evaluate("each => each.scrollTop + each.scrollHeight - each.clientHeight") > 0
    end = await box_of(output)
    pre = await box_of(output.locator("pre"))
    assert abs((pre["y"] + pre["height"]) - (end["y"] + end["height"])) < 2


async def test_a_long_command_is_read_whole_in_its_opened_card(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Commands"))
    command = "for each in *; do\n  echo $each\ndone " + "# and so on " * 20
    ran = scenes.tool(command, "execute", "call-1", args={"command": command}, result={"output": "ok"})
    await store.append_messages(session.id, [ran])
    page = await visitor.open(f"#/sessions/{session.id}")
    tool = page.locator("details.tool")
    await tool.locator("summary").click()
    assert await tool.locator("pre.command").inner_text() == command


async def test_a_session_is_renamed_forked_completed_and_resumed(page: Page) -> None:
    await begin(page, "Begin.\nsay Ready.")
    await expect(said(page)).to_contain_text("Ready.")
    await choose(page, "Rename…")
    dialog = page.get_by_role("dialog", name="Rename the session")
    await dialog.get_by_label("Title").fill("Of my own choosing")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Of my own choosing")).to_be_visible()
    await choose(page, "Complete")
    await expect(page.get_by_text("This session is completed.")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    await prompt(page, "Again.\nsay Back again.")
    await expect(said(page)).to_contain_text("Back again.")
    first = page.url
    await choose(page, "Fork")
    await page.wait_for_url(lambda url: url != first)
    await expect(said(page)).to_contain_text("Back again.")


async def test_a_session_is_archived_and_found_by_its_filter(page: Page) -> None:
    await begin(page, "To be kept.\nsay ok")
    await begin(page, "To be put away.\nsay ok")
    await expect(said(page)).to_contain_text("ok")
    await choose(page, "Archive")
    await expect(page.get_by_text("This session is archived.")).to_be_visible()
    rows = page.get_by_role("navigation", name="Sessions").get_by_role("listitem")
    put_away = rows.filter(has_text="To be put away.")
    await expect(put_away).to_have_count(0)
    await page.reload()
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await expect(rows.first).to_be_visible()
    await expect(put_away).to_have_count(0)
    await page.get_by_role("combobox", name="Status").select_option("archived")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("To be put away.")
    assert "?status=archived" in page.url
    await page.reload()
    await expect(rows).to_have_count(1)
    await expect(page.get_by_role("combobox", name="Status")).to_have_value("archived")
    await page.get_by_role("button", name="Resume").click()
    await expect(put_away).to_have_count(0)
    await page.get_by_role("combobox", name="Status").select_option("")
    await expect(put_away).to_be_visible()


async def test_a_session_is_found_by_what_is_in_its_title(page: Page) -> None:
    await begin(page, "Xylophone lessons.\nsay ok")
    await page.keyboard.press("Escape")
    await page.get_by_role("searchbox", name="Search titles and messages").fill("xyloph")
    rows = page.get_by_role("navigation", name="Sessions").get_by_role("listitem")
    await expect(rows).to_have_count(1)
    await page.get_by_role("searchbox").fill("nothing is called this")
    await expect(rows).to_have_count(0)
    await page.get_by_role("button", name="Show all").click()
    await expect(rows.first).to_be_visible()


async def test_the_list_says_in_which_sessions_somebody_works(visitor: Visitor, page: Page) -> None:
    await begin(page, "Long labours.\nslow 2000")
    await expect(said(page)).to_contain_text("1 2")
    elsewhere = await visitor.open("?q=long+labours")
    row = elsewhere.get_by_role("navigation", name="Sessions").get_by_role("listitem")
    await expect(row).to_contain_text("working")
    await page.get_by_role("button", name="Stop the turn").click()
    await expect(row).to_contain_text("active")


async def test_a_session_is_saved_as_markdown(page: Page) -> None:
    await begin(page, "Save me.\nsay To be kept.")
    await expect(said(page)).to_contain_text("To be kept.")
    await page.get_by_role("button", name="What can be done").click()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export as Markdown").click()
    saved = await (await download.value).path()
    assert "To be kept." in saved.read_text()


async def test_what_can_be_done_opens_below_its_button(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="With a menu"))
    page = await visitor.open(f"#/sessions/{session.id}")
    opener = page.get_by_role("button", name="What can be done")
    await opener.click()
    button, menu = await box_of(opener), await box_of(page.locator(".menu"))
    assert abs(menu["x"] + menu["width"] - button["x"] - button["width"]) <= 1
    assert menu["y"] >= button["y"] + button["height"]


async def test_the_mode_of_the_agent_is_chosen(page: Page, store: Store) -> None:
    await begin(page, "Begin.\nsay ok")
    mode = page.get_by_role("combobox", name="Mode", exact=True)
    async with page.expect_response("**/mode"):
        await mode.select_option("plan")
    await page.reload()
    await expect(mode).to_have_value("plan")


async def test_the_model_of_the_agent_is_chosen(page: Page) -> None:
    await begin(page, "Begin.\nsay ok")
    model = page.get_by_role("combobox", name="Model")
    about = page.get_by_role("complementary", name="About this session").locator(".facts")
    await expect(about).to_contain_text("ModelObedient", use_inner_text=False)
    async with page.expect_response("**/model"):
        await model.select_option("Obedient mini")
    await expect(about).to_contain_text("ModelObedient mini", use_inner_text=False)
    await page.reload()
    await expect(model).to_have_value("obedient-mini")


async def test_a_setting_that_the_agent_refuses_is_what_it_was(
    page: Page, visitor: Visitor, store: Store
) -> None:
    await begin(page, "Begin.\nsay ok")
    session = page.url.split("/")[-1]
    offered = [{"id": "default", "name": "Ask"}, {"id": "yolo", "name": "Everything"}]
    await store.patch(session, SessionPatch(agent_state={"modes": {"availableModes": offered}}))
    mode = page.get_by_role("combobox", name="Mode", exact=True)
    await expect(mode.get_by_role("option")).to_have_text(["Ask", "Everything"])
    await mode.select_option("yolo")
    await expect(page.get_by_text("The demo agent has no mode 'yolo'.")).to_be_visible()
    await expect(mode).to_have_value("default")
    assert all("502" in each for each in visitor.complaints)
    visitor.complaints.clear()


async def test_a_crash_is_told_with_its_reason_and_can_be_forked(page: Page) -> None:
    await begin(page, "Fall over.\ncrash 7")
    await expect(page.get_by_text("This session ended in an error.")).to_be_visible()
    await expect(page.get_by_text("failed: its agent crashed")).to_be_visible()
    await expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    await expect(page.get_by_role("button", name="Fork")).to_be_visible()


async def test_a_session_that_is_not_there_says_so(visitor: Visitor) -> None:
    page = await visitor.open("#/sessions/01a1e265-0000-7000-8000-000000000000")
    await expect(page.get_by_role("heading", name="This is not here")).to_be_visible()
    assert all("404" in each for each in visitor.complaints)
    visitor.complaints.clear()


async def test_a_change_of_a_file_is_shown_side_by_side_where_there_is_room(
    visitor: Visitor, served: Served, store: Store, repo_id: RepoId
) -> None:
    session = await scenes.retried_webhooks(store, repo_id, served.workspace / "atlas")
    page = await visitor.open(f"#/sessions/{session.id}")
    diff = page.get_by_role("figure", name="Change of billing/webhooks.py")
    await expect(diff.locator(".added")).to_have_count(4)
    await expect(diff.locator(".removed")).to_have_text('    """Tell the subscriber once."""')
    old = await box_of(diff.locator(".removed"))
    new = await box_of(diff.get_by_text("Tell the subscriber, trying again"))
    assert old["x"] < new["x"]
    await page.set_viewport_size({"width": 400, "height": 800})
    old = await box_of(diff.locator(".removed"))
    new = await box_of(diff.get_by_text("Tell the subscriber, trying again"))
    assert old["y"] < new["y"]


async def test_a_change_all_over_a_large_file_is_found_line_by_line(visitor: Visitor, store: Store) -> None:
    old = [f"value_{number} = {number}" for number in range(10_000)]
    new = [f"{line}  # checked" if number % 10 == 0 else line for number, line in enumerate(old)]
    diff = await changed(visitor, store, "\n".join(old), "\n".join(new))
    await expect(diff.locator(".counts")).to_have_text("too different to compare exactly: at most+1000−1000")
    assert await diff.locator(".line").count() < 2000
    await diff.get_by_role("button", name="Show all").click()
    await expect(diff.locator(".added")).to_have_count(1000)


async def test_texts_that_have_nothing_in_common_are_said_to_be_replaced(
    visitor: Visitor, store: Store
) -> None:
    old, new = ("\n".join(f"{word} {number}" for number in range(1500)) for word in ("old", "new"))
    diff = await changed(visitor, store, old, new)
    await expect(diff.locator(".counts")).to_have_text("+1500−1500")


async def test_a_change_of_the_last_newline_alone_is_seen(visitor: Visitor, store: Store) -> None:
    diff = await changed(visitor, store, "one\ntwo", "one\ntwo\n")
    await expect(diff.locator(".counts")).to_have_text("+1−1")
    await expect(diff.locator(".removed")).to_contain_text("No newline at the end of the file")


async def test_a_narrow_change_tells_old_from_new_numbers(visitor: Visitor, store: Store) -> None:
    diff = await changed(visitor, store, "one\ntwo\nthree\n", "zero\none\nthree\n")
    await diff.page.set_viewport_size({"width": 400, "height": 800})
    await expect(diff.locator(".line:visible")).to_have_count(4)
    numbers = "lines => lines.map(each => getComputedStyle(each, '::before').content)"
    assert await diff.locator(".line:visible").evaluate_all(numbers) == ['"  1"', '"1 2"', '"2  "', '"3 3"']


async def test_a_change_side_by_side_takes_the_room_of_a_wide_screen(visitor: Visitor, store: Store) -> None:
    diff = await changed(visitor, store, "one\n", "two\n")
    await diff.page.set_viewport_size({"width": 1920, "height": 1000})
    box, prompt = await box_of(diff), await box_of(diff.page.locator(".composer"))
    assert box["width"] > prompt["width"] + 200
    assert box["x"] > 0


async def changed(visitor: Visitor, store: Store, old: str, new: str) -> Locator:
    """The change of a file from one text to another, as a session shows it."""
    session = await store.create_session(NewSession(title="Changing"))
    content = ({"type": "diff", "path": "file.py", "oldText": old, "newText": new},)
    await store.append_messages(session.id, [scenes.tool("Edit", "edit", "call-1", content=content)])
    page = await visitor.open(f"#/sessions/{session.id}")
    return page.get_by_role("figure", name="Change of file.py")


async def test_a_fold_stands_for_its_originals_until_it_is_unfolded(visitor: Visitor, store: Store) -> None:
    session = await scenes.folded(store)
    page = await visitor.open(f"#/sessions/{session.id}")
    fold = page.get_by_role("region", name="Summary of earlier messages")
    await expect(fold).to_contain_text("They counted, and agreed on every number.")
    await expect(page.get_by_text("message 60 of the talk")).to_be_visible()
    original = page.get_by_text("message 50 of the talk")
    await expect(original).to_be_hidden()
    await fold.get_by_role("button", name="Show the 50 originals").click()
    await expect(original).to_be_visible()
    await fold.get_by_role("button", name="Hide the originals").click()
    await expect(original).to_be_hidden()
    await fold.get_by_role("button", name="Undo the summary").click()
    await expect(fold).to_have_count(0)
    await expect(original).to_be_visible()


async def begin(page: Page, text: str) -> None:
    """Start a session of the demo agent with this prompt."""
    await page.get_by_role("button", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    await dialog.get_by_label("Prompt").fill(text)
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("heading", name=text.split("\n")[0])).to_be_visible()


async def allow(page: Page) -> None:
    """Let the agent run the command that it asks for."""
    await (
        page.get_by_role("region", name="demo wants your permission")
        .get_by_role("button", name="Allow")
        .click()
    )


async def prompt(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Prompt").fill(text)
    await page.get_by_role("button", name="Send").click()


async def choose(page: Page, what: str) -> None:
    await page.get_by_role("button", name="What can be done").click()
    await page.get_by_role("button", name=what, exact=True).click()


def said(page: Page) -> Locator:
    """The last thing that the agent said."""
    return page.get_by_role("article", name="Agent").last


async def box_of(locator: Locator) -> FloatRect:
    box = await locator.bounding_box()
    assert box is not None
    return box
