"""Figures for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from holdfast.store.options import Changes

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "holdfast_http_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "holdfast_http_request_seconds", "Time to the end of an answer.", ["route"], registry=registry
        )
        self.lag = Histogram(
            "holdfast_feed_lag_seconds",
            "Time from a change to its going out to those who listen.",
            buckets=LAG_BUCKETS,
            registry=registry,
        )
        self.sessions = Gauge("holdfast_sessions", "Sessions.", ["status"], registry=registry)
        self.pending = Gauge("holdfast_turns_pending", "Turns not yet ended.", registry=registry)
        self.queued = Gauge(
            "holdfast_prompts_queued", "Prompts that wait for their agent.", registry=registry
        )
        self._commits = Counter(
            "holdfast_commits", "Commits of this process since it started.", registry=registry
        )
        self._changes = Counter(
            "holdfast_changes", "Changes of sessions in these commits: updates.", registry=registry
        )
        self._committed = (0, 0)
        self.listeners = Gauge("holdfast_feed_listeners", "Open change feeds.", registry=registry)
        self.agents = Gauge("holdfast_agents_running", "Running agents.", registry=registry)
        self.places = Gauge("holdfast_agents_limit", "How many agents may run.", registry=registry)

    def committed(self, commits: int, changes: int) -> None:
        """How many there were since the process started."""
        before = self._committed
        self._commits.inc(commits - before[0])
        self._changes.inc(changes - before[1])
        self._committed = (commits, changes)

    def published(self, changes: Changes) -> None:
        self.lag.observe(max(0.0, time.time() - changes.session.updated_at.timestamp()))

    def render(self) -> bytes:
        return generate_latest(self._registry)
