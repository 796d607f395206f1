"""The OpenAPI document is true: requests made up from it, good and bad, are answered as it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.servers import Served

EXAMPLES = 5
"""Made-up requests for each operation, besides those that try the limits of every field."""


SETTINGS = """
# What an agent that is not there, or fails, is answered with; 500 is never right.
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "502", "503", "504", "507"]

# A long poll that is waited for tells no more than one that is not.
[parameters]
"query.wait" = 0
"""


@pytest.mark.timeout(600)
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} -m holdfast demo-agent\n")
    agent.chmod(0o755)
    served = Served(
        tmp_path,
        HOLDFAST_SERVER_REQUESTS_PER_SECOND="0",
        GEMINI_CLI_PATH=str(agent),  # so that sessions with the default agent are really created
    )
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    served.repository()
    served.start()
    try:
        found = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/api/openapi.json"),
                *("--header", f"Authorization: Bearer {served.presence.token}"),
                # A cancelled session can still be read: DELETE cancels, as the documents want it.
                *("--checks", "all", "--exclude-checks", "use_after_free"),
                # The same requests in every run: who changes nothing finds nothing new. From one thread:
                # Python 3.11 fails now and then when two of them parse code, as Hypothesis does, at once.
                *("--max-examples", str(EXAMPLES), "--seed", "1", "--workers", "1", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout
    finally:
        assert served.stop() == 0
    assert "Traceback" not in served.complaints()
