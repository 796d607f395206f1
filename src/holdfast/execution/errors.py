"""What can go wrong before a turn is opened, and why a turn fails. Codes are the same for both."""

from __future__ import annotations

from holdfast.errors import Conflict, HoldfastError, InvalidInput, NotFound


class ContextNotFound(NotFound):
    code = "context_not_found"

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        there = ", ".join(sorted(known)) or "none"
        super().__init__(f"There is no {kind} context {name!r}; there are: {there}.")


class ContextWrong(InvalidInput):
    code = "context_wrong"


class NoModel(HoldfastError):
    code = "no_model"
    status = 503

    def __init__(self, context: str) -> None:
        super().__init__(
            f"The context {context!r} has no model. Set HOLDFAST_MODEL and OPENAI_API_KEY (and, for a server "
            "other than OpenAI's, OPENAI_BASE_URL), or write them into holdfast.toml."
        )


class NoCredentials(HoldfastError):
    code = "no_credentials"
    status = 503

    def __init__(self, variable: str) -> None:
        super().__init__(
            f"The model's key is missing: set {variable}, or name another variable in the provider."
        )


class NotAModelSession(Conflict):
    code = "not_a_model_session"

    def __init__(self, session_id: str, agent: str) -> None:
        super().__init__(
            f"Session {session_id} is served by the agent {agent!r} and not by a model; send it a prompt."
        )


class KeyReused(Conflict):
    code = "idempotency_key_reused"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key!r} came with another request before; repeat that, or take a new key."
        )


class ShuttingDown(Conflict):
    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("Holdfast is shutting down and takes no more instructions.")


class ModelError(HoldfastError):
    """The model's server refused, failed, or could not be reached. The sentence is its turn's error."""

    code = "model_error"
    status = 502


class ModelUnreachable(ModelError):
    code = "model_unreachable"
    retriable = True


class ModelBusy(ModelError):
    code = "rate_limited"
    status = 429
    retriable = True

    def __init__(self, message: str, retry_after: float | None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ChainLost(ModelError):
    """The server does not know the response that the request goes on from."""

    code = "chain_lost"


class AnswerCut(ModelError):
    code = "answer_cut"


class Orphaned(HoldfastError):
    code = "orphaned"

    def __init__(self) -> None:
        super().__init__(
            "Whoever ran this turn is gone, and no answer can be fetched. The model was not called again: "
            "run the turn again if you want an answer."
        )
