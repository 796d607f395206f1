"""Forms that agents want filled in: asked, answered, and turned back into values."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acp.schema import CreateElicitationResponse
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from holdfast.agents.asking import TRIES
from holdfast.agents.properties import IntegerProperty
from holdfast.agents.wire import Refusal
from holdfast.errors import InvalidInput
from holdfast.model.question import Answer, QuestionKind
from holdfast.questions import QuestionBox
from tests.agents.people import World, choice, elicitation, form, raw, running, several, text


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def filled_in(world: World, request: msgspec.Raw, *rounds: list[Answer]) -> dict[str, Any]:
    """The result of a form whose questions are answered round by round."""
    async with running(world.asking().elicitation(request)) as task:
        for number, answers in enumerate(rounds, 1):
            await world.say(await world.asked(number), *answers)
    result = task.result()
    TypeAdapter(CreateElicitationResponse).validate_python(result)
    assert len(world.noted) == len(rounds)
    return result


async def test_every_type_is_asked_and_converted_back(world: World) -> None:
    request = form(
        name={"type": "string", "title": "Name", "description": "What shall it be called?"},
        color={"type": "string", "enum": ["red", "green"]},
        size={
            "type": "string",
            "oneOf": [
                {"const": "s", "title": "Small", "description": "Fits all"},
                {"const": "l", "title": "Large"},
            ],
        },
        count={"type": "integer", "minimum": 1, "maximum": 5},
        ratio={"type": "number", "minimum": 0},
        sure={"type": "boolean", "default": True},
        parts={"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1},
        tags={
            "type": "array",
            "items": {"anyOf": [{"const": "x", "title": "X!"}, {"const": "y", "title": "Y!"}]},
        },
        required=("name", "color", "size", "count", "ratio", "sure", "parts", "tags"),
    )
    result = await filled_in(
        world,
        request,
        [
            text("Holdfast"),
            choice("green", 1),
            choice("Large", 2),
            text(" 3 ", 3),
            text("0.5", 4),
            choice("No", 5),
            several("c", "a", index=6),
            several("Y!", index=7),
        ],
    )
    assert result == {
        "action": "accept",
        "content": {
            "name": "Holdfast",
            "color": "green",
            "size": "l",
            "count": 3,
            "ratio": 0.5,
            "sure": False,
            "parts": ["a", "c"],
            "tags": ["y"],
        },
    }
    (asked,) = world.noted
    assert asked.kind is QuestionKind.ELICITATION
    prompts = [question.prompt for question in asked.questions]
    assert prompts[0] == "Please fill in.\n\nWhat shall it be called?"
    assert prompts[1] == "color"  # whose choices say what is expected
    assert prompts[3] == "count\n\n(A whole number 1 to 5.)"
    assert [question.title for question in asked.questions][:2] == ["Name", "color"]
    assert asked.questions[2].options[0].description == "Fits all"
    assert asked.questions[5].options[0].description == "(the default)"
    assert [question.multi_select for question in asked.questions] == [False] * 6 + [True] * 2
    ((action, outcome, detail),) = world.audited
    assert (action, outcome, detail["person"]) == ("agent.elicitation", "accepted", "ada")
    assert "Holdfast" not in str(detail)


async def test_what_is_not_required_may_be_left_out(world: World) -> None:
    request = form(
        a={"type": "string"},
        b={"type": "integer"},
        c={"type": "string", "enum": ["x", "y"]},
        d={"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 1},
        e={"type": "string", "default": "usual"},
        f={"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "default": ["y"]},
        g={"type": "_of_the_future"},
        h={"type": "boolean"},
        required=("h",),
    )
    answers = [choice("Leave out"), choice("Leave out", 2), several(index=3), choice("Yes", 6)]
    assert await filled_in(world, request, answers) == {
        "action": "accept",
        "content": {"e": "usual", "f": ["y"], "h": True},
    }


async def test_a_default_can_be_chosen_or_left_alone(world: World) -> None:
    request = form(
        port={"type": "integer", "default": 8000},
        host={"type": "string", "default": "localhost"},
        required=("port", "host"),
    )
    result = await filled_in(world, request, [choice("8000")])
    assert result["content"] == {"port": 8000, "host": "localhost"}


MISFITS: list[tuple[dict[str, Any], Answer | None, str]] = [
    ({"type": "integer"}, text("three"), "“three” does not fit: a whole number is needed."),
    ({"type": "integer"}, text("1.5"), "a whole number"),
    ({"type": "integer"}, text("9" * 5000), "a whole number"),
    ({"type": "integer", "minimum": 1, "maximum": 9}, text("10"), "a whole number 1 to 9 is needed"),
    ({"type": "number", "maximum": 1}, text("1.01"), "a number at most 1 is needed"),
    ({"type": "number"}, text("nan"), "a number"),
    ({"type": "number"}, text("inf"), "a number"),
    ({"type": "boolean"}, text("perhaps"), "one of the choices"),
    ({"type": "string", "enum": ["a", "b"]}, text("c"), "“c” does not fit: one of the choices"),
    ({"type": "string", "minLength": 3}, text("ab"), "a text of at least 3 characters"),
    ({"type": "string", "maxLength": 3}, text("abcd"), "a text of at most 3 characters"),
    ({"type": "string", "pattern": "^[a-z]+$"}, text("A1"), "a text that matches ^[a-z]+$"),
    ({"type": "string", "format": "email"}, text("ada"), "an e-mail address"),
    ({"type": "string", "format": "uri"}, text("example"), "a URI"),
    ({"type": "string", "format": "date"}, text("yesterday"), "a date, such as"),
    ({"type": "string", "format": "date-time"}, text("now"), "a date and time"),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
        several("a", "b"),
        "2 chosen",
    ),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1},
        several(),
        "0 chosen",
    ),
    ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, text("c"), "“c” does not fit"),
    ({"type": "string"}, None, "An answer is needed here."),
]


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(("wanted", "answer", "why"), MISFITS, ids=[why for *_, why in MISFITS])
async def test_what_does_not_fit_is_asked_again_with_the_reason_and_the_rest_is_kept(
    world: World, wanted: dict[str, Any], answer: Answer | None, why: str
) -> None:
    request = form(wrong=wanted, right={"type": "string"}, required=("wrong", "right"))
    asking = world.asking()
    async with running(asking.elicitation(request)) as task:
        await world.say(await world.asked(), text("kept", 1), *([answer] if answer else []))
        (again,) = (await world.asked(2)).questions
        assert again.title == "wrong"
        assert why in again.prompt
        await world.box.reject(world.noted[1].id, by="ada", door="tui")
    assert task.result() == {"action": "decline"}


async def test_a_better_answer_completes_the_form(world: World) -> None:
    request = form(n={"type": "integer", "minimum": 1}, s={"type": "string"}, required=("n", "s"))
    rounds = [[text("zero"), text("kept", 1)], [text("0")], [text("1")]]
    assert await filled_in(world, request, *rounds) == {"action": "accept", "content": {"s": "kept", "n": 1}}


async def test_answers_that_never_fit_are_given_up(world: World) -> None:
    rounds = [[text("no number")]] * TRIES
    assert await filled_in(world, form(n={"type": "integer"}), *rounds) == {"action": "cancel"}
    assert "did not fit" in world.audited[0][2]["reason"]


FITTING: list[tuple[dict[str, Any], Answer, Any]] = [
    ({"type": "string", "pattern": "^[a-z]+$"}, text("abc"), "abc"),
    ({"type": "string", "pattern": "("}, text("left to the agent"), "left to the agent"),
    ({"type": "string", "pattern": "^(a+)+$"}, text("a" * 60 + "!"), "a" * 60 + "!"),
    ({"type": "string", "format": "email"}, text("ada@example.org"), "ada@example.org"),
    ({"type": "string", "format": "uri"}, text("https://example.org"), "https://example.org"),
    ({"type": "string", "format": "date"}, text("2026-01-31"), "2026-01-31"),
    ({"type": "string", "format": "date-time"}, text("2026-01-31T12:00:00Z"), "2026-01-31T12:00:00Z"),
    ({"type": "string", "format": "unheard-of"}, text("x"), "x"),
    ({"type": "string"}, text("  spaces stay "), "  spaces stay "),
    ({"type": "string", "enum": ["a", "b"]}, text("b"), "b"),
    ({"type": "string", "enum": ["a", "b"], "default": "z"}, choice("a"), "a"),
    ({"type": "string", "oneOf": [{"const": "s", "title": "Small"}]}, text("Small"), "s"),
    ({"type": "string", "enum": ["Leave out", "b"]}, choice("Leave out"), "Leave out"),
    ({"type": "string", "enum": ["a", "a"]}, choice("a (2)"), "a"),
    ({"type": "boolean"}, text("yes"), True),
    ({"type": "integer"}, text("-7"), -7),
    ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, several(), []),
    ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, text("b"), ["b"]),
]


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(("wanted", "answer", "value"), FITTING, ids=[str(wanted) for wanted, *_ in FITTING])
async def test_what_fits_is_taken(world: World, wanted: dict[str, Any], answer: Answer, value: Any) -> None:
    result = await filled_in(world, form(field=wanted), [answer])
    assert result == {"action": "accept", "content": {"field": value}}


@given(st.integers(-(2**53), 2**53))
def test_whole_numbers_stay_what_they_are(number: int) -> None:
    assert asyncio.run(IntegerProperty().parsed(str(number))) == number


async def test_a_rejected_form_is_declined_and_one_whose_time_is_over_cancelled(
    world: World, tmp_path: Path
) -> None:
    async with running(world.asking().elicitation(form(a={"type": "string"}))) as task:
        await world.box.reject((await world.asked()).id, by="ada", door="web")
    assert task.result() == {"action": "decline"}
    hasty = world.asking(box=QuestionBox(tmp_path / "questions", timeout=0.01))
    assert await hasty.elicitation(form(a={"type": "string"})) == {"action": "cancel"}
    assert await world.asking(nobody=True).elicitation(form(a={"type": "string"})) == {"action": "cancel"}
    assert [outcome for _, outcome, _ in world.audited] == ["declined", "cancelled", "cancelled"]


async def test_a_form_without_fields_is_accepted_or_declined(world: World) -> None:
    assert await filled_in(world, form(), [choice("Accept")]) == {"action": "accept"}
    world.noted.clear()
    assert await filled_in(world, form(), [choice("Decline")]) == {"action": "decline"}


URL = {"sessionId": "1", "mode": "url", "message": "Sign in.", "elicitationId": "e1"}


@pytest.mark.parametrize(
    ("answer", "action"),
    [(choice("Done"), "accept"), (choice("Decline"), "decline"), (text("what is this?"), "decline")],
)
async def test_a_web_page_is_shown_and_visited_or_not(world: World, answer: Answer, action: str) -> None:
    result = await filled_in(world, elicitation(**URL, url="https://example.org/login?a=b"), [answer])
    assert result == {"action": action}
    (asked,) = world.noted
    assert asked.questions[0].prompt == "Sign in.\n\nhttps://example.org/login?a=b"
    assert asked.tool == {"url": "https://example.org/login?a=b", "elicitationId": "e1"}


WRONG_FORMS: list[Any] = [
    {},
    {"mode": "form", "message": 7},
    {
        "mode": "form",
        "message": "m",
        "requestedSchema": {"properties": {"a": {"type": "object"}}, "required": ["a"]},
    },
    {"mode": "form", "message": "m", "requestedSchema": {"properties": {}, "required": ["a"]}},
    {"mode": "form", "message": "m", "requestedSchema": {"properties": {"a": {"type": "string", "enum": 7}}}},
    {"mode": "form", "message": "m", "requestedSchema": {"properties": {"a": 7}}},
    {"mode": "form", "message": "m", "requestedSchema": {"properties": {"a": {"type": "array"}}}},
    {"mode": "url", "message": "m", "url": "javascript:alert(1)"},
    {"mode": "url", "message": "m", "url": "file:///etc/passwd"},
    {"mode": "url", "message": "m"},
    {"mode": "_telepathy", "message": "m"},
]


@pytest.mark.parametrize("params", WRONG_FORMS, ids=json.dumps)
async def test_a_wrong_form_is_refused_and_nobody_is_asked(world: World, params: Any) -> None:
    with pytest.raises((Refusal, InvalidInput, msgspec.ValidationError)):
        await world.asking().elicitation(raw(params))
    assert world.noted == []


@pytest.mark.parametrize("field", [{"type": ["string", "null"]}, {"type": {}}, {}, {"type": None}], ids=str)
async def test_an_unknown_field_that_is_not_required_is_passed_over(
    world: World, field: dict[str, Any]
) -> None:
    schema = {"properties": {"odd": field, "b": {"type": "boolean"}}}
    request = raw({"mode": "form", "message": "m", "requestedSchema": schema})
    assert (await filled_in(world, request, [choice("Yes")]))["content"] == {"b": True}
