"""Spans for OpenTelemetry: of requests by FastAPI, of turns and commits by us.

Where they go is said by OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_SERVICE_NAME`, …). Without one there are none.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from holdfast.telemetry import attributes, use_tracer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger("holdfast.server")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configure_tracing() -> bool:
    """Export spans where the environment says to; whether it does."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return False
    try:
        provider = _provider()
    except ImportError:
        log.warning("spans are not exported, since the extra is missing: pip install 'holdfast[otel]'")
        return False
    from opentelemetry import trace

    trace.set_tracer_provider(provider)
    use_tracer(provider.get_tracer("holdfast"))
    return True


def _provider() -> TracerProvider:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    class Identifying(SpanProcessor):
        """Tells every span, also those of FastAPI, which request, session and turn it is about."""

        def on_start(self, span: Span, parent_context: Context | None = None) -> None:
            span.set_attributes(attributes())

    service = os.environ.get("OTEL_SERVICE_NAME", "holdfast")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(Identifying())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
