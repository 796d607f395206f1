"""Spans, as a collector on loopback receives them."""

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from holdfast.model.principal import LOCAL
from tests.server.servers import Person, Served
from tests.server.test_sessions import started, until_ended


class Collector:
    """Takes what exporters send, as any OTLP collector does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        collector = self

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.services.add(attributes(resource.resource)["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.stop()


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in of.attributes}


@pytest.mark.usefixtures("process")
async def test_a_request_its_turn_and_its_commits_are_seen_together(
    tmp_path: Path, collector: Collector
) -> None:
    served = Served(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    served.repository()
    served.start()
    person = Person(served.url, LOCAL, served.presence.token)
    link = (await person.post("/api/sign-in-links")).json()["url"]
    async with httpx2.AsyncClient() as browser:
        assert (await browser.get(link)).status_code == 303
    session = await started(person)
    accepted = (await person.post(f"/api/sessions/{session['id']}/prompt", {"text": "Say hello"})).json()
    turn = await until_ended(person, session["id"], accepted["turn"]["id"])
    failing = (await person.post(f"/api/sessions/{session['id']}/prompt", {"text": "fail on purpose"})).json()
    await until_ended(person, session["id"], failing["turn"]["id"])
    assert served.stop() == 0
    assert collector.services == {"holdfast"}
    about = {"holdfast.session": session["id"], "holdfast.turn": turn["id"]}
    prompted, _ = collector.named("POST /api/sessions/{id}/prompt")
    assert attributes(prompted).items() >= {**about, "http.response.status_code": 202}.items()
    ran, failed = collector.named("turn")
    assert attributes(ran) == about
    assert ran.parent_span_id == b""
    for span in (prompted, ran):
        (commit, *_) = [event for event in span.events if event.name == "store.commit"]
        assert attributes(commit)["holdfast.session"] == session["id"]
    assert {attributes(event)["holdfast.turn"] for event in ran.events} == {turn["id"]}
    assert (ran.status.code, failed.status.code) == (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)
    (created,) = collector.named("POST /api/sessions")
    assert attributes(created)["holdfast.session"] == session["id"]
    assert "code=" not in str(collector.spans)


@pytest.mark.usefixtures("process")
async def test_a_collector_that_is_gone_hinders_nothing(tmp_path: Path, collector: Collector) -> None:
    served = Served(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    served.start()
    assert (await Person(served.url, LOCAL, served.presence.token).get("/api/me")).status_code == 200
    assert served.stop() == 0


@pytest.mark.usefixtures("process")
async def test_without_a_collector_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    served = Served(tmp_path, PYTHONPROFILEIMPORTTIME="1")
    served.start()
    assert (await Person(served.url, LOCAL, served.presence.token).get("/api/me")).status_code == 200
    assert served.stop() == 0
    assert "opentelemetry.sdk" not in served.complaints()
