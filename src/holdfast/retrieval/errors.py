"""Why an index cannot be used, or not for this."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import Conflict, HoldfastError


class IndexInUse(HoldfastError):
    code = "index_in_use"
    status = 503
    retriable = True

    def __init__(self, directory: Path, pid: int | None) -> None:
        owner = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"The index in {directory} is in use by {owner}, and only one may open it. Wait until it has "
            "ended, or work through the server that it is."
        )
        self.pid = pid


class IndexDamaged(HoldfastError):
    code = "index_damaged"

    def __init__(self, directory: Path, reason: object) -> None:
        super().__init__(
            f"The index in {directory} cannot be opened ({reason}). Delete that directory and run "
            "`holdfast index` again: everything in it comes from your files."
        )


class IndexUnavailable(HoldfastError):
    """Qdrant did not do what it was asked. What had been written before stays."""

    code = "index_unavailable"
    status = 503
    retriable = True


class IndexFull(HoldfastError):
    code = "index_full"
    status = 507

    def __init__(self, directory: Path, needed: int) -> None:
        super().__init__(
            f"The disk of {directory} has less than {needed >> 20} MB left, which the index needs; free "
            "some, then try again. What had been indexed before stays."
        )


class EmbeddingsFailed(HoldfastError):
    """The endpoint gave no embeddings, or none that can be used."""

    code = "embeddings_failed"
    status = 502
    retriable = True


class RepositoryElsewhere(Conflict):
    code = "repository_elsewhere"

    def __init__(self, repository: str, known: str, given: Path) -> None:
        super().__init__(
            f"A repository {repository!r} is indexed from {known}; give the one in {given} a name of its "
            "own with --repo."
        )
