"""How often somebody may call: a bucket for each, which fills at a steady rate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from holdfast.errors import HoldfastError

MAX_KEYS = 10_000


class TooManyRequests(HoldfastError):
    code = "too_many_requests"
    status = 429
    retriable = True

    def __init__(self, seconds: float) -> None:
        self.retry_after = max(1, math.ceil(seconds))
        super().__init__(f"Too many requests; try again in {self.retry_after} seconds.")


class RateLimit:
    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        """A rate of zero is no limit."""
        self._per_second = per_second
        self._burst = max(1.0, burst)  # or nobody could ever call
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        """Count a call; `TooManyRequests` when there were too many."""
        if not self.allows(key):
            raise TooManyRequests((1 - self._left(key)) / self._per_second)

    def allows(self, key: str) -> bool:
        """Count a call; False when there were too many."""
        if not self._per_second:
            return True
        left = self._left(key)
        if left >= 1:
            self._buckets[key] = (left - 1, self._clock())
        return left >= 1

    def _left(self, key: str) -> float:
        now = self._clock()
        if len(self._buckets) >= MAX_KEYS:
            self._buckets = {
                each: (left, at)
                for each, (left, at) in self._buckets.items()
                if left + (now - at) * self._per_second < self._burst
            }
        left, at = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + (now - at) * self._per_second)
