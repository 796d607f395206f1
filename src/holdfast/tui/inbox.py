"""The inbox itself: the queue, the set that is open, and what happens to both meanwhile.

The files are the truth. What other processes do with them arrives through `follow`; what the
person does here goes to the box, which decides whether it is the first word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, HorizontalGroup, Vertical
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static

from holdfast.errors import HoldfastError
from holdfast.model.question import AlreadySettled, Answer, QuestionSet, QuestionSetId
from holdfast.model.times import from_ms
from holdfast.questions import QuestionBox
from holdfast.questions.shown import asker, problem, settlement, subject
from holdfast.tui.dialogs import HelpScreen, RejectScreen, ReviewScreen
from holdfast.tui.drafts import Drafts
from holdfast.tui.follow import Event, Gone, Looked, Settled, Unreadable, Waiting, follow
from holdfast.tui.notices import Empty, Problem, Withdrawn
from holdfast.tui.queue import Queue
from holdfast.tui.replies import Draft
from holdfast.tui.set_view import SetView
from holdfast.tui.text import lateness
from holdfast.tui.tool_view import ToolScreen

DOOR = "terminal"

AGES_SECONDS = 10.0
"""How often ages are written anew."""

WIDE = 100
"""From this many columns on, the queue and a set stand side by side."""

SEVERAL = 3
"""More new sets than this are told of in one notification."""


class InboxScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("x", "reject", "Reject"),
        Binding("right_square_bracket", "step(1)", show=False),
        Binding("left_square_bracket", "step(-1)", show=False),
        Binding("question_mark,f1", "help", "Help", key_display="?"),
        Binding("q", "app.quit", show=False),
    ]

    def __init__(
        self, box: QuestionBox, drafts: Drafts, *, by: str, bell: bool, toasts: bool, clock: Callable[[], int]
    ) -> None:
        super().__init__()
        self._box = box
        self._drafts = drafts
        self._by = by
        self._bell = bell
        self._toasts = toasts
        self._clock = clock
        self._waiting: dict[QuestionSetId, QuestionSet] = {}
        self._unreadable: dict[QuestionSetId, str] = {}
        self._arrived: list[QuestionSet] = []
        self._settling: dict[QuestionSetId, QuestionSet | None] = {}
        """Sets that are being answered or rejected here, with what somebody else said meanwhile."""
        self._pane_change = asyncio.Lock()

    def compose(self) -> ComposeResult:
        with HorizontalGroup(id="bar"):
            yield Static("Holdfast inbox", id="name")
            yield Static(id="count")
        yield Problem(self._box.directory)
        with Horizontal(id="panes"):
            yield Queue(markup=False)
            yield Vertical(id="pane")
            yield Empty(self._box.directory)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Queue).focus()
        self.set_interval(AGES_SECONDS, self._show_ages)
        self._follow()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < WIDE, "-narrow")

    @property
    def open_set(self) -> QuestionSet | None:
        """The set that the person has open."""
        view = self._set_view
        return view.question_set if view is not None and self.has_class("-open") else None

    @property
    def set_here(self) -> QuestionSet | None:
        """The set that a command means: the open one, or where the person is in the queue."""
        if self.query(Withdrawn):
            return None
        here = self.query_one(Queue).here
        return self.open_set or (self._waiting.get(here) if here is not None else None)

    async def close(self) -> None:
        """Keep what has been entered, to the last key."""
        if (view := self._set_view) is not None and view.question_set.id in self._waiting:
            self._drafts.put(view.question_set.id, view.take())
        await self._save_drafts()

    async def _save_drafts(self) -> None:
        try:
            await self._drafts.flush()
        except (HoldfastError, OSError) as error:
            self.notify(
                f"What you entered could not be saved: {problem(error)}. "
                "It is kept as long as this window is open.",
                severity="warning",
                markup=False,
            )

    @work
    async def _follow(self) -> None:
        await self._remove_settled_drafts()
        async with aclosing(follow(self._box)) as events:
            async for event in events:
                await self._hear(event)

    async def _remove_settled_drafts(self) -> None:
        for set_id in await self._drafts.sweep():
            with suppress(HoldfastError):
                if (await self._box.get(set_id)).is_settled:
                    self._drafts.put(set_id, Draft())
        await self._save_drafts()

    async def _hear(self, event: Event) -> None:
        match event:
            case Waiting(question_set, is_new):
                await self._put(question_set)
                if is_new:
                    self._arrived.append(question_set)
            case Settled(settled) if settled.id in self._settling:
                self._settling[settled.id] = settled
            case Settled(settled):
                await self._withdraw(settled.id, settlement(settled), settled)
            case Gone(set_id):
                await self._withdraw(set_id, "Deleted by another program.")
            case Unreadable(set_id, reason):
                await self._withdraw(set_id, f"It cannot be read any more: {reason}.")
                self._unreadable[set_id] = reason
            case Looked(trouble):
                self._announce()
                self.query_one(Problem).show(trouble, self._unreadable)
                await self._show_queue()

    async def _put(self, question_set: QuestionSet) -> None:
        self._unreadable.pop(question_set.id, None)
        before = self._waiting.get(question_set.id)
        self._waiting[question_set.id] = question_set
        if before is None or before.questions != question_set.questions:
            await self._drafts.load(question_set)
        view = self._set_view
        if view is None or view.question_set.id != question_set.id:
            return
        if view.question_set.questions == question_set.questions:
            view.show_status(question_set, self._now)
        else:
            async with self._pane_change:
                await self._show_set(question_set)

    async def _withdraw(self, set_id: QuestionSetId, why: str, settled: QuestionSet | None = None) -> None:
        """Take away a set that cannot be answered here any more, and say why."""
        self._unreadable.pop(set_id, None)
        gone = self._waiting.pop(set_id, None)
        if gone is None:
            return
        self.notify(f"{subject(gone)}\n{why}", title="Withdrawn", severity="warning", markup=False)
        async with self._pane_change:
            if self.open_set is None or self.open_set.id != set_id:
                self._remove_draft(set_id)
                return
            while self.app.screen is not self:
                self.app.pop_screen()
            if (view := self._set_view) is not None:
                self._keep(set_id, view.take())
            await self._clear_pane()
            notice = Withdrawn(gone, self._drafts.of(set_id), why, settled)
            await self.query_one("#pane").mount(notice)
            notice.focus()

    def _announce(self) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived and self._bell:
            self.app.bell()
        if not self._toasts:
            return
        if len(arrived) > SEVERAL:
            self.notify(f"{len(arrived)} new question sets wait.", title="New questions")
            return
        for question_set in arrived:
            self.notify(subject(question_set), title=f"{asker(question_set)} asks", markup=False)

    async def _show_queue(self) -> None:
        waiting = sorted(
            self._waiting.values(), key=lambda each: (bool(lateness(each)), each.created_at, each.id)
        )
        queue = self.query_one(Queue)
        queue.show(waiting, self._drafts, self._now)
        self.query_one("#count", Static).update(f"{len(waiting)} waiting" if waiting else "")
        self.set_class(not waiting and not self.query(Withdrawn), "-empty")
        await self._preview()
        self.refresh_bindings()

    async def _preview(self) -> None:
        """Show the set at which the person is in the queue, unless they have one open."""
        async with self._pane_change:
            if not self.query(Withdrawn) and self.open_set is None:
                here = self.set_here
                await (self._clear_pane() if here is None else self._show_set(here))

    async def _show_set(self, question_set: QuestionSet) -> SetView:
        """Show a set, if it is not the one that is shown already."""
        view = self._set_view
        if view is not None and view.question_set.id == question_set.id:
            if view.question_set.questions == question_set.questions:
                return view
        elif view is not None and view.question_set.id in self._waiting:
            self._keep(view.question_set.id, view.take())
        await self._clear_pane()
        view = SetView(question_set, self._drafts.of(question_set.id), self._now)
        await self.query_one("#pane").mount(view)
        return view

    async def _clear_pane(self) -> None:
        await self.query_one("#pane").remove_children()

    async def _show_ages(self) -> None:
        await self._show_queue()
        if (view := self._set_view) is not None:
            view.show_age(self._now)

    @on(OptionList.OptionHighlighted)
    async def _move_in_queue(self) -> None:
        await self._preview()

    @on(OptionList.OptionSelected)
    async def _open(self) -> None:
        async with self._pane_change:
            if (here := self.set_here) is None:
                return
            if not here.questions:
                self.notify("It holds no question. It can only be rejected (x).", severity="warning")
                return
            view = await self._show_set(here)
            self.add_class("-open")
            view.begin()

    def on_descendant_focus(self) -> None:
        """Who is anywhere but in the queue has the set open, also when a click brought them there."""
        self.set_class(not isinstance(self.focused, Queue), "-open")

    def action_leave(self) -> None:
        """Go back to the queue."""
        self.remove_class("-open")
        self.query_one(Queue).focus()

    async def action_step(self, step: int) -> None:
        """Open the next or the previous set."""
        queue = self.query_one(Queue)
        if queue.option_count and not self.query(Withdrawn):
            self.remove_class("-open")
            queue.highlighted = ((queue.highlighted or 0) + step) % queue.option_count
            await self._open()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    @on(SetView.Drafted)
    async def _keep_draft(self, event: SetView.Drafted) -> None:
        set_id = event.question_set.id
        was_drafted = set_id in self._drafts
        self._keep(set_id, event.draft)
        if was_drafted != (set_id in self._drafts):
            await self._show_queue()

    @on(SetView.JudgeWanted)
    def action_judge(self) -> None:
        if (shown := self.set_here) is not None and shown.tool is not None:
            self.app.push_screen(ToolScreen(shown.tool, subject(shown)))

    @on(SetView.ReviewWanted)
    def action_review(self) -> None:
        if (shown := self.set_here) is not None:
            draft = self._drafts.of(shown.id)
            answer = partial(self._answer, shown, draft.answers(shown.questions))
            self.app.push_screen(ReviewScreen(shown, draft, answer), self._go_to_question)

    def action_reject(self) -> None:
        if (shown := self.set_here) is not None:
            self.app.push_screen(RejectScreen(shown, partial(self._reject, shown)))

    async def _go_to_question(self, index: int | None) -> None:
        if index is not None and (view := self._set_view) is not None:
            await view.show_question(index)

    async def _answer(self, question_set: QuestionSet, answers: list[Answer]) -> str | None:
        answering = self._box.answer(question_set.id, answers, by=self._by, door=DOOR)
        return await self._settle(question_set, answering, "Sent")

    async def _reject(self, question_set: QuestionSet, reason: str) -> str | None:
        rejecting = self._box.reject(question_set.id, reason or None, by=self._by, door=DOOR)
        return await self._settle(question_set, rejecting, "Rejected")

    async def _settle(
        self, question_set: QuestionSet, settling: Awaitable[QuestionSet], done: str
    ) -> str | None:
        """Say the person's word. The sentence says why it could not be said; the draft then remains."""
        self._settling[question_set.id] = None
        first: QuestionSet | None = None
        try:
            await settling
        except AlreadySettled as error:
            first = error.first
        except HoldfastError as error:
            first = self._settling[question_set.id]
            if first is None:
                return f"It could not be saved: {problem(error)}. What you entered is kept; try again."
        finally:
            del self._settling[question_set.id]
        if first is not None:
            await self._withdraw(question_set.id, settlement(first), first)
            await self._show_queue()
            return None
        self._waiting.pop(question_set.id, None)
        self._remove_draft(question_set.id)
        self.notify(subject(question_set), title=done, markup=False)
        self.action_leave()
        await self._show_queue()
        return None

    @on(Withdrawn.Closed)
    async def _close_withdrawn(self, event: Withdrawn.Closed) -> None:
        self._remove_draft(event.question_set.id)
        async with self._pane_change:
            await self._clear_pane()
        self.action_leave()
        await self._show_queue()

    def _keep(self, set_id: QuestionSetId, draft: Draft) -> None:
        if draft != self._drafts.of(set_id):
            self._drafts.put(set_id, draft)
            self.run_worker(self._save_drafts(), group="drafts")

    def _remove_draft(self, set_id: QuestionSetId) -> None:
        self._keep(set_id, Draft())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "leave":
                return self.has_class("-open")
            case "reject":
                return self.set_here is not None
            case _:
                return True

    @property
    def _now(self) -> datetime:
        return from_ms(self._clock())

    @property
    def _set_view(self) -> SetView | None:
        return next(iter(self.query(SetView)), None)
