"""A provider: any server that speaks the Responses API, through the `openai` library.

An answer comes as a stream. The response's id is known before its first word and is told at once:
with it, an answer can be fetched later by somebody else. Nothing is sent twice by itself, except
what the server refused because it was busy: there the model has not run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import MissingExtra
from holdfast.execution.errors import (
    AnswerCut,
    ChainLost,
    ModelBusy,
    ModelError,
    ModelUnreachable,
    NoCredentials,
)
from holdfast.model.usage import TokenUsage

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI, AsyncStream

OPENAI = "https://api.openai.com/v1"

BUSY_TRIES = 3
BUSY_SECONDS = 30.0
"""How often a busy server is asked, and the longest that it is waited for in between."""

END_SECONDS = 5.0
"""How long a server may take to end its answer after the last event of it."""

FINAL = frozenset({"completed", "incomplete", "failed", "cancelled"})


class ToolRequest(msgspec.Struct, frozen=True):
    """A tool that the model asks to have called."""

    id: str
    name: str
    arguments: str


class ModelAnswer(msgspec.Struct, frozen=True):
    """A response that has ended."""

    response_id: str | None
    text: str
    stop_reason: str
    usage: TokenUsage
    tool_requests: tuple[ToolRequest, ...]
    payload: bytes
    """The response as the server gave it."""


class Provider:
    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        chains: bool | None = None,
        timeout_seconds: float = 600,
    ) -> None:
        """`chains` says whether the server keeps responses and goes on from them.

        A server that ignores the id of a response answers as if nothing had been said before, and no
        error tells; so it must be known, and is only of OpenAI itself.
        """
        self.address = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        self.api_key_env = api_key_env
        self.chains = self.address.startswith(OPENAI) if chains is None else chains
        self._timeout = timeout_seconds
        self._client: AsyncOpenAI | None = None

    @property
    def has_key(self) -> bool:
        return bool(os.environ.get(self.api_key_env))

    def fingerprint(self, model: str) -> str:
        """What tells this model with these credentials from every other, and tells nothing else."""
        told = "\0".join((self.address, model, sha256(self._key().encode()).hexdigest()))
        return sha256(told.encode()).hexdigest()[:32]

    def is_that_of(self, fingerprint: str, model: str) -> bool:
        """Whether a request of that fingerprint was sent to here."""
        try:
            return self.fingerprint(model) == fingerprint
        except NoCredentials:
            return False

    async def answer(
        self,
        body: dict[str, Any],
        began: Callable[[str], Awaitable[None]],
        added: Callable[[str], Awaitable[None]],
    ) -> ModelAnswer:
        """Send a request; tell the response's id, then each piece of text, then the whole answer."""
        from openai import APIConnectionError, APIStatusError, OpenAIError

        known: str | None = None

        async def note(response_id: str) -> None:
            nonlocal known
            if known is None:
                known = response_id
                await began(response_id)

        try:
            answer = await self._stream(body, note, added)
        except APIStatusError as error:
            raise _refused(error, body) from error
        except APIConnectionError as error:
            if known is None:
                raise ModelUnreachable(f"The model's server cannot be reached: {_reason(error)}.") from error
            answer = None
        except OpenAIError as error:
            raise ModelError(f"The model's server answered with an error: {error}.") from error
        except ValueError as error:  # what came is no JSON
            raise AnswerCut(f"What the model's server sent cannot be read: {error}.") from error
        if answer is None and known is not None and self.chains:
            answer = await self.fetch(known)
        if answer is None:
            raise AnswerCut("The model's answer was cut off before its end.")
        return answer

    async def fetch(self, response_id: str) -> ModelAnswer | None:
        """A response that was begun earlier, if the server has it and it has ended."""
        from openai import OpenAIError
        from openai.types.responses import Response

        try:
            response: object = await self._opened().responses.retrieve(response_id)
        except (OpenAIError, ValueError):  # or what came is no JSON
            return None
        if not isinstance(response, Response) or response.status not in FINAL:
            return None
        return _answer(response)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _stream(
        self,
        body: dict[str, Any],
        note: Callable[[str], Awaitable[None]],
        added: Callable[[str], Awaitable[None]],
    ) -> ModelAnswer | None:
        """The answer; None when the stream ended before it did."""
        async with _read_out(await self._patiently(body)) as events:
            while event := await anext(events, None):
                match event.type:
                    case "response.created" | "response.in_progress":
                        await note(event.response.id)
                    case "response.output_text.delta":
                        await added(event.delta)
                    case "response.completed" | "response.incomplete" | "response.failed":
                        await note(event.response.id)
                        return _answer(event.response)
                    case "error":
                        raise ModelError(f"The model's server broke off: {event.message}.")
        return None

    async def _patiently(self, body: dict[str, Any]) -> Any:
        """The stream of events, as soon as the server is not too busy for it."""
        from openai import RateLimitError

        for left in range(BUSY_TRIES - 1, -1, -1):
            try:
                return await self._opened().responses.create(**body, stream=True)
            except RateLimitError as error:
                wait = _retry_after(error)
                if not left or wait is None or wait > BUSY_SECONDS:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("the last try has returned or raised")

    def _opened(self) -> AsyncOpenAI:
        if self._client is None:
            if find_spec("openai") is None:
                raise MissingExtra("Executing instructions", "openai")
            from openai import AsyncOpenAI

            self._client = AsyncOpenAI(
                base_url=self.address, api_key=self._key(), max_retries=0, timeout=self._timeout
            )
        return self._client

    def _key(self) -> str:
        if not self.has_key:
            raise NoCredentials(self.api_key_env)
        return os.environ[self.api_key_env]


