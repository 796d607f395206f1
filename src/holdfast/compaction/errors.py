"""Why a compaction did not happen. In every case the session's view is the one it was."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import Conflict, HoldfastError
from holdfast.model.ids import CompactionId


class PlanRefused(HoldfastError):
    """A strategy's plan would break the view; `broken` names the invariants and says how."""

    code = "plan_refused"
    status = 409

    def __init__(self, strategy: str, broken: Sequence[str]) -> None:
        super().__init__(f"The plan of {strategy!r} was refused: {'; '.join(broken)}. Nothing was changed.")
        self.broken = tuple(broken)


class StrategyFailed(HoldfastError):
    """A strategy's own code failed, or did not come to an end."""

    code = "strategy_failed"
    status = 500

    def __init__(self, strategy: str, reason: str) -> None:
        super().__init__(f"The strategy {strategy!r} made no plan: {reason}. Nothing was changed.")


class UnreadableCompaction(HoldfastError):
    code = "unreadable_compaction"

    def __init__(self, compaction: CompactionId, reason: str) -> None:
        super().__init__(
            f"The compaction {compaction} was recorded with edits that nobody can read: {reason}. "
            "Undo it: the messages are all there."
        )


class SummaryFailed(HoldfastError):
    code = "summary_failed"
    status = 502
    retriable = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"No summary was made: {reason}. Nothing was changed; try again.")


class Superseded(Conflict):
    """Somebody else compacted the session, or undid a compaction, while this one was being made."""

    code = "compaction_superseded"
    retriable = True

    def __init__(self) -> None:
        super().__init__("The session's view changed while it was being compacted; plan again.")
