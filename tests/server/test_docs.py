"""The commands of docs/http.md work as written."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.server.servers import Served

DOCS = Path(__file__).parents[2] / "docs" / "http.md"


@pytest.mark.usefixtures("process")
def test_the_commands_of_the_documentation_work_as_written(tmp_path: Path) -> None:
    blocks = re.findall(r"<!-- tested -->\n```sh\n(.*?)```", DOCS.read_text(), re.DOTALL)
    served = Served(tmp_path)
    served.repository()
    served.start()
    try:
        run = subprocess.run(
            ["sh", "-eu", "-c", "\n".join(blocks)],
            env={"PATH": os.environ["PATH"], "HOLDFAST_DATA_DIR": str(served.data)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
    finally:
        served.stop()
    assert "event: change" in run.stdout
    assert '"sessionStatus":"cancelled"' in run.stdout
    assert '"code":"session_not_found"' in run.stdout
