"""The question sets that a caller may see and answer.

One that was asked in a session is for those who may read the session, and is answered by those
who may write in it. One that was asked outside of any session is for the person at this machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing, suppress

import msgspec

from holdfast.errors import AccessDenied, HoldfastError, InvalidInput, SessionNotFound
from holdfast.model.principal import LOCAL, Principal
from holdfast.model.question import Answer, QuestionSet, QuestionStatus
from holdfast.model.session import Session
from holdfast.questions import QuestionBox
from holdfast.questions.errors import QuestionSetNotFound
from holdfast.questions.wire import question_set_json
from holdfast.server import shapes
from holdfast.server.doorkeeper import Caller
from holdfast.store.ending import until_stored
from holdfast.store.store import Store

log = logging.getLogger("holdfast.server")

MARK_DIGITS = 16


MAX_TOLD = 200
"""Characters of an answer that the audit log keeps."""


class HiddenQuestionSet(QuestionSetNotFound):
    """It is there, and this caller is told that it is not."""


class Inbox:
    def __init__(self, box: QuestionBox) -> None:
        self._box = box

    async def list(
        self,
        view: Store,
        principal: Principal,
        status: Collection[QuestionStatus] = frozenset(QuestionStatus),
    ) -> Sequence[QuestionSet]:
        """The sets in these statuses that the principal may see, oldest first."""
        return await _visible(view, principal, await self._box.list(status))

    async def get(self, view: Store, principal: Principal, set_id: str) -> QuestionSet:
        try:
            question_set = await self._box.get(set_id)
        except QuestionSetNotFound:
            raise QuestionSetNotFound(set_id, "Question set") from None
        if not await _visible(view, principal, [question_set]):
            raise HiddenQuestionSet(set_id, "Question set")
        return question_set

    async def answer(
        self, view: Store, caller: Caller, set_id: str, answers: Sequence[Answer]
    ) -> QuestionSet:
        await self._admit(view, caller.principal, set_id)
        settled = await self._box.answer(set_id, answers, by=caller.principal.user, door=caller.door)
        await _record(view, settled)
        return settled

    async def reject(self, view: Store, caller: Caller, set_id: str, reason: str | None) -> QuestionSet:
        await self._admit(view, caller.principal, set_id)
        settled = await self._box.reject(set_id, reason, by=caller.principal.user, door=caller.door)
        await _record(view, settled)
        return settled

    async def record_others(self, store: Store) -> None:
        """Keep in the audit log what people decided through the files, as in a terminal, also while no
        server ran. An answer is in its file first, so it is looked for again until it is on record.
        """
        recorded: set[str] = set()
        first = True
        async with aclosing(self._box.changes()) as changes, asyncio.TaskGroup() as recording:
            async for changed in changes:
                settled = [each for set_id in changed if (each := await self._settled(set_id))]
                recorded -= changed - {each.id for each in settled}
                for each in settled:
                    if first and each.answered_by is None:  # of another program, and who knows how old
                        recorded.add(each.id)
                    elif each.id not in recorded:
                        recorded.add(each.id)
                        recording.create_task(_record_whenever(store, each))
                first = False

    async def _settled(self, set_id: str) -> QuestionSet | None:
        with suppress(HoldfastError):  # it went, or another program left it damaged
            found = await self._box.get(set_id)
            return found if found.is_settled else None
        return None

    async def changes(
        self, view: Store, principal: Principal
    ) -> AsyncGenerator[shapes.ChangedQuestions, None]:
        """The sets that are there, then those that come, change and go."""
        known: set[str] = set()
        first = True
        async with aclosing(self._box.changes()) as changes:
            async for changed in changes:
                present: list[QuestionSet] = []
                for set_id in sorted(changed):
                    with suppress(HoldfastError):  # it went, or another program left it damaged
                        present.append(await self._box.get(set_id))
                shown = await _visible(view, principal, present)
                visible = {each.id for each in shown}
                lost = (known & changed) - visible
                known = (known - lost) | visible
                if shown or lost or first:
                    yield shapes.ChangedQuestions(
                        questions=as_shapes(shown), gone=tuple(sorted(lost)), is_all=first
                    )
                first = False

    async def now(self, view: Store, principal: Principal) -> tuple[shapes.ChangedQuestions, str]:
        """The sets that are there, and a mark that is another one as soon as any of them is."""
        there = as_shapes(await self.list(view, principal))
        mark = hashlib.sha256(msgspec.json.encode(there)).hexdigest()[:MARK_DIGITS]
        return shapes.ChangedQuestions(questions=there, gone=(), is_all=True), mark

    async def _admit(self, view: Store, principal: Principal, set_id: str) -> None:
        question_set = await self.get(view, principal, set_id)
        session = await _session_of(view, question_set)
        if session is not None and not principal.may_write(session):
            raise AccessDenied(f"Only {session.owner} may answer what is asked in session {session.id}.")


def as_shapes(question_sets: Iterable[QuestionSet]) -> tuple[shapes.QuestionSet, ...]:
    return tuple(as_shape(each) for each in question_sets)


def as_shape(question_set: QuestionSet) -> shapes.QuestionSet:
    return msgspec.convert(question_set_json(question_set), shapes.QuestionSet)


async def _visible(
    view: Store, principal: Principal, question_sets: Iterable[QuestionSet]
) -> Sequence[QuestionSet]:
    readable: dict[str | None, bool] = {None: _is_here(principal)}
    for question_set in question_sets:
        if question_set.session_id not in readable:
            readable[question_set.session_id] = await _session_of(view, question_set) is not None
    return [each for each in question_sets if readable[each.session_id]]


def _is_here(principal: Principal) -> bool:
    """Whether this is the person at this machine, whom programs outside of sessions ask."""
    here = principal.organization == LOCAL.organization
    return here and (principal.is_admin or principal.user == LOCAL.user)


async def _session_of(view: Store, question_set: QuestionSet) -> Session | None:
    """The session in which it was asked, when there is one and this view may read it."""
    if question_set.session_id is None:
        return None
    with suppress(SessionNotFound, InvalidInput):  # the id is what another program wrote into a file
        return await view.get_session(question_set.session_id)
    return None


async def _answerers_view(store: Store, settled: QuestionSet) -> Store:
    """The store as whoever answered sees it, in the organization whose session asked."""
    session = await _session_of(store.as_system(), settled)
    organization = session.organization if session else LOCAL.organization
    return store.as_principal(Principal(organization, settled.answered_by or LOCAL.user))


async def _record_whenever(store: Store, settled: QuestionSet) -> None:
    async def record() -> None:
        await _record(await _answerers_view(store, settled), settled)

    try:
        await until_stored(record, f"the answer to question set {settled.id}")
    except HoldfastError as error:
        log.error("the answer to question set %s is not on record: %s", settled.id, error)


async def _record(view: Store, settled: QuestionSet) -> None:
    about: dict[str, object] = {"kind": settled.kind.value, "door": settled.answered_from}
    if settled.session_id is not None:
        about["session"] = settled.session_id
    if settled.status is QuestionStatus.REJECTED:
        await view.audit(
            "question.reject",
            "done",
            subject=settled.id,
            detail=about | {"reason": _short(settled.rejection_reason or "")},
            once=True,
        )
    else:
        about["answers"] = [_chosen(settled, answer) for answer in settled.answers or ()]
        await view.audit("question.answer", "done", subject=settled.id, detail=about, once=True)


def _chosen(settled: QuestionSet, answer: Answer) -> dict[str, object]:
    question = settled.questions[answer.question_index]
    chosen = [answer.selected_option, *(answer.selected_options or ()), answer.custom_text]
    return {
        "question": _short(question.title or question.prompt),
        "chosen": [_short(each) for each in chosen if each is not None],
    }


def _short(text: str) -> str:
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]}…"
