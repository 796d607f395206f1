"""The two tools: what a model is told of them, and what they take.

Names, parameters and limits are those of the AUQ server, so that an agent set up for one can be
given the other. The parameters are described once, as structs: their JSON Schema is what the
client sees, and the same structs check what it sends.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from mcp_types import Tool, ToolAnnotations
from msgspec import Meta

from holdfast.errors import InvalidInput
from holdfast.model.question import Option, Question


class OptionArgument(msgspec.Struct, frozen=True):
    label: Annotated[
        str,
        Meta(
            description="What the person chooses, in 1 to 5 words. "
            "End the label of the option you recommend with '(Recommended)'."
        ),
    ]
    description: Annotated[str, Meta(description="What this option means or leads to; its trade-offs.")] = ""


class QuestionArgument(msgspec.Struct, frozen=True, rename="camel"):
    prompt: Annotated[
        str, Meta(description="The whole question, specific, ending with a question mark. Markdown is fine.")
    ]
    title: Annotated[
        str, Meta(min_length=1, description="A label of at most 12 characters, such as 'Language'.")
    ]
    options: Annotated[
        tuple[OptionArgument, ...],
        Meta(
            min_length=2,
            max_length=5,
            description="The choices, the one you recommend first. "
            "Never list 'Other': the person can always answer in their own words.",
        ),
    ]
    multi_select: Annotated[bool, Meta(description="Whether several options may be chosen.")]

    def question(self) -> Question:
        return Question(
            title=self.title,
            prompt=self.prompt,
            options=tuple(Option(each.label, each.description or None) for each in self.options),
            multi_select=self.multi_select,
        )


class AskArguments(msgspec.Struct, frozen=True, rename="camel"):
    questions: Annotated[
        tuple[QuestionArgument, ...],
        Meta(min_length=1, max_length=5, description="What you need to know: 1 to 5 questions."),
    ]
    non_blocking: Annotated[
        bool,
        Meta(
            description="Return at once with an id, and fetch the answers later with get_answered_questions."
        ),
    ] = False


class FetchArguments(msgspec.Struct, frozen=True):
    session_id: Annotated[str, Meta(description="The id of the question set, or its first 8 characters.")]
    blocking: Annotated[bool, Meta(description="Wait until the person has answered.")] = False


Arguments = TypeVar("Arguments", AskArguments, FetchArguments)


def arguments_of(tool: str, kind: type[Arguments], given: dict[str, Any] | None) -> Arguments:
    try:
        return msgspec.convert(given or {}, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"Tool '{tool}' parameter validation failed: {error}") from None


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct, in one piece: not every client follows references."""
    (schema,), components = msgspec.json.schema_components((kind,))
    inlined: dict[str, Any] = _inlined(schema, components)
    return inlined


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if reference := schema.get("$ref"):
        component = components[reference.rpartition("/")[2]]
        return _inlined({name: value for name, value in component.items() if name != "title"}, components)
    return {name: _inlined(value, components) for name, value in schema.items()}


ASK = Tool(
    name="ask_user_questions",
    title="Ask User Questions",
    description=(
        "Ask the person you work for up to five questions, each with two to five options, and wait for the "
        "answers.\n\n"
        "Use it when a decision is theirs: a preference, an unclear requirement, a choice between ways. "
        "Do not use it to ask whether a plan is ready or whether to proceed.\n\n"
        "The person may choose, answer in their own words, ask you to elaborate or rephrase, or reject the "
        "questions with a reason. When the answer takes long, the result says how to go on waiting; asking "
        "the same questions again does not ask the person twice."
    ),
    input_schema=_schema(AskArguments),
    annotations=ToolAnnotations(
        title="Ask User Questions", read_only_hint=False, idempotent_hint=True, open_world_hint=True
    ),
)

FETCH = Tool(
    name="get_answered_questions",
    title="Get Answered Questions",
    description=(
        "Fetch the answers to questions that were asked with ask_user_questions. With blocking=true, wait "
        "for them."
    ),
    input_schema=_schema(FetchArguments),
    annotations=ToolAnnotations(title="Get Answered Questions", read_only_hint=True, open_world_hint=False),
)
