"""What can go wrong with blobs."""

from __future__ import annotations

from holdfast.errors import HoldfastError, NotFound


class BlobNotFound(NotFound):
    code = "blob_not_found"

    def __init__(self, blob: str) -> None:
        super().__init__(f"No blob {blob} is visible here; check the address, and who asks.")


class BlobDamaged(HoldfastError):
    """What is stored is not what was put. It is never given out."""

    code = "blob_damaged"

    def __init__(self, blob: str) -> None:
        super().__init__(f"Blob {blob} is damaged where it is stored; put the same bytes again to mend it.")


class BlobsUnavailable(HoldfastError):
    """The place of the blobs could not do it. Repeating the call is safe."""

    code = "blobs_unavailable"
    status = 503
    retriable = True

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"Blobs cannot be stored or read at {place}: {reason.rstrip('.')}.")


class BlobsFull(HoldfastError):
    code = "blobs_full"
    status = 507

    def __init__(self, place: str) -> None:
        super().__init__(f"There is no space left for blobs at {place}; free some, then try again.")
