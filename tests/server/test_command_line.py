"""`holdfast serve`, `token` and `doctor`, as a person runs them."""

import json
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from holdfast.model.principal import LOCAL
from tests.cli.command import Cli
from tests.server.servers import Person, Served, problem
from tests.server.test_jwt import Issuer, Signer, key_set
from tests.settings import configure

pytestmark = pytest.mark.usefixtures("process")


class Home(Cli):
    """A directory in which commands are run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.environment |= {
            "COLUMNS": "200",
            "AGENT_WORKSPACE_ROOT": str(path / "workspace"),
        }


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


def test_a_second_server_is_refused_a_data_directory_that_one_has(served: Served, home: Home) -> None:
    home.environment["HOLDFAST_DATA_DIR"] = str(served.data)
    before = served.presence
    result = home("serve", "--port", "0")
    assert result.returncode == 1
    assert f"A server is running with {served.data} already at {before.url}" in result.stderr
    assert result.stderr.count("\n") == 1
    assert served.presence == before


@pytest.mark.parametrize("option", [("--port", "99999"), ("--log-level", "loud")])
def test_an_option_that_cannot_be_is_refused_before_anything_begins(
    home: Home, option: tuple[str, str]
) -> None:
    result = home("serve", *option)
    assert result.returncode == 2
    assert f"Invalid value for '{option[0]}'" in result.stderr
    assert not (home.home / "data").exists()


@pytest.mark.parametrize("command", ["serve", "repos"])
def test_a_data_directory_that_cannot_be_made_is_said_in_a_sentence(home: Home, command: str) -> None:
    (home.home / "data").touch()
    home.environment["HOLDFAST_DATA_DIR"] = str(home.home / "data" / "below")
    result = home(command)
    assert result.returncode == 1
    assert result.stderr == f"holdfast: {home.home}/data/below: Not a directory\n"


async def test_a_token_is_made_listed_used_and_revoked(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        home = Home(tmp_path)
        assert "There is no token of acme yet." in home("token", "list", "--org", "acme").stdout
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
        (entry,) = (await person.get("/api/audit")).json()["entries"]
        assert (entry["action"], entry["user"], entry["subject"]) == (
            "token.create",
            LOCAL.user,
            listed["id"],
        )
        assert entry["detail"] == {"user": "ada", "role": "admin"}
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
    file = configure(home.home, 'durability = "normal"\n[server]\nport = 4748\n')
    home.environment["HOLDFAST_SERVER_HOST"] = "127.0.0.2"
    result = home("doctor", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    sources = {setting["name"]: (setting["value"], setting["source"]) for setting in report["settings"]}
    assert sources["durability"] == ("normal", str(file))
    assert sources["server.port"] == ("4748", str(file))
    assert sources["server.host"] == ("127.0.0.2", "HOLDFAST_SERVER_HOST")
    assert sources["workspace.root"] == (str(home.home / "workspace"), "AGENT_WORKSPACE_ROOT")
    assert sources["server.max_body_bytes"][1] == "default"
    assert {finding["part"] for finding in report["findings"]} >= {"store", "server", "git", "agents"}


def test_doctor_names_secrets_and_does_not_show_them(home: Home) -> None:
    configure(
        home.home,
        '[agents.own]\ncommand = "true"\nenv = { OWN_TOKEN = "hush-1" }\n'
        '[providers.own]\nbase_url = "https://ada:hush-2@127.0.0.1/v1"\n'
        '[[contexts.own.tools]]\ntype = "mcp"\nheaders = { Authorization = "hush-3" }\n'
        'server_url = "https://ada:hush-4@127.0.0.1/mcp"\nauthorization = "hush-5"\n'
        '[contexts.other]\nprovider = "own"\nmodel = "m"\n',
    )
    home.environment["OPENAI_API_KEY"] = "hush-6"
    shown = home("doctor").stdout
    assert "{'own': {'command': 'true', 'env': {'OWN_TOKEN': '…'}}}" in shown
    assert "other: m at https://ada:…@127.0.0.1/v1" in shown
    assert "hush" not in shown
    assert "hush" not in home("doctor", "--json").stdout


def test_doctor_names_what_does_not_work_and_hides_passwords(home: Home) -> None:
    home.environment["AGENT_WORKSPACE_ROOT"] = str(home.home / "nowhere")
    result = home("doctor", "--store", "postgresql://ada:secret@127.0.0.1:1/x")
    assert result.returncode == 1
    assert "!!  workspace" in result.stdout
    assert "!!  store" in result.stdout
    assert "secret" not in result.stdout
    assert "postgresql://ada:…@127.0.0.1:1/x" in result.stdout


def test_doctor_says_whether_a_store_can_be_made_where_there_is_none(home: Home) -> None:
    assert findings(home)["store"][0]
    home.environment["HOLDFAST_STORE"] = f"sqlite:///{home.home}/nowhere/holdfast.db"
    assert findings(home)["store"][1].startswith(f"There is no directory {home.home}/nowhere; create it")
    del home.environment["HOLDFAST_STORE"]
    (home.home / "file").touch()
    home.environment["HOLDFAST_DATA_DIR"] = str(home.home / "file")
    well, says = findings(home)["store"]
    assert not well
    assert "cannot be" in says


def test_doctor_looks_at_blobs_index_and_keys(home: Home) -> None:
    keys = home.home / "keys.json"
    configure(
        home.home,
        f'[server]\njwt_issuer = "i"\njwt_audience = "a"\njwt_keys = "{keys}"\n'
        '[retrieval]\nurl = "http://ada:hush@127.0.0.1:1"\n',
    )
    (home.home / "file").touch()
    home.environment["HOLDFAST_BLOBS_URL"] = (home.home / "file").as_uri()
    broken = findings(home)
    assert {part for part, (well, _) in broken.items() if not well} == {"blobs", "index", "jwt"}
    assert broken["blobs"][1].endswith("set HOLDFAST_BLOBS_URL to a place that can be written")
    assert broken["index"][1].startswith("http://ada:…@127.0.0.1:1: The Qdrant server did not do it")
    assert f"The keys in {keys} cannot be read" in broken["jwt"][1]

    keys.write_bytes(key_set(Signer()))
    home.environment["HOLDFAST_BLOBS_URL"] = (home.home / "new" / "blobs").as_uri()
    qdrant = Issuer()
    qdrant.answer = b'{"result": {"exists": false}, "status": "ok", "time": 0}'
    home.environment["HOLDFAST_RETRIEVAL_URL"] = qdrant.url.removesuffix("/keys")
    try:
        whole = findings(home)
    finally:
        qdrant.stop()
    assert whole["jwt"] == (True, f"the keys at {keys} can be read")
    assert [whole[part][0] for part in ("blobs", "index")] == [True, True]
    assert not (home.home / "new").exists()


def test_doctor_waits_for_nobody_for_long(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        configure(home.home, f'store = "postgresql://{url}/x"\n[retrieval]\nurl = "http://{url}"\n')
        found = findings(home)
    for part in ("store", "index"):
        assert (found[part][0], found[part][1].partition("; ")[0]) == (False, "no answer within 10 seconds")


def findings(home: Home) -> dict[str, tuple[bool, str]]:
    report = json.loads(home("doctor", "--json").stdout)
    return {each["part"]: (each["well"], each["says"]) for each in report["findings"]}
