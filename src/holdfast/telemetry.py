"""What a running Holdfast tells about itself: log lines and spans, with what they are about.

The request, session and turn that work belongs to are bound once, and every log line and span from
inside carries them. Spans are made when `holdfast.server.tracing` was told where to send them; until
then, marking one costs a look at a variable.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_about: ContextVar[Mapping[str, str]] = ContextVar("holdfast_about", default={})  # noqa: B039  # never changed
_tracer: Tracer | None = None


@contextmanager
def bound(**fields: str) -> Iterator[None]:
    """Add fields to every log line and span that is made inside."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def context_of(**fields: str) -> Context:
    """A context for work that outlives the request it began in: about these fields, and in no span."""
    context = Context()
    context.run(_about.set, fields)
    return context


def attributes() -> dict[str, str]:
    """What the work here is about, in the names of spans' attributes."""
    return {f"holdfast.{name}": value for name, value in _about.get().items()}


def use_tracer(tracer: Tracer) -> None:
    """Make spans from now on."""
    global _tracer
    _tracer = tracer


@contextmanager
def span(name: str) -> Iterator[None]:
    """A span of what happens inside."""
    if _tracer is None:
        yield
    else:
        with _tracer.start_as_current_span(name):
            yield


def event(name: str) -> None:
    """Note in the current span that something has happened."""
    if _tracer is not None:
        from opentelemetry.trace import get_current_span

        current = get_current_span()
        if current.is_recording():
            current.add_event(name, attributes())


def failed(why: str) -> None:
    """Note in the current span that what it is about has failed."""
    if _tracer is not None:
        from opentelemetry.trace import StatusCode, get_current_span

        get_current_span().set_status(StatusCode.ERROR, why)


def identified(**fields: str) -> None:
    """Add to the current span what became known only inside it."""
    if _tracer is not None:
        from opentelemetry.trace import get_current_span

        with bound(**fields):
            get_current_span().set_attributes(attributes())


def configure_logging(level: str = "INFO", *, as_json: bool | None = None) -> None:
    """Send all logs to standard error: for people where that is a terminal, else a line of JSON each."""
    import structlog

    if as_json is None:
        as_json = not sys.stderr.isatty()
    rendering: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer()]
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                _with_what_it_is_about,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.add_log_level,
                structlog.stdlib.PositionalArgumentsFormatter(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.StackInfoRenderer(),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _with_what_it_is_about(logger: object, method: str, line: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {**_about.get(), **line}
