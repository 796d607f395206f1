"""The store beside the floor: what it costs over the least that any store must do."""

from __future__ import annotations

from benchmarks import appends, footprint, postgres, reads, searches, streams
from benchmarks.measure import Suite

SUITE = Suite(
    "store",
    {
        "W1": appends.one_at_a_time,
        "W3": appends.many_at_once,
        "W4": reads.latest_messages,
        "W5": reads.whole_history,
        "W6": reads.session_pages,
        "words": searches.found_sessions,
        "W7": streams.paced_streams,
        "PostgreSQL": postgres.many_at_once,
        "disk": footprint.disk,
        "import": footprint.import_cost,
    },
    plot="performance.png",
)
