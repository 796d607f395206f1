"""For those who keep the server running: health, figures, logs."""

import json

from holdfast import Message, NewSession, Store
from tests.server.servers import Organization, Served, problem


async def test_health_is_open_and_readiness_is_for_those_with_a_token(
    served: Served, org: Organization
) -> None:
    for path in ("/healthz", "/readyz"):
        response = await org.ada.get(path)
        assert (response.status_code, response.json()["status"]) == (200, "ok")
        assert (await org.ada.call("HEAD", path)).status_code == 200


async def test_figures_for_prometheus(store: Store, org: Organization) -> None:
    view = store.as_principal(org.ada.principal)
    session = await view.create_session(NewSession())
    await view.append_messages(session.id, [Message.user("hello")])
    await org.ada.get(f"/api/sessions/{session.id}/events?wait=0")
    assert problem(await org.ada.get("/metrics"))["status"] == 403
    text = (await org.admin.get("/metrics")).text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures['holdfast_sessions{status="active"}']) >= 1
    assert float(figures["holdfast_agents_limit"]) == 40
    route = "/api/sessions/{id}/events"
    assert float(figures[f'holdfast_http_requests_total{{method="GET",route="{route}",status="200"}}']) >= 1
    assert {"holdfast_commits_total", "holdfast_changes_total", "holdfast_turns_pending"} <= set(figures)
    assert float(figures["holdfast_prompts_queued"]) >= 0
    assert {"holdfast_feed_lag_seconds_count", "holdfast_feed_listeners", "holdfast_agents_running"} <= set(
        figures
    )


async def test_log_lines_carry_the_session_and_the_request(served: Served, org: Organization) -> None:
    repo = await org.project()
    await org.ada.post("/api/sessions", {"repoId": repo["id"], "agent": "goose"})
    lines = [json.loads(line) for line in served.complaints().splitlines()]
    (line,) = [line for line in lines if "goose" in line["event"]][-1:]
    assert line["level"] == "warning"
    assert len(line["request"]) == 12
