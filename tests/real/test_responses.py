"""Instructions against a model's server that somebody else wrote: aimock, which keeps no responses."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import open_store
from holdfast.blobs import open_blobs
from holdfast.execution.answer import AnswerKind
from holdfast.execution.contexts import ContextSource
from holdfast.execution.input import ExecutionInput
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.replay import replay
from holdfast.execution.responses import Provider
from tests.real.programs import NODE, npm_program

FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "Where"}, "response": {"content": "On the left, behind the door."}},
        {
            "match": {"userMessage": "Use it"},
            "response": {"toolCalls": [{"name": "open_door", "arguments": "{}"}]},
        },
    ]
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a model that answers as its fixtures say."""
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    command = [str(npm_program("@copilotkit/aimock", "1.43.0") / "llmock"), "-p", "0", "-f", str(fixtures)]
    environment = {"PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            found = (re.search(r"http://[\d.]+:\d+", line) for line in process.stdout)
            yield f"{next(address[0] for address in found if address)}/v1"
        finally:
            process.kill()


@pytest.mark.req("EXE-08")
async def test_a_session_with_another_ones_server(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIMOCK_KEY", "none")
    provider = Provider(base_url=url, api_key_env="AIMOCK_KEY")
    assert not provider.chains  # nothing is known of it
    blobs = open_blobs((tmp_path / "blobs").as_uri())
    async with (
        open_store(f"sqlite:///{tmp_path / 'holdfast.db'}") as store,
        Orchestrator(store, blobs, ContextSource({}, {}, "any"), {"default": provider}) as orchestrator,
    ):
        first = await orchestrator.execute(store, ExecutionInput(instruction="Where is it?"))
        assert (first.kind, first.text) == (AnswerKind.ANSWER, "On the left, behind the door.")
        second = await orchestrator.execute(
            store, ExecutionInput(instruction="Use it", session_id=first.session_id)
        )
        assert second.kind is AnswerKind.ANSWER
        assert second.warnings == ("The model asked to call the tool 'open_door', which nobody does here.",)
        unknown = await orchestrator.execute(store, ExecutionInput(instruction="Something unforeseen"))
        assert (unknown.kind, unknown.error_code) == (AnswerKind.ERROR, "model_error")
        for turn in await store.list_turns(first.session_id):
            assert (await replay(store, blobs, first.session_id, turn.id)).identical
