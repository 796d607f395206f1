"""How the inbox looks. After a wanted change, look at the new pictures, then keep them:
`pytest tests/tui/test_snapshots.py --snapshot-update`."""

import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from holdfast.model.question import Answer, NewQuestionSet, QuestionSetId
from holdfast.questions.directory import QuestionDirectory
from holdfast.tui.app import InboxApp
from tests.tui.driver import Desk, Inbox
from tests.tui.sets import EDIT, FORM, PLAN, RUN

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
IDS = [QuestionSetId(f"{number}fe93825-a9dd-4f96-9454-834c2ccd4b14") for number in range(1, 5)]

Compare = Callable[..., bool]
Act = Callable[[Inbox], Awaitable[None]]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The same on every machine: at home, at noon, in the same time zone, with the same ids."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC")
        time.tzset()
        desk = Desk(tmp_path)
        desk.clock.now = NOON
        yield desk
    time.tzset()


def ask(desk: Desk, *sets: NewQuestionSet) -> None:
    """Have these asked: the first an hour ago, each of the others a while later."""
    directory = QuestionDirectory(desk.directory, limit=100, retention=None, clock=desk.clock)
    desk.clock.now = NOON - timedelta(minutes=65)
    for set_id, new in zip(IDS, sets, strict=False):
        directory.add(set_id, new)
        desk.clock.advance(timedelta(minutes=20))
    desk.clock.now = NOON


def after(*steps: tuple[str, str]) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Wait until a text can be read, press keys; and so on."""

    async def act(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, InboxApp)
        inbox = Inbox(pilot.app, pilot)
        for text, keys in steps:
            await inbox.sees(text)
            await inbox.press(*keys.split())

    return act


def test_nothing_waits(desk: Desk, snap_compare: Compare) -> None:
    assert snap_compare(desk.app(), run_before=after(("Watching", "")))


def test_the_queue(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN, EDIT, RUN, FORM)
    assert snap_compare(desk.app(), run_before=after(("4 waiting", "down")))


def test_a_single_choice(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN)
    steps = (("1 waiting", "enter"), ("Which language?", "down space"), ("(•) Rust", ""))
    assert snap_compare(desk.app(), run_before=after(*steps))


def test_a_multiple_choice(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN)
    steps = (
        ("1 waiting", "enter"),
        ("Which language?", "1 right"),
        ("Which features", "1 3"),
        ("[x] Search", ""),
    )
    assert snap_compare(desk.app(), run_before=after(*steps))


@pytest.mark.parametrize("light", [False, True], ids=["dark", "light"])
def test_a_diff_beside_the_queue(desk: Desk, snap_compare: Compare, light: bool) -> None:
    ask(desk, PLAN, EDIT, RUN, FORM)
    steps = (("4 waiting", "down enter"), ("1 + from pathlib", ""), ("› ( ) Allow", ""))
    assert snap_compare(desk.app(light=light), terminal_size=(120, 32), run_before=after(*steps))


def test_a_command(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, RUN)
    steps = (("1 waiting", "enter"), ("make 'test all'", ""), ("› ( ) Allow", ""))
    assert snap_compare(desk.app(), run_before=after(*steps))


def test_a_narrow_terminal(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN)
    steps = (("1 waiting", "enter"), ("Which language?", "2"), ("(•) Rust", ""))
    assert snap_compare(desk.app(), terminal_size=(40, 24), run_before=after(*steps))


def test_the_review_warns(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN)
    steps = (("1 waiting", "enter"), ("Which language?", "2 ctrl+s"), ("2 of 3 questions", ""))
    assert snap_compare(desk.app(), run_before=after(*steps))


def test_help(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN)
    assert snap_compare(desk.app(), run_before=after(("1 waiting", "question_mark"), ("Keys", "")))


def test_withdrawn(desk: Desk, snap_compare: Compare) -> None:
    ask(desk, PLAN, EDIT)

    async def act(pilot: Pilot[None]) -> None:
        await after(("2 waiting", "enter"), ("Which language?", "2"), ("(•) Rust", ""))(pilot)
        answer = Answer(question_index=0, selected_option="Python (Recommended)")
        await desk.box.answer(IDS[0], [answer], by="grace", door="rest")
        await after(("What you had entered", ""))(pilot)
        pilot.app.clear_notifications()

    assert snap_compare(desk.app(), run_before=act)


def test_without_colour(desk: Desk, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    ask(desk, EDIT, PLAN)
    steps = (("2 waiting", "enter"), ("1 + from pathlib", "2"), ("(•) Allow for this session", ""))
    assert snap_compare(desk.app(), terminal_size=(100, 30), run_before=after(*steps))
