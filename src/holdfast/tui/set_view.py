"""One question set: who asks and what for, what there is to judge, and its questions, one at a time."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.query import DOMQuery
from textual.message import Message
from textual.widgets import Static, Tab, Tabs

from holdfast.model.question import QuestionKind, QuestionSet
from holdfast.questions.shown import age, asker, shown_title, subject
from holdfast.tui.question_view import QuestionView, with_recommended
from holdfast.tui.replies import Draft, Reply
from holdfast.tui.text import lateness, tilde
from holdfast.tui.theme import MUTED
from holdfast.tui.tool_view import ToolView

TITLE_CELLS = 24
"""How much of a title a tab shows."""

ASKS_FOR = {
    QuestionKind.QUESTION: "asks",
    QuestionKind.PERMISSION: "asks for permission",
    QuestionKind.ELICITATION: "asks for details",
}


class SetView(Vertical):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("right,tab", "turn(1)", "Tabs", key_display="←→"),
        Binding("left,shift+tab", "turn(-1)", show=False),
        Binding("pageup", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(1)", show=False),
        Binding("ctrl+s", "review", "Send", key_display="^s"),
        Binding("o", "write", "Own words", show=False),
        Binding("e", "elaborate", "More detail", show=False),
        Binding("p", "rephrase", "Put differently", show=False),
        Binding("r", "recommended", "Recommended", show=False),
        Binding("ctrl+r", "all_recommended", "All recommended", show=False),
        Binding("d", "judge", "Whole diff or command", show=False),
        *(Binding(str(number), f"choose({number - 1})", show=False) for number in range(1, 10)),
    ]

    class Drafted(Message):
        """The person has entered something."""

        def __init__(self, question_set: QuestionSet, draft: Draft) -> None:
            super().__init__()
            self.question_set = question_set
            self.draft = draft

    class ReviewWanted(Message):
        """The person wants to see it all together, and perhaps to send it."""

    class JudgeWanted(Message):
        """The person wants to see the whole diff or command."""

    def __init__(self, question_set: QuestionSet, draft: Draft, now: datetime) -> None:
        super().__init__()
        self.question_set = question_set
        self.draft = draft
        self.index = 0
        self._now = now

    def compose(self) -> ComposeResult:
        yield Static(classes="head")
        if self.question_set.tool is not None:
            yield ToolView(self.question_set.tool)
        questions = self.question_set.questions
        if len(questions) > 1:
            tabs = Tabs(*(Tab(self._tab_label(index), id=_tab_id(index)) for index in range(len(questions))))
            tabs.can_focus = False
            yield tabs
        if questions:
            yield self._view_of(0)
        else:
            yield Static("It holds no question. It can only be rejected.", classes="hint")

    def on_mount(self) -> None:
        self.show_age(self._now)

    def show_age(self, now: datetime) -> None:
        self.query_one(".head", Static).update(_head(self.question_set, now))

    def show_status(self, question_set: QuestionSet, now: datetime) -> None:
        """The set with another status, and the same questions."""
        self.question_set = question_set
        self.show_age(now)

    def begin(self) -> None:
        for view in self._question_views:
            view.begin()

    def take(self) -> Draft:
        """The draft with the last key that was pressed."""
        for view in self._question_views:
            self._put(self.index, view.take())
        return self.draft

    async def show_question(self, index: int) -> None:
        """Turn to a question."""
        if index != self.index:
            self.take()
            self.index = index
            await self.query(QuestionView).remove()
            await self.mount(self._view_of(index))
        for tabs in self.query(Tabs):
            tabs.active = _tab_id(index)
        self.begin()

    def action_move(self, step: int) -> None:
        for view in self._question_views:
            view.move(step)

    async def action_turn(self, step: int) -> None:
        await self.show_question((self.index + step) % len(self.question_set.questions))

    def action_scroll(self, step: int) -> None:
        for view in self._question_views:
            view.scroll_relative(y=step * max(view.size.height - 2, 1), animate=False)

    def action_review(self) -> None:
        self.take()
        self.post_message(self.ReviewWanted())

    def action_judge(self) -> None:
        self.post_message(self.JudgeWanted())

    def action_choose(self, number: int) -> None:
        for view in self._question_views:
            view.choose_option(number)

    def action_write(self) -> None:
        for view in self._question_views:
            view.write()

    def action_elaborate(self) -> None:
        for view in self._question_views:
            view.toggle_elaborate()

    def action_rephrase(self) -> None:
        for view in self._question_views:
            view.toggle_rephrase()

    def action_recommended(self) -> None:
        for view in self._question_views:
            view.choose_recommended()

    def action_all_recommended(self) -> None:
        """Choose what is recommended wherever nothing is answered yet, then review."""
        self.take()
        for index in self.draft.unanswered(self.question_set.questions):
            reply = with_recommended(self.question_set.questions[index], self.draft.reply(index))
            self._put(index, reply)
            if index == self.index:
                for view in self._question_views:
                    view.show(reply)
        self.action_review()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "turn":
            return len(self.question_set.questions) > 1
        if action == "judge":
            return self.question_set.tool is not None
        return True

    @on(QuestionView.Replied)
    def _keep(self, event: QuestionView.Replied) -> None:
        event.stop()
        self._put(event.index, event.reply)

    @on(QuestionView.Done)
    async def _go_on(self, event: QuestionView.Done) -> None:
        event.stop()
        if self.index + 1 < len(self.question_set.questions):
            await self.show_question(self.index + 1)
        else:
            self.action_review()

    @on(Tabs.TabActivated)
    async def _turn_to_tab(self, event: Tabs.TabActivated) -> None:
        event.stop()
        if (index := _index_of(event.tab)) != self.index:
            await self.show_question(index)

    def _put(self, index: int, reply: Reply) -> None:
        if reply == self.draft.reply(index):
            return
        self.draft = self.draft.with_reply(index, reply)
        for tab in self.query(f"#{_tab_id(index)}").results(Tab):
            tab.label = self._tab_label(index)
        self.post_message(self.Drafted(self.question_set, self.draft))

    def _view_of(self, index: int) -> QuestionView:
        question = self.question_set.questions[index]
        return QuestionView(question, index, self.draft.reply(index), self.question_set.kind)

    def _tab_label(self, index: int) -> Content:
        mark = "·" if self.draft.reply(index).is_empty else "✓"
        title = Content(shown_title(self.question_set.questions[index]))
        return Content(f"{mark} ") + title.truncate(TITLE_CELLS, ellipsis=True)

    @property
    def _question_views(self) -> DOMQuery[QuestionView]:
        """The one on the screen; none when the set, made by another program, holds no question."""
        return self.query(QuestionView)


def _head(question_set: QuestionSet, now: datetime) -> Content:
    since = age(question_set.created_at, now)
    facts = [
        since if since == "now" else f"{since} ago",
        *([tilde(question_set.working_directory)] if question_set.working_directory else []),
        question_set.short_id,
    ]
    head = Content.assemble(
        (asker(question_set), "bold"),
        f" {ASKS_FOR[question_set.kind]}",
        (f"\n{' · '.join(facts)}", MUTED),
    )
    if question_set.tool is not None or len(question_set.questions) == 1:
        head = Content.assemble(head, "\n", (subject(question_set), "bold"))
    if late := lateness(question_set):
        head = Content.assemble(head, (f"\nThe {late}; your answer is kept for it.", "$text-warning"))
    return head


def _tab_id(index: int) -> str:
    return f"question-{index}"


def _index_of(tab: Tab) -> int:
    return int((tab.id or "").removeprefix("question-"))
