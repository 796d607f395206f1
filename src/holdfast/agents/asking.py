"""What an agent wants to know from a person: permissions, forms and visits to a web page.

Each is put to people as a question set, unless the policy decides a permission. Only a person or
the policy allows anything: whatever else happens, the answer is a refusal. Every decision is
audited before the agent hears of it, with the person and their door, or the rule that made it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from holdfast.agents.command import Command
from holdfast.agents.elicitation import Form, Schema
from holdfast.agents.labels import shown
from holdfast.agents.permission_request import PermissionOption, PermissionRequest
from holdfast.agents.permissions import Decision, Policy, Ruling, ToolCall, ToolKind
from holdfast.agents.wire import INVALID_PARAMS, Refusal
from holdfast.agents.workspace import Workspace
from holdfast.errors import Conflict, HoldfastError
from holdfast.model.ids import SessionId
from holdfast.model.question import (
    NewQuestionSet,
    Option,
    Question,
    QuestionKind,
    QuestionSet,
    QuestionStatus,
)
from holdfast.questions import QuestionBox
from holdfast.questions.errors import QuestionsRejected, QuestionsTimedOut
from holdfast.store.ending import to_its_end

log = logging.getLogger("holdfast.agents")

T = TypeVar("T")

Audit = Callable[[str, str, dict[str, Any]], Awaitable[None]]
"""Records an action, its outcome and what belongs to it."""

MAX_OPEN = 32
"""How many requests of a session's agent wait for people at a time: nobody reads more of them."""

TRIES = 5
"""How often a form is put to a person whose answers do not fit."""

CANCELLED = {"outcome": {"outcome": "cancelled"}}

_ALLOW = PermissionOption(option_id="allow", name="Allow", kind="allow_once")
_REJECT = PermissionOption(option_id="reject", name="Reject", kind="reject_once")

_OUTCOMES = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}

_WEB_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)


class NobodyToAsk(HoldfastError):
    code = "nobody_to_ask"
    status = 503


class TooManyQuestions(Conflict):
    code = "too_many_questions"
    status = 429
    retriable = True

    def __init__(self) -> None:
        super().__init__(f"{MAX_OPEN} requests already wait for a person, which is the limit.")


class _ElicitationRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    message: str
    mode: str = "form"
    requested_schema: Schema = Schema()
    url: str = ""
    elicitation_id: str = ""


_decode_permission = msgspec.json.Decoder(PermissionRequest).decode
_decode_elicitation = msgspec.json.Decoder(_ElicitationRequest).decode


