"""Sessions as agents of the paid world leave them, written into the store as those agents would."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import Message, NewSession, Principal, PrincipalRole, Session, Store
from holdfast.execution.demo import DemoModel
from holdfast.model.content import PlanContent, ThoughtContent, ToolContent
from holdfast.model.ids import RepoId
from holdfast.model.message import Role
from holdfast.model.question import NewQuestionSet, Option, Question, QuestionKind, QuestionSet
from holdfast.model.records import NewCompaction
from holdfast.model.session import SessionPatch
from holdfast.model.turn import NewTurn, TurnAnswer
from holdfast.model.usage import TokenUsage
from holdfast.questions import QuestionBox
from tests.server.servers import Person
from tests.settings import configure

PERSON = Principal("local", "local", PrincipalRole.ADMIN)

WEBHOOKS = """\
import httpx

TIMEOUT = 10


def deliver(event: Event) -> None:
    \"\"\"Tell the subscriber once.\"\"\"
    response = httpx.post(event.url, json=event.payload, timeout=TIMEOUT)
    response.raise_for_status()


def drain(events: list[Event]) -> None:
    for event in events:
        deliver(event)
"""

RETRIED = """\
import httpx
from tenacity import retry, stop_after_attempt, wait_exponential_jitter

TIMEOUT = 10
ATTEMPTS = 6


@retry(stop=stop_after_attempt(ATTEMPTS), wait=wait_exponential_jitter(max=300), reraise=True)
def deliver(event: Event) -> None:
    \"\"\"Tell the subscriber, trying again for about ten minutes.\"\"\"
    response = httpx.post(event.url, json=event.payload, timeout=TIMEOUT)
    response.raise_for_status()


def drain(events: list[Event]) -> None:
    for event in events:
        deliver(event)
"""

MONEY = """\
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def rounded(amount: Decimal) -> Decimal:
    \"\"\"An amount of an invoice, rounded half up to whole cents.\"\"\"
    return amount.quantize(CENT, ROUND_HALF_UP)
"""

INVOICE = """\
from billing.money import rounded


def total(invoice: Invoice) -> Decimal:
    return sum(rounded(line.price * line.quantity) for line in invoice.lines)
"""

MODELS = """\
[providers.default]
chains = true

[conversations.billing]
instructions = "Amounts are in cents."
"""

TESTS_PASSED = (
    "\x1b[1m============ test session starts ============\x1b[0m\n"
    "collected 14 items\n\n"
    "tests/test_webhooks.py \x1b[32m..............\x1b[0m                [100%]\n\n"
    "\x1b[32m============ \x1b[1m14 passed\x1b[0m\x1b[32m in 1.31s ============\x1b[0m\n"
)

ANSWER = """\
Failed deliveries are now tried again with growing pauses, up to six times in about ten minutes.

| attempt | pause before it |
|---|---|
| 2 | 1 s |
| 3 | 2 s |
| 6 | 16 s and some jitter |

The retry wraps `deliver` only, so one slow subscriber does not hold up `drain` for the others:

```python
@retry(stop=stop_after_attempt(ATTEMPTS), wait=wait_exponential_jitter(max=300), reraise=True)
def deliver(event: Event) -> None: ...
```

