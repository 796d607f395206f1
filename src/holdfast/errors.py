"""Every failure a caller can meet.

Each error carries one sentence that says what happened and what to do, a stable `code` for
programs, the HTTP `status` the server answers with, and whether repeating the call may help.
This module imports nothing, so that every layer, the model included, can raise from it.
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """The root of all of them. `str(error)` is the sentence a person reads."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False
    """True when the same call may succeed later without being changed."""


class InvalidInput(HoldfastError):
    """The caller gave a value that cannot be stored or understood. Nothing was changed."""

    code = "invalid_input"
    status = 400


class MessageTooLarge(InvalidInput):
    code = "message_too_large"
    status = 413


class NotFound(HoldfastError):
    code = "not_found"
    status = 404


class SessionNotFound(NotFound):
    code = "session_not_found"

    def __init__(self, session: object) -> None:
        super().__init__(f"No session {str(session)!r} is visible here; check the name, and who asks.")
        self.session = str(session)


class AccessDenied(HoldfastError):
    code = "access_denied"
    status = 403
    on_record = False
    """Whether the audit log has it already."""


class Conflict(HoldfastError):
    """The call was well-formed but does not fit the state it met."""

    code = "conflict"
    status = 409


class InvalidTransition(Conflict):
    code = "invalid_transition"

    def __init__(self, current: str, target: str) -> None:
        super().__init__(f"A session that is {current} cannot become {target}.")
        self.session_status = current


class RevisionConflict(Conflict):
    code = "revision_conflict"

    def __init__(self, expected: int, current: int) -> None:
        super().__init__(
            f"The session is at revision {current}, not {expected}: read what changed since, then try again."
        )
        self.expected = expected
        self.current = current


class TurnEnded(Conflict):
    code = "turn_ended"

    def __init__(self, turn_id: str, turn_status: str) -> None:
        super().__init__(f"Turn {turn_id} is {turn_status}; an ended turn is never changed. Open a new turn.")
        self.turn_status = turn_status


class MessageFinal(Conflict):
    code = "message_final"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"Message {message_id} is final and never changes; append a new message instead.")


class StoreError(HoldfastError):
    """The database itself could not do it. Nothing of the call was saved."""

    code = "store_error"
    from_afar = "The store could not do it, and saved nothing of this call; the server's log says why."
    """What is said to callers who need not know where the database is."""


class StoreClosed(StoreError):
    """The program has closed its store, for good."""

    code = "store_closed"

    def __init__(self) -> None:
        super().__init__("The store is closed.")


class StoreUnavailable(StoreError):
    """The database did not answer. A repeated call is safe when its messages carry their own ids."""

    code = "store_unavailable"
    status = 503
    retriable = True
    from_afar = "The store did not answer; try again."


class StoreFull(StoreError):
    code = "store_full"
    status = 507
    from_afar = "The disk that holds the store is full; nothing of this call was saved."


class StoreReadOnly(StoreError):
    code = "store_read_only"
    status = 503
    from_afar = "The store can only be read now; nothing of this call was saved."


class StoreReplaced(StoreError):
    """What is at the store's place is not what was opened there: it was deleted, replaced or brought down."""

    code = "store_replaced"
    status = 503
    from_afar = "The store was taken away or changed under the server, which must be started again."


class NotADatabase(StoreError):
    code = "not_a_database"


class SchemaTooNew(StoreError):
    code = "schema_too_new"


class MissingExtra(HoldfastError):
    """A part of the product that is not installed."""

    code = "missing_extra"

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra that is not installed: pip install 'holdfast[{extra}]'")
        self.extra = extra


class SessionEnded(Conflict):
    code = "session_ended"

    def __init__(self, session_status: str) -> None:
        super().__init__(f"The session is {session_status} and takes no new instruction; resume or fork it.")
        self.session_status = session_status