class Asking:
    """The questions of one session's agent. Without a box, there is nobody to ask."""

    def __init__(
        self,
        box: QuestionBox | None,
        *,
        agent: str,
        session_id: SessionId,
        workspace: Workspace,
        policy: Policy,
        audit: Audit,
        noted: Callable[[QuestionSet], Coroutine[Any, Any, None]],
        told: Callable[[str], Coroutine[Any, Any, None]],
        known: Callable[[str], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """`noted` is told of each set that is asked, and again when it is over. `told` is given words for the
        person about what could not be asked. `known` has what was said of a tool call before."""
        self._box = box
        self._agent = agent
        self._session_id = session_id
        self._workspace = workspace
        self._policy = policy
        self._audit = audit
        self._noted = noted
        self._told = told
        self._known = known
        self._open: set[asyncio.Task[Any]] = set()
        self._granted: deque[Any] = deque(maxlen=MAX_OPEN)
        """The inputs of tool calls that a person has allowed, and that have run no command yet."""
        self._reasons: set[str] = set()
        """Why nobody was asked in this turn, as the session says."""

    @property
    def pending(self) -> int:
        """How many requests wait for a person."""
        return len(self._open)

    async def waits_for_a_person(self) -> bool:
        """Whether a request or a question is open, also one that was asked through our MCP server."""
        if self._open or self._box is None:
            return bool(self._open)
        try:
            asked = await self._box.list({QuestionStatus.PENDING})
        except HoldfastError as error:
            log.warning("session %s: its questions cannot be looked at: %s", self._session_id, error)
            return False
        return any(each.session_id == self._session_id for each in asked)

    def cancel_all(self) -> None:
        """The turn is cancelled: every open request is answered so, and its questions are withdrawn."""
        for asking in self._open:
            asking.cancel()

    async def permission(self, params: msgspec.Raw) -> dict[str, Any]:
        """The result of `session/request_permission`."""
        request = _decode_permission(params).completed(self._known)
        call = await asyncio.to_thread(ToolCall.of, request.tool_call, self._workspace)
        ruling = self._policy.decide(call)
        detail = {"tool": request.title, "kind": call.kind.value, "paths": request.paths}
        if ruling.decision is Decision.ALLOW and request.allowing is not None:
            return await self._permitted(request.allowing, detail | {"rule": ruling.by})
        if ruling.decision is Decision.DENY:
            return await self._permitted(request.refusing, detail | {"rule": ruling.by})
        option, said = await self._unless_cancelled(
            self._ask_permission(request), (None, {"reason": "the turn was cancelled"})
        )
        if option is not None and option.outcome == "allowed":
            self._granted.append(request.tool_call.get("rawInput"))
        return await self._permitted(option, detail | said)

    async def command(self, command: Command) -> None:
        """Decide whether a command may run, as a permission is decided; `Refusal` when it may not.

        What a person has allowed by answering a request runs once without being asked again.
        """
        root, detail = self._workspace.root, self._detail(command)
        granted = [each for each in self._granted if command.is_what_was_shown(each, root)]
        ruling = self._policy.decide(command.call)
        if ruling.decision is Decision.DENY:
            await self._audit("agent.command", "denied", detail | {"rule": ruling.by})
            raise _not_allowed(ruling)
        if granted:
            self._granted.remove(granted[0])
            await self._audit("agent.command", "allowed", detail | {"rule": "a person has allowed it"})
        elif ruling.decision is Decision.ALLOW:
            await self._audit("agent.command", "allowed", detail | {"rule": ruling.by})
        else:
            await self._agreed("agent.command", command.request(root), detail)

    async def exited(self, command: Command, code: int) -> None:
        """Put on record how a command ended."""
        await self._audit("agent.command", "exited", self._detail(command) | {"exit_code": code})

    async def write(self, path: str, content: str) -> None:
        """Decide whether a file may be written that can make git run programs; `Refusal` when it may not.

        A policy can refuse it. To allow it takes a person.
        """
        request = {
            "title": f"Write {path}",
            "kind": ToolKind.EDIT.value,
            "locations": [{"path": path}],
            "content": [{"type": "diff", "path": path, "newText": content}],
        }
        ruling = self._policy.decide(await asyncio.to_thread(ToolCall.of, request, self._workspace))
        detail = {"tool": request["title"], "paths": [path]}
        if ruling.decision is Decision.DENY:
            await self._audit("agent.permission", "denied", detail | {"rule": ruling.by})
            raise _not_allowed(ruling)
        await self._agreed("agent.permission", request, detail)

    async def _agreed(self, action: str, tool_call: dict[str, Any], detail: dict[str, Any]) -> None:
        """Return when a person allows it, and put on record what they said."""
        request = PermissionRequest(tool_call=tool_call, options=(_ALLOW, _REJECT))
        option, said = await self._unless_cancelled(
            self._ask_permission(request), (None, {"reason": "the turn was cancelled"})
        )
        await self._audit(action, option.outcome if option else "cancelled", detail | said)
        if option is not _ALLOW:
            raise Refusal(
                INVALID_PARAMS, f"It was not allowed: {said.get('reason') or 'a person refused it'}."
            )

    def _detail(self, command: Command) -> dict[str, Any]:
        return {
            "command": [shown(word) for word in command.line],
            "variables": {shown(name): shown(value) for name, value in command.variables.items()},
            "directory": str(command.directory),
            "repository": str(self._workspace.root),
            "agent": self._agent,
        }

    async def elicitation(self, params: msgspec.Raw) -> dict[str, Any]:
        """The result of `elicitation/create`."""
        request = _decode_elicitation(params)
        if request.mode == "form":
            form = Form(request.message, request.requested_schema)
            asking = self._confirm(request, "Accept", "") if form.is_complete else self._fill_in(form)
        elif request.mode == "url":
            if not _WEB_ADDRESS.fullmatch(request.url):
                raise Refusal(INVALID_PARAMS, "Only a web page, at an http or https address, can be visited.")
            asking = self._confirm(request, "Done", shown(request.url))
        else:
            raise Refusal(INVALID_PARAMS, f"Elicitation in the mode {request.mode!r} is not known here.")
        result, said = await self._unless_cancelled(
            asking, ({"action": "cancel"}, {"reason": "the turn was cancelled"})
        )
        detail = {"message": shown(request.message), "mode": request.mode}
        await self._audit("agent.elicitation", _OUTCOMES[result["action"]], detail | said)
        return result

    def forget_granted(self) -> None:
        """The turn has ended: what was allowed in it and has not run needs to be asked again."""
        self._granted.clear()
        self._reasons.clear()

    # Permissions

    async def _ask_permission(
        self, request: PermissionRequest
    ) -> tuple[PermissionOption | None, dict[str, Any]]:
        """The option that a person chose, or else one that refuses; and who said what."""
        try:
            settled = await self._put(
                QuestionKind.PERMISSION, (request.question(self._agent),), request.tool_call
            )
        except HoldfastError as error:
            return request.refusing, await self._could_not_ask(error)
        chosen = _chosen(settled)
        if chosen is not None:
            return request.option(chosen), _said(settled)
        text = "".join(answer.custom_text or "" for answer in settled.answers or ())
        return request.refusing, _said(settled) | ({"reason": text} if text else {})

    async def _permitted(self, option: PermissionOption | None, detail: dict[str, Any]) -> dict[str, Any]:
        if option is None:
            await self._audit("agent.permission", "cancelled", detail)
            return CANCELLED
        await self._audit("agent.permission", option.outcome, detail | {"option": shown(option.name)})
        return {"outcome": {"outcome": "selected", "optionId": option.option_id}}

    # Elicitations

    async def _fill_in(self, form: Form) -> tuple[dict[str, Any], dict[str, Any]]:
        said: dict[str, Any] = {}
        for _ in range(TRIES):
            try:
                settled = await self._put(QuestionKind.ELICITATION, form.questions())
            except HoldfastError as error:
                return {"action": "cancel"}, await self._could_not_ask(error)
            said = _said(settled)
            if settled.answers is None:
                return _unanswered(settled), said
            await form.fill_in(settled.answers)
            if form.is_complete:
                return {"action": "accept", "content": form.content}, said
        return {"action": "cancel"}, said | {"reason": f"the answers did not fit {TRIES} times"}

    async def _confirm(
        self, request: _ElicitationRequest, accept: str, url: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A question with two answers: that it is done, or will not be."""
        prompt = "\n\n".join(filter(None, (shown(request.message), url))) or "The agent asks you to confirm."
        question = Question(title="Request", prompt=prompt, options=(Option(accept), Option("Decline")))
        tool = {"url": url, "elicitationId": request.elicitation_id} if url else None
        try:
            settled = await self._put(QuestionKind.ELICITATION, (question,), tool)
        except HoldfastError as error:
            return {"action": "cancel"}, await self._could_not_ask(error)
        if settled.answers is None:
            return _unanswered(settled), _said(settled)
        action = "accept" if _chosen(settled) == accept else "decline"
        return {"action": action}, _said(settled)

    # People

    async def _put(
        self, kind: QuestionKind, questions: tuple[Question, ...], tool: dict[str, Any] | None = None
    ) -> QuestionSet:
        """Ask, and wait: the set as a person settled it, or as it is when nobody did in time."""
        if self._box is None:
            raise NobodyToAsk("Nobody can be asked: no place for questions is configured.")
        if self.pending > MAX_OPEN:
            raise TooManyQuestions
        new = NewQuestionSet(
            questions=questions,
            kind=kind,
            agent=self._agent,
            session_id=self._session_id,
            tool=tool,
            working_directory=str(self._workspace.root),
        )
        asking = asyncio.create_task(self._box.ask(new))
        try:
            asked = await asyncio.shield(asking)
            await to_its_end(self._noted(asked))
            with suppress(QuestionsRejected, QuestionsTimedOut):
                await self._box.wait(asked.id)
            settled = await self._box.get(asked.id)
        finally:
            await to_its_end(self._end(self._box, asking))
        if settled.is_settled:
            await self._heard(self._box, settled)
        return settled

    async def _could_not_ask(self, error: HoldfastError) -> dict[str, Any]:
        """What the audit log keeps of it. The session says it, too, once in a turn."""
        reason = str(error)
        if reason not in self._reasons:
            self._reasons.add(reason)
            try:
                await self._told(f"The agent was refused without anybody being asked: {reason}")
            except HoldfastError as failure:  # which must not keep the answer from the agent
                log.warning("session %s does not say that nobody was asked: %s", self._session_id, failure)
        return {"reason": reason}

    async def _end(self, box: QuestionBox, asking: asyncio.Task[QuestionSet]) -> None:
        """Withdraw what is being asked, once it is asked: a caller that is cancelled may be ahead of that."""
        await asyncio.wait([asking])
        if asking.exception() is None:
            await self._over(box, asking.result())

    async def _over(self, box: QuestionBox, asked: QuestionSet) -> None:
        """The request has ended: nobody answers it any more, and its session keeps what was said."""
        try:
            over = await box.abandon(asked.id)
        except HoldfastError as error:
            log.warning("The question set %s could not be withdrawn: %s", asked.id, error)
            over = msgspec.structs.replace(asked, status=QuestionStatus.ABANDONED)
        try:
            await self._noted(over)
        except HoldfastError as error:  # which must not keep the answer from the agent
            log.warning("What became of %s is not in its session: %s", asked.id, error)

    async def _heard(self, box: QuestionBox, settled: QuestionSet) -> None:
        try:
            await box.mark_read(settled.id)
        except HoldfastError as error:  # which must not keep the answer from the agent
            log.warning("What was said to %s could not be marked as read: %s", settled.id, error)

    async def _unless_cancelled(self, asking: Coroutine[Any, Any, T], cancelled: T) -> T:
        """What comes of asking, or `cancelled` when `cancel_all` was called meanwhile."""
        task = asyncio.create_task(asking)
        self._open.add(task)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._open.discard(task)
        return cancelled if task.cancelled() else task.result()


def _not_allowed(ruling: Ruling) -> Refusal:
    return Refusal(INVALID_PARAMS, f"The person's policy does not allow it ({ruling.by}).")


def _chosen(settled: QuestionSet) -> str | None:
    """The one label that was chosen; None when there was no such choice, whatever else was said."""
    labels = {
        label
        for answer in settled.answers or ()
        for label in (answer.selected_option, *(answer.selected_options or ()))
        if label
    }
    return labels.pop() if len(labels) == 1 else None


def _unanswered(settled: QuestionSet) -> dict[str, Any]:
    return {"action": "decline" if settled.status is QuestionStatus.REJECTED else "cancel"}


def _said(settled: QuestionSet) -> dict[str, Any]:
    """Who said something, where, and how it ended; not what was filled in, which may be a secret."""
    said: dict[str, Any] = {"question_set": settled.id, "status": settled.status.value}
    if settled.is_settled:
        said |= {"person": settled.answered_by, "door": settled.answered_from}
    if settled.rejection_reason:
        said["reason"] = settled.rejection_reason
    return said
