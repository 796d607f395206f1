"""Many windows of one browser, which allows six connections to a server over all of them."""

from playwright.async_api import Request, expect

from holdfast import Message, NewSession, Store
from holdfast.questions import QuestionBox
from tests.server.servers import Served
from tests.waiting import until
from tests.web import scenes
from tests.web.test_session import begin, said
from tests.web.visitors import Visitor

WINDOWS = 7

ONE_ANNOUNCES = """async (lines) => {
    const names = (await navigator.locks.query()).held.map((lock) => lock.name);
    return names.includes("holdfast-announcer") && names.length === 1 + lines;
}"""
"""Whether some window announces, and so many lines are taken."""


async def test_seven_windows_with_sessions_are_all_kept_current(
    visitor: Visitor, served: Served, store: Store, box: QuestionBox
) -> None:
    session = await store.create_session(NewSession(title="Seen by many"))
    windows = [await visitor.open(f"#/sessions/{session.id}") for _ in range(WINDOWS)]
    for window in windows:
        await expect(window.get_by_role("heading", name="Seen by many")).to_be_visible()
    await store.append_messages(session.id, [Message.agent("Everybody sees this.")])
    question = await scenes.asked(box, session, served.workspace / "atlas")
    for window in windows:
        await expect(window.get_by_text("Everybody sees this.")).to_be_visible()
        await expect(window.get_by_role("link", name="Inbox")).to_contain_text("1")
    await windows[-1].get_by_role("button", name="Allow").click()
    for window in windows:
        await expect(window.get_by_role("button", name="Allow")).to_have_count(0)
    await begin(windows[-1], "From the last one.\nsay It works.")
    await expect(said(windows[-1])).to_contain_text("It works.")
    assert (await box.get(question.id)).answered_from == "web"


async def test_a_window_streams_once_another_one_leaves_it_a_line(visitor: Visitor, store: Store) -> None:
    session = await store.create_session(NewSession(title="Wanted by many"))
    streams: list[str] = []

    def note(request: Request) -> None:
        if request.resource_type == "eventsource":
            streams.append(request.url)

    def is_stream(request: Request) -> bool:
        return request.resource_type == "eventsource" and session.id in request.url

    visitor.context.on("request", note)
    async with visitor.context.expect_event("request", is_stream):
        first = await visitor.open(f"#/sessions/{session.id}")
    async with visitor.context.expect_event("request", is_stream):
        await visitor.open(f"#/sessions/{session.id}")
    last = await visitor.open(f"#/sessions/{session.id}")
    await expect(last.get_by_role("heading", name="Wanted by many")).to_be_visible()
    assert len(streams) == 4
    async with last.expect_event("request", lambda request: request.resource_type == "eventsource"):
        await first.close()


async def test_a_window_that_comes_to_announce_leaves_its_line_to_others(
    visitor: Visitor, store: Store
) -> None:
    session = await store.create_session(NewSession(title="Announced late"))
    announcer = await visitor.context.new_page()
    await announcer.goto(f"{visitor.served.url}/healthz")
    await announcer.evaluate(
        """() => new Promise((held) => {
            navigator.locks.request("holdfast-announcer", () => (held(), new Promise(() => {})));
        })"""
    )
    window = await visitor.open(f"#/sessions/{session.id}")
    await until(lambda: window.evaluate(ONE_ANNOUNCES, 2))
    await announcer.close()
    await until(lambda: window.evaluate(ONE_ANNOUNCES, 1))
