"""What goes over the wire: camelCase JSON, one struct for each thing.

The server encodes these, the OpenAPI document describes them, and the client decodes them. An
optional field that has nothing to say is left out. Times are ISO-8601 in UTC with milliseconds.
"""

from __future__ import annotations

from holdfast.execution.answer import ExecuteResponse
from holdfast.execution.reading import SummaryPage
from holdfast.execution.replay import Replay
from holdfast.retrieval.chunk import Found, Indexed
from holdfast.server.shapes.access import (
    Audit,
    AuditEntry,
    Health,
    Me,
    NewToken,
    Problem,
    SignInLink,
    Token,
    Tokens,
)
from holdfast.server.shapes.changes import ChangedEverything, Changes
from holdfast.server.shapes.compactions import (
    Compacted,
    Compaction,
    Compactions,
    Fold,
    Gap,
    Layout,
    Shortened,
)
from holdfast.server.shapes.messages import Delta, Message, MessagePage, RenderedTexts
from holdfast.server.shapes.questions import (
    Answer,
    ChangedQuestions,
    Option,
    Question,
    QuestionSet,
    QuestionSets,
)
from holdfast.server.shapes.repos import Agent, Agents, Repo, Repos
from holdfast.server.shapes.sessions import ChangedSessions, Session, SessionPage
from holdfast.server.shapes.turns import Accepted, Context, Contexts, Turn, Turns, TurnSummary

__all__ = [
    "PUBLISHED",
    "Accepted",
    "Agent",
    "Agents",
    "Answer",
    "Audit",
    "AuditEntry",
    "ChangedEverything",
    "ChangedQuestions",
    "ChangedSessions",
    "Changes",
    "Compacted",
    "Compaction",
    "Compactions",
    "Context",
    "Contexts",
    "Delta",
    "Fold",
    "Gap",
    "Health",
    "Layout",
    "Me",
    "Message",
    "MessagePage",
    "NewToken",
    "Option",
    "Problem",
    "Question",
    "QuestionSet",
    "QuestionSets",
    "RenderedTexts",
    "Repo",
    "Repos",
    "Session",
    "SessionPage",
    "Shortened",
    "SignInLink",
    "Token",
    "Tokens",
    "Turn",
    "TurnSummary",
    "Turns",
]

PUBLISHED = (
    *(Repo, Message, Session, Turn, TurnSummary, Compaction, Delta, Changes, ChangedSessions, SessionPage),
    *(MessagePage, Repos, Turns, Accepted, QuestionSet, QuestionSets, ChangedQuestions, Token, NewToken),
    ChangedEverything,
    *(
        RenderedTexts,
        Compactions,
        Fold,
        Gap,
        Shortened,
        Layout,
        Contexts,
        ExecuteResponse,
        SummaryPage,
        Replay,
    ),
    *(Found, Indexed, Compacted, Agent, Agents, Tokens, AuditEntry, Audit, Me, SignInLink, Health, Problem),
)
"""The shapes that the OpenAPI document names."""