@asynccontextmanager
async def _read_out(stream: AsyncStream[Any]) -> AsyncIterator[AsyncStream[Any]]:
    """A stream that is never left in the middle.

    It is made of half a dozen generators, one around the other, which nobody closes: the garbage collector
    would, in any order, and their connection would be lost. So after the last event the end is waited for;
    and after a failure whoever waits for more is cancelled, which ends them from the innermost out.
    """
    from openai import OpenAIError

    seconds = 0.0
    try:
        yield stream
        seconds = END_SECONDS
    finally:
        with suppress(TimeoutError, OpenAIError, ValueError):
            async with asyncio.timeout(seconds):
                while await anext(stream, None):
                    pass
        await stream.close()


def _answer(response: Any) -> ModelAnswer:
    """What a response says; a failed one is an error."""
    if response.status == "failed":
        said = response.error.message if response.error else "it says no more"
        raise ModelError(f"The model failed: {said}.")
    reason = response.incomplete_details.reason if response.incomplete_details else None
    usage = response.usage
    return ModelAnswer(
        response_id=response.id,
        text=response.output_text,
        stop_reason=reason or ("cancelled" if response.status == "cancelled" else "end_turn"),
        usage=TokenUsage(usage.input_tokens, usage.output_tokens) if usage else TokenUsage(),
        tool_requests=tuple(
            ToolRequest(item.call_id, item.name, item.arguments)
            for item in response.output
            if item.type == "function_call"
        ),
        payload=response.model_dump_json(exclude_unset=True).encode(),
    )


def _refused(error: APIStatusError, body: dict[str, Any]) -> ModelError:
    said = _said(error)
    if "previous_response_id" in body and (
        error.status_code == 404 or (error.status_code == 400 and error.code == "previous_response_not_found")
    ):
        return ChainLost(f"The model's server does not know the response before this one: {said}.")
    if error.status_code == 429:
        wait = _retry_after(error)
        later = f" Try again in {wait:g} seconds." if wait is not None else ""
        return ModelBusy(f"The model's server takes no more requests now: {said}.{later}", wait)
    return ModelError(f"The model's server refused the request ({error.status_code}): {said}.")


def _said(error: APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    message = body.get("message") or error.message
    return str(message).strip().rstrip(".")[:500]


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__


def _retry_after(error: APIStatusError) -> float | None:
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
