"""People who answer, and the agents' requests that they answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from acp.schema import CreateElicitationRequest
from pydantic import TypeAdapter

from holdfast.agents.asking import Asking
from holdfast.agents.permissions import Policy
from holdfast.agents.workspace import Workspace
from holdfast.model.ids import SessionId
from holdfast.model.question import Answer, QuestionSet
from holdfast.questions import QuestionBox
from tests.waiting import SECONDS, until

SESSION = SessionId("0198c0de-0000-7000-8000-000000000001")

ASK = Policy()


class World:
    """A box in a directory, and all that an `Asking` told."""

    def __init__(self, root: Path) -> None:
        (root / "repo").mkdir()
        self.workspace = Workspace(root / "repo")
        self.box = QuestionBox(root / "questions")
        self.audited: list[tuple[str, str, dict[str, Any]]] = []
        self.noted: list[QuestionSet] = []
        self.over: list[QuestionSet] = []
        self.told: list[str] = []

    def asking(
        self, policy: Policy = ASK, *, box: QuestionBox | None = None, nobody: bool = False, **more: Any
    ) -> Asking:
        return Asking(
            None if nobody else box or self.box,
            agent="gemini",
            session_id=SESSION,
            workspace=self.workspace,
            policy=policy,
            **{"audit": self._audit, "noted": self._note, "told": self._tell, **more},
        )

    async def asked(self, number: int = 1) -> QuestionSet:
        """The latest question set, once so many have been asked."""
        await until(lambda: len(self.noted) >= number)
        return self.noted[number - 1]

    async def say(self, question_set: QuestionSet, *answers: Answer) -> None:
        await self.box.answer(question_set.id, answers, by="ada", door="tui")

    async def _tell(self, text: str) -> None:
        self.told.append(text)

    async def _audit(self, action: str, outcome: str, detail: dict[str, Any]) -> None:
        msgspec.json.encode(detail)
        self.audited.append((action, outcome, detail))

    async def _note(self, question_set: QuestionSet) -> None:
        (self.over if question_set.is_settled else self.noted).append(question_set)


def raw(params: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(params))


def elicitation(**params: Any) -> msgspec.Raw:
    TypeAdapter(CreateElicitationRequest).validate_python(params)
    return raw(params)


def form(*, required: tuple[str, ...] = (), **properties: dict[str, Any]) -> msgspec.Raw:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return elicitation(sessionId="1", mode="form", message="Please fill in.", requestedSchema=schema)


def choice(label: str, index: int = 0) -> Answer:
    return Answer(question_index=index, selected_option=label)


def text(words: str, index: int = 0) -> Answer:
    return Answer(question_index=index, custom_text=words)


def several(*labels: str, index: int = 0) -> Answer:
    return Answer(question_index=index, selected_options=labels)


@asynccontextmanager
async def running(coroutine: Any) -> AsyncIterator[asyncio.Task[dict[str, Any]]]:
    """A request that is being answered, for as long as it takes but not for ever."""
    task = asyncio.create_task(coroutine)
    async with asyncio.timeout(SECONDS):
        yield task
        await task
