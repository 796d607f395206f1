"""The names of the library, as `holdfast.Message`, `holdfast.open_store`, …"""

from holdfast.errors import HoldfastError
from holdfast.model.content import (
    CompactionContent,
    JsonContent,
    PlanContent,
    QuestionContent,
    ResourceContent,
    TextContent,
    ThoughtContent,
    ToolContent,
)
from holdfast.model.key import PeerKind, SessionKey
from holdfast.model.message import Message, Role, ToolCall
from holdfast.model.principal import Principal, PrincipalRole
from holdfast.model.records import AuditEntry, Compaction, NewCompaction, Repo, Token
from holdfast.model.session import NewSession, Session, SessionPatch
from holdfast.model.status import SessionStatus
from holdfast.model.turn import (
    ActiveFileRef,
    ChunkRef,
    NewTurn,
    Turn,
    TurnAnswer,
    TurnFailure,
    TurnProgress,
    TurnStatus,
)
from holdfast.model.usage import TokenUsage
from holdfast.store import open_store
from holdfast.store.options import (
    ChangedSessions,
    Changes,
    Delta,
    HistoryOptions,
    HistoryPage,
    SessionFilter,
    SessionOrder,
    SessionPage,
)
from holdfast.store.store import Store
from holdfast.store.streams import MessageStream

__all__ = [
    "ActiveFileRef",
    "AuditEntry",
    "ChangedSessions",
    "Changes",
    "ChunkRef",
    "Compaction",
    "CompactionContent",
    "Delta",
    "HistoryOptions",
    "HistoryPage",
    "HoldfastError",
    "JsonContent",
    "Message",
    "MessageStream",
    "NewCompaction",
    "NewSession",
    "NewTurn",
    "PeerKind",
    "PlanContent",
    "Principal",
    "PrincipalRole",
    "QuestionContent",
    "Repo",
    "ResourceContent",
    "Role",
    "Session",
    "SessionFilter",
    "SessionKey",
    "SessionOrder",
    "SessionPage",
    "SessionPatch",
    "SessionStatus",
    "Store",
    "TextContent",
    "ThoughtContent",
    "Token",
    "TokenUsage",
    "ToolCall",
    "ToolContent",
    "Turn",
    "TurnAnswer",
    "TurnFailure",
    "TurnProgress",
    "TurnStatus",
    "open_store",
]
