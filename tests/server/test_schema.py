"""The OpenAPI document is true: requests made up from it, good and bad, are answered as it says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from holdfast import NewCompaction, open_store
from holdfast.execution.demo import DemoModel
from holdfast.model.question import NewQuestionSet, Option, Question
from holdfast.questions import QuestionBox
from tests.long_plugin import Trials
from tests.server.servers import Person, Served, owner_of, project

UNSUCCESSFUL = {"GET /sign-in", "POST /api/sessions/{id}/config"}
"""Nobody makes up the code of a sign-in link, and the demo agent offers no options."""

SETTINGS = """
# What an agent that is not there, or fails, is answered with; 500 is never right.
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "502", "503", "504", "507"]

# A long poll that is waited for tells no more than one that is not.
[parameters]
"query.wait" = 0
"""


async def test_schemathesis_finds_nothing(tmp_path: Path, process: None, trials: Trials) -> None:
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} -m holdfast demo-agent\n")
    agent.chmod(0o755)
    with DemoModel() as model:
        served = Served(
            tmp_path,
            HOLDFAST_SERVER_REQUESTS_PER_SECOND="0",
            GEMINI_CLI_PATH=str(agent),  # so that sessions with the default agent are really created
            OPENAI_BASE_URL=model.url,
            OPENAI_API_KEY="none",
            HOLDFAST_MODEL="demo",
        )
        served.repository()
        served.start()
        try:
            (tmp_path / "schemathesis.toml").write_text(SETTINGS + await known_ids(served))
            found = subprocess.run(  # nothing else is done meanwhile
                [
                    *(sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/api/openapi.json"),
                    *("--header", f"Authorization: Bearer {served.presence.token}"),
                    # A cancelled session can still be read: DELETE cancels, as the documents want it.
                    *("--checks", "all", "--exclude-checks", "use_after_free"),
                    # The same requests in every run: who changes nothing finds nothing new. From one thread:
                    # Python 3.11 fails now and then when two of them parse code, as Hypothesis does, at once.
                    *("--max-examples", str(trials(5, long=50)), "--seed", str(trials.seed)),
                    *("--workers", "1", "--no-color"),
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert found.returncode == 0, found.stdout
            assert await never_successful(owner_of(served)) == UNSUCCESSFUL
        finally:
            assert served.stop() == 0
    assert "Traceback" not in served.complaints()


async def known_ids(served: Served) -> str:
    """Settings with the ids of what is there, for operations that nobody finds anything for by guessing.

    What schemathesis revokes is a token that nobody needs: its own would let it in nowhere afterwards.
    """
    owner = owner_of(served)
    token = (await owner.post("/api/tokens", {"user": "nobody in particular"})).json()["token"]
    asked = Question(prompt="Which?", title="Choice", options=(Option("Yes"), Option("No")))
    box = QuestionBox(served.questions)
    answered, rejected = [await box.ask(NewQuestionSet(questions=(asked,))) for _ in range(2)]
    repo = await project(owner)
    led = (await owner.post("/api/sessions", {"repoId": repo["id"], "agent": "demo"})).json()
    executed = (await owner.post("/api/ai/agent/execute", {"instruction": "Look"})).json()
    thought, turn_id = executed["sessionId"], executed["turnId"]
    turn = (await owner.get(f"/api/sessions/{thought}/turns/{turn_id}")).json()
    fold = NewCompaction(first_seq=1, last_seq=1, strategy="summary", summary="Somebody looked.")
    async with open_store(served.store_url) as store:
        folded = await store.as_principal(owner.principal).commit_compaction(thought, fold)
    session = "/api/sessions/{id}"
    of_turn = {"id": thought, "turnId": turn_id}
    known: dict[str, dict[str, str]] = {
        "DELETE /api/tokens/{id}": {"id": token["id"]},
        "GET /api/questions/{id}": {"id": answered.id},
        "POST /api/questions/{id}/answer": {"id": answered.id},
        "POST /api/questions/{id}/reject": {"id": rejected.id},
        "GET /api/blobs/{id}": {"id": turn["fullInstructionUrl"].rpartition("/")[2]},
        f"POST {session}/mode": {"id": led["id"]},
        f"POST {session}/model": {"id": led["id"]},
        f"GET {session}/turns/last": {"id": thought},
        f"GET {session}/turns/{{turnId}}": of_turn,
        f"GET {session}/turns/{{turnId}}/summary": of_turn,
        f"GET {session}/turns/{{turnId}}/replay": of_turn,
        f"POST {session}/turns/{{turnId}}/rerun": of_turn,
        f"POST {session}/compactions/{{compactionId}}/undo": {"id": thought, "compactionId": folded.id},
    }
    return "".join(_operation(name, ids) for name, ids in known.items())


def _operation(name: str, ids: dict[str, str]) -> str:
    given = ", ".join(f'"path.{key}" = "{value}"' for key, value in ids.items())
    return f'\n[[operations]]\ninclude-name = "{name}"\nparameters = {{ {given} }}\n'


async def never_successful(owner: Person) -> set[str]:
    """The operations that not one request succeeded with; all of the later ones where a token was lost."""
    figures = (await owner.get("/metrics")).text
    counted = re.findall(r'http_requests_total\{method="(\w+)",route="([^"]+)",status="[23]\d\d"\}', figures)
    document: dict[str, Any] = (await owner.get("/api/openapi.json")).json()
    operations = {f"{method.upper()} {path}" for path, each in document["paths"].items() for method in each}
    return operations - {f"{method} {path}" for method, path in counted}
