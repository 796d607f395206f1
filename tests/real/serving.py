"""A session that a real agent serves, as a test drives it and looks at it."""

from pathlib import Path
from typing import Self

from holdfast import Message, Role, Session, Store, TextContent, ToolContent, Turn, TurnStatus
from holdfast.agents.catalogue import Catalogue
from holdfast.agents.permission_request import MEANINGS
from holdfast.agents.repositories import Repositories
from holdfast.agents.sandbox import Sandboxes
from holdfast.agents.supervisor import Supervisor
from holdfast.config import QuestionSettings
from holdfast.mcp.door import McpDoor
from holdfast.model.ids import SessionId
from holdfast.model.question import Answer, QuestionKind, QuestionSet, QuestionStatus
from holdfast.questions import QuestionBox
from tests.real.agents import RealAgent
from tests.waiting import until


def store_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'holdfast.db'}"


def question_box(directory: Path) -> QuestionBox:
    return QuestionBox(directory / "questions")


def supervising(agent: RealAgent, store: Store, directory: Path) -> Supervisor:
    """A supervisor of this one agent, which finds its repositories and its question sets here."""
    return Supervisor(
        store,
        Catalogue({agent.name: agent.entry}),
        Repositories(directory / "work"),
        box=question_box(directory),
        asks=McpDoor(
            question_box(directory), QuestionSettings(soft_return_seconds=0), directory / "sandboxes" / "tmp"
        ),
        sandboxes=Sandboxes(directory / "sandboxes", never=[directory / "questions"]),
    )


class Served:
    def __init__(self, supervisor: Supervisor, store: Store, box: QuestionBox, session_id: SessionId) -> None:
        self.supervisor = supervisor
        self.id = session_id
        self._store = store
        self._box = box

    @classmethod
    async def create(cls, supervisor: Supervisor, store: Store, box: QuestionBox) -> Self:
        """A new session of the only agent in the only repository."""
        (repo,) = await supervisor.repositories.scan(store)
        assert repo.id is not None
        (name,) = supervisor.catalogue
        session = await supervisor.create(store, repo.id, agent=name)
        return cls(supervisor, store, box, session.id)

    def under(self, supervisor: Supervisor) -> Self:
        """The same session, once another supervisor has taken over."""
        return type(self)(supervisor, self._store, self._box, self.id)

    async def prompt(self, text: str) -> Turn:
        return await self.supervisor.prompt(self._store, self.id, text)

    async def answered(self, text: str) -> Turn:
        """The turn of a prompt, once it has ended."""
        return await self.ended(await self.prompt(text))

    async def ended(self, turn: Turn) -> Turn:
        async def is_over() -> bool:
            return (await self._store.get_turn(self.id, turn.id)).status is not TurnStatus.PENDING

        await until(is_over)
        return await self._store.get_turn(self.id, turn.id)

    async def cancel_turn(self) -> None:
        await self.supervisor.cancel_turn(self._store, self.id)

    async def cancel(self) -> None:
        await self.supervisor.cancel(self._store, self.id)

    async def complete(self) -> None:
        await self.supervisor.complete(self._store, self.id)

    async def resume(self) -> None:
        await self.supervisor.resume(self._store, self.id)

    @property
    def process_group(self) -> int:
        return self.supervisor.agents[self.id].process.pid

    async def session(self) -> Session:
        return await self._store.get_session(self.id)

    async def messages(self) -> list[Message]:
        return list((await self._store.get_history(self.id)).messages)

    async def said(self, role: Role = Role.AGENT) -> list[str]:
        """The texts of a role, one for each message."""
        messages = await self.messages()
        return [
            message.content.text
            for message in messages
            if message.role is role and isinstance(message.content, TextContent)
        ]

    async def tools(self) -> list[ToolContent]:
        return [
            message.content for message in await self.messages() if isinstance(message.content, ToolContent)
        ]

    async def until_status(self, status: str) -> None:
        async def has_it() -> bool:
            return (await self.session()).status == status

        await until(has_it)

    async def until_it_says(self, text: str) -> None:
        async def has_said() -> bool:
            return any(text in said for said in await self.said())

        await until(has_said)

    async def question(self, kind: QuestionKind = QuestionKind.PERMISSION) -> QuestionSet:
        """What the agent asks a person now, or will ask."""

        async def is_asked() -> bool:
            return bool(await self._pending(kind))

        await until(is_asked)
        (question_set,) = await self._pending(kind)
        return question_set

    async def allow(self, question_set: QuestionSet) -> None:
        options = question_set.questions[0].options
        once = next(option.label for option in options if option.description == MEANINGS["allow_once"])
        await self.choose(question_set, once)

    async def choose(self, question_set: QuestionSet, label: str) -> None:
        answer = Answer(question_index=0, selected_option=label)
        await self._box.answer(question_set.id, [answer], by="tester", door="test")

    async def _pending(self, kind: QuestionKind) -> list[QuestionSet]:
        pending = await self._box.list({QuestionStatus.PENDING})
        return [question_set for question_set in pending if question_set.kind is kind]
