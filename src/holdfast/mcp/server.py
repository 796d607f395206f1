"""The MCP server, in every version of the protocol that the SDK speaks.

A failure is a result that is marked as an error, so that the model reads the sentence and can do
something about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

import holdfast
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.mcp.asking import Asker, Call
from holdfast.mcp.tools import ASK, FETCH, AskArguments, FetchArguments, arguments_of

INSTRUCTIONS = (
    "Use ask_user_questions to put a decision before the person you work for. They answer in their own time, "
    "in a terminal, a browser or the command line; nothing they say is lost."
)

Context = ServerRequestContext[Any, Any]


def question_server(asker: Asker) -> Server[Any]:
    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[ASK, FETCH])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        match params.name:
            case ASK.name:
                return await _ask(asker, _call(context), params)
            case FETCH.name:
                return await _fetch(asker, _call(context), params)
            case other:
                raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {other}")

    return Server(
        "holdfast",
        version=holdfast.__version__,
        title="Holdfast questions",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _ask(asker: Asker, call: Call, params: CallToolRequestParams) -> CallToolResult:
    try:
        arguments = arguments_of(ASK.name, AskArguments, params.arguments)
    except InvalidInput as error:
        return _failure(str(error))
    questions = [each.question() for each in arguments.questions]
    try:
        return _result(await asker.ask(call, questions, blocking=not arguments.non_blocking))
    except HoldfastError as error:
        return _failure(f"Error in session: Error: {error}")


async def _fetch(asker: Asker, call: Call, params: CallToolRequestParams) -> CallToolResult:
    try:
        arguments = arguments_of(FETCH.name, FetchArguments, params.arguments)
    except InvalidInput as error:
        return _failure(str(error))
    try:
        return _result([await asker.fetch(call, arguments.session_id, blocking=arguments.blocking)])
    except HoldfastError as error:
        return _failure(f"Error fetching answers: Error: {error}")


def _call(context: Context) -> Call:
    client = context.session.client_params

    async def report(progress: float, message: str) -> None:
        await context.session.report_progress(progress, message=message)

    return Call(client=client.client_info.name if client else None, report=report)


def _result(texts: Sequence[str]) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text) for text in texts])


def _failure(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)