**One thing to decide:** after the last attempt the event is lost. I can keep it in a table instead.
"""


def tool(title: str, kind: str, call: str, **fields: Any) -> Message:
    content = ToolContent(
        tool=title,
        title=title,
        kind=kind,
        tool_call_id=call,
        **{"args": None, "status": "completed"} | fields,
    )
    return Message.of(Role.SYSTEM, content)


def plan(done: int, *steps: str) -> Message:
    def status(number: int) -> str:
        return "completed" if number < done else "in_progress" if number == done else "pending"

    entries = tuple({"content": step, "status": status(number)} for number, step in enumerate(steps))
    return Message.of(Role.SYSTEM, PlanContent(steps=entries))


async def retried_webhooks(store: Store, repo_id: RepoId, repo: Path) -> Session:
    """An agent read, planned, changed a file, ran the tests and reported, in one turn of several."""
    session = await store.create_session(
        NewSession(agent="claude", repo_id=repo_id, title="Retry failed webhooks")
    )
    state = {
        "modes": {
            "availableModes": [
                {"id": "ask", "name": "Ask before edits"},
                {"id": "auto", "name": "Edit freely"},
            ],
            "currentModeId": "ask",
        },
        "usage": {"used": 46_200, "size": 200_000, "cost": None},
    }
    await store.patch(session.id, SessionPatch(agent_state=state))
    for number, tokens in enumerate((1800, 4200, 2600, 7400, 5100, 9800, 3300)):
        await _turn(store, session, f"Step {number + 1} of the clean-up", [], TokenUsage(tokens, tokens // 4))
    steps = ("Read the delivery code", "Retry with growing pauses", "Run the tests")
    await _turn(
        store,
        session,
        "Webhooks that fail are lost. Retry them with exponential backoff, and keep the tests green.",
        [
            Message.of(
                Role.AGENT,
                ThoughtContent(
                    text="`deliver` posts once and raises. A retry belongs around it, not around `drain`.",
                    partial=False,
                ),
            ),
            plan(3, *steps),
            tool(
                "Read billing/webhooks.py",
                "read",
                "call-1",
                args={"path": str(repo / "billing/webhooks.py")},
                locations=({"path": str(repo / "billing/webhooks.py"), "line": 6},),
                result={"lines": 15},
            ),
            tool(
                "Edit billing/webhooks.py",
                "edit",
                "call-2",
                content=(
                    {
                        "type": "diff",
                        "path": str(repo / "billing/webhooks.py"),
                        "oldText": WEBHOOKS,
                        "newText": RETRIED,
                    },
                ),
            ),
            tool(
                "pytest tests/test_webhooks.py",
                "execute",
                "call-3",
                result={"exitCode": 0, "output": TESTS_PASSED},
            ),
            Message.agent(ANSWER),
        ],
        TokenUsage(12_400, 2100),
    )
    return await store.get_session(session.id)


def model_settings(home: Path, model: DemoModel) -> dict[str, str]:
    """The environment of a server in `home` that has this model, and goes on from its responses."""
    configure(home, MODELS)
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none", "HOLDFAST_MODEL": "scripted"}


def write_billing(repo: Path) -> None:
    """A little code to ask about."""
    (repo / "billing").mkdir()
    (repo / "billing" / "money.py").write_text(MONEY)
    (repo / "billing" / "webhooks.py").write_text(WEBHOOKS)


async def explained_turn(owner: Person, repo: Path, instruction: str) -> dict[str, Any]:
    """The answer of a model that was given sources, a file, and one that is too large."""
    indexed = await owner.post("/api/retrieval/index", {"path": repo.name})
    assert indexed.status_code == 200, indexed.text
    files = [
        {"path": "billing/invoice.py", "content": INVOICE, "isTouched": True},
        {"path": "billing/ledger.csv", "content": "2026-01-01;0.00\n" * 8000},
    ]
    asked = {"instruction": instruction, "repo": repo.name, "activeFiles": files}
    answer: dict[str, Any] = (await owner.post("/api/ai/agent/execute", asked)).json()
    assert answer["kind"] == "answer", answer
    return answer


async def folded(store: Store, messages: int = 60, last: int = 50) -> Session:
    """A session of which all but the end is a summary for its agent."""
    session = await store.create_session(NewSession(title="A long talk"))
    await long_talk(store, session, messages)
    await store.commit_compaction(
        session.id,
        NewCompaction(
            first_seq=1,
            last_seq=last,
            strategy="summary",
            summary="They counted, and **agreed** on every number.",
            tokens_before=4200,
            tokens_after=300,
        ),
    )
    return await store.get_session(session.id)


async def long_talk(store: Store, session: Session, messages: int) -> None:
    """So many messages, by turns of person and agent."""
    for first in range(1, messages + 1, 5000):
        await store.append_messages(session.id, talk(first, min(first + 4999, messages)))


def talk(first: int, last: int) -> list[Message]:
    """A part of it, by the numbers of its messages."""
    return [_spoken(number) for number in range(first, last + 1)]


def _spoken(number: int) -> Message:
    if number % 2:
        return Message.user(f"Question {number}: what comes after {number - 1}?")
    return Message.agent(f"After **{number - 1}** comes `{number}`.\n\nThat is message {number} of the talk.")


def run(command: str, **arguments: Any) -> dict[str, Any]:
    """A tool call that runs a command, with the command as its title, as agents give it."""
    return {"title": command, "kind": "execute", "rawInput": {"command": command, **arguments}}


MIGRATION = run("alembic upgrade head", timeout=120)


async def asked(
    box: QuestionBox,
    session: Session,
    repo: Path,
    tool: dict[str, Any] | None = MIGRATION,
    prompt: str = "claude asks for permission",
) -> QuestionSet:
    """An agent wants to run a command."""
    options = (Option("Allow", "Allow this time only"), Option("Reject", "Refuse this time only"))
    question = Question(title="Permission", prompt=prompt, options=options)
    return await box.ask(
        NewQuestionSet(
            questions=(question,),
            kind=QuestionKind.PERMISSION,
            agent="claude",
            session_id=session.id,
            tool=tool,
            working_directory=str(repo),
        )
    )


async def asked_several(box: QuestionBox, session: Session, repo: Path) -> QuestionSet:
    """An agent asks two questions at once, one of them with several answers."""
    return await box.ask(
        NewQuestionSet(
            questions=(
                Question(
                    title="Lost events",
                    prompt="What shall become of an event after its last attempt?",
                    options=(
                        Option("Keep it in a table (Recommended)", "It can be sent again by hand"),
                        Option("Drop it", "As today"),
                    ),
                ),
                Question(
                    title="Alerts",
                    prompt="Who is told?",
                    options=(Option("On-call"), Option("The subscriber"), Option("Nobody")),
                    multi_select=True,
                ),
            ),
            agent="claude",
            session_id=session.id,
            working_directory=str(repo),
        )
    )


async def many_turns(store: Store, turns: int) -> Session:
    """A session of so many turns, each asked and answered."""
    session = await store.create_session(NewSession(title="Step by step"))
    for number in range(1, turns + 1):
        await _turn(store, session, f"Step {number} of many", [], TokenUsage(10, 10))
    return session


async def _turn(
    store: Store, session: Session, prompt: str, messages: Sequence[Message], usage: TokenUsage
) -> None:
    turn = await store.add_turn(session.id, NewTurn(instruction_summary=prompt))
    await store.append_messages(session.id, [Message.user(prompt)], turn_id=turn.id)
    for message in messages or [Message.agent("Done.")]:
        await store.append_messages(session.id, [message], turn_id=turn.id)
    answer = TurnAnswer(agent_answer_summary="Done.", usage=usage, stop_reason="end_turn")
    await store.complete_turn(session.id, turn.id, answer)
