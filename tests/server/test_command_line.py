"""`holdfast serve`, `token` and `doctor`, as a person runs them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from holdfast.model.principal import LOCAL
from tests.server.servers import Person, Served, problem


class Home:
    """A directory in which commands are run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "HOLDFAST_DATA_DIR": str(path / "data"),
            "AGENT_WORKSPACE_ROOT": str(path / "workspace"),
        }

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", *arguments]
        return subprocess.run(
            command, cwd=self.path, env=self.environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "workspace").mkdir()
    return Home(tmp_path)


async def test_serve_says_where_it_listens_what_it_found_and_what_to_try(served: Served) -> None:
    assert f"Holdfast listens on {served.url}" in served.printed
    assert "/sign-in?code=" in served.printed
    assert "Agents:        demo" in served.printed
    assert f"Repositories:  1 under {served.workspace}" in served.printed


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_server_and_the_next_one_has_the_same_token(
    tmp_path: Path, sig: int
) -> None:
    served = Served(tmp_path)
    served.start()
    token = served.presence.token
    assert served.stop(sig) == 0
    assert served.complaints() == ""
    served.start()
    assert served.presence.token == token
    assert (await Person(served.url, LOCAL, token).get("/api/me")).status_code == 200
    assert served.stop() == 0


def test_a_port_that_is_taken_is_said_in_a_sentence(served: Served, home: Home) -> None:
    result = home("serve", "--port", served.url.rsplit(":", 1)[1])
    assert result.returncode == 1
    assert "Address already in use" in result.stderr
    assert result.stderr.count("\n") == 1


async def test_a_token_is_made_listed_used_and_revoked(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        home = Home(tmp_path)
        made = home(
            "token", "create", "--org", "acme", "--user", "ada", "--role", "admin", "--label", "laptop"
        )
        person = Person(served.url, LOCAL, made.stdout.strip())
        assert (await person.get("/api/me")).json() == {
            "organization": "acme",
            "user": "ada",
            "role": "admin",
        }
        (listed,) = json.loads(home("token", "list", "--org", "acme", "--json").stdout)
        assert (listed["user"], listed["label"]) == ("ada", "laptop")
        assert made.stdout.strip() not in home("token", "list", "--org", "acme").stdout
        assert "opens nothing" in home("token", "revoke", listed["id"], "--org", "acme").stdout
        async with person.client() as client:
            while (response := await client.get("/api/me")).status_code == 200:
                pass  # the server looks again within two seconds
        assert "revoked" in problem(response)["detail"]
        link = home("token", "link").stdout.strip()
        async with httpx2.AsyncClient() as browser:
            assert (await browser.get(link)).status_code == 303
    finally:
        served.stop()
    assert "No server is running" in home("token", "link").stderr


def test_doctor_says_what_is_there_and_where_each_setting_came_from(home: Home) -> None:
    (home.path / "holdfast.toml").write_text('durability = "normal"\n[server]\nport = 4748\n')
    home.environment["HOLDFAST_SERVER_HOST"] = "127.0.0.2"
    result = home("doctor", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    sources = {setting["name"]: (setting["value"], setting["source"]) for setting in report["settings"]}
    assert sources["durability"] == ("normal", "holdfast.toml")
    assert sources["server.port"] == ("4748", "holdfast.toml")
    assert sources["server.host"] == ("127.0.0.2", "HOLDFAST_SERVER_HOST")
    assert sources["workspace.root"] == (str(home.path / "workspace"), "AGENT_WORKSPACE_ROOT")
    assert sources["server.max_body_bytes"][1] == "default"
    assert {finding["part"] for finding in report["findings"]} >= {"store", "server", "git", "agents"}


def test_doctor_names_what_does_not_work_and_hides_passwords(home: Home) -> None:
    home.environment["AGENT_WORKSPACE_ROOT"] = str(home.path / "nowhere")
    result = home("doctor", "--store", "postgresql://ada:secret@127.0.0.1:1/x")
    assert result.returncode == 1
    assert "!!  workspace" in result.stdout
    assert "!!  store" in result.stdout
    assert "secret" not in result.stdout
    assert "postgresql://ada:…@127.0.0.1:1/x" in result.stdout
