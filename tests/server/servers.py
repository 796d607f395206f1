"""A real server in a process of its own, and people who call it."""

import json
import os
import signal
import ssl
import subprocess
from pathlib import Path
from typing import IO, Any

import httpx2
import msgspec
import pytest

from holdfast import Principal, PrincipalRole, Store
from holdfast.model.principal import LOCAL
from holdfast.server.doorkeeper import Doorkeeper
from holdfast.server.presence import Presence
from tests import preloaded
from tests.waiting import SECONDS

CERTIFICATES = ssl.create_default_context()
"""Read once: a client that is not given them spends more on reading them than on its request."""

SQLITE, POSTGRES = "sqlite", "postgres"

ON_BOTH_ENGINES = pytest.mark.parametrize("served", [SQLITE, POSTGRES], indirect=True)
"""For tests of what must not depend on where the store is."""


class Served:
    """`holdfast serve`, listening on a free port of loopback."""

    files: int | None = None
    """How many it may have open, if not as many as we."""

    def __init__(self, home: Path, *arguments: str, **environment: str) -> None:
        self.home = home
        self.data = home / "data"
        self.workspace = home / "workspace"
        self.questions = home / "questions"
        self._arguments = arguments
        self._environment = environment
        self.process: preloaded.Process | None = None
        self.printed = ""

    @property
    def store_url(self) -> str:
        return self._environment.get("HOLDFAST_STORE") or f"sqlite:///{self.data / 'holdfast.db'}"

    @property
    def presence(self) -> Presence:
        presence = Presence.read(self.data)
        assert presence is not None
        return presence

    @property
    def url(self) -> str:
        return self.presence.url

    def start(self, port: int = 0) -> None:
        self.workspace.mkdir(exist_ok=True)
        with (self.home / "stderr").open("a") as complaints:
            self.process = self._started(port, complaints)
        assert self.process.stdout is not None
        lines = []
        while line := self.process.stdout.readline():
            lines.append(line)
            if line.startswith("Try:"):
                self.printed = "".join(lines)
                return
        self.stop()
        raise AssertionError(f"The server did not start: {self.complaints()}")

    def _started(self, port: int, complaints: IO[str]) -> preloaded.Process:
        return preloaded.start(
            ("serve", "--port", str(port), *self._arguments),
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "HOLDFAST_DATA_DIR": str(self.data),
                "AGENT_WORKSPACE_ROOT": str(self.workspace),
                "HOLDFAST_WORKSPACE_ROOTS": json.dumps({"*": f"{self.home}/of/{{organization}}"}),
                "AUQ_SESSION_DIR": str(self.questions),
                "PYTHONUNBUFFERED": "1",
                **self._environment,
            },
            stderr=complaints,
            files=self.files,
        )

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """Tell it to stop; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        code = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def complaints(self) -> str:
        return (self.home / "stderr").read_text()

    def repository(self, name: str = "project") -> Path:
        """A git repository under the workspace root."""
        path = self.workspace / name
        path.mkdir(parents=True, exist_ok=True)
        git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run([*git, "init", "-q", "-b", "main"], cwd=path, check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=path, check=True)
        return path


class Person:
    """Somebody with a token."""

    def __init__(self, url: str, principal: Principal, secret: str) -> None:
        self.url = url
        self.principal = principal
        self.secret = secret

    def client(self, **options: Any) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {self.secret}"} | options.pop("headers", {})
        return httpx2.AsyncClient(
            base_url=self.url, headers=headers, timeout=SECONDS, verify=CERTIFICATES, **options
        )

    async def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        async with self.client() as client:
            return await client.request(method, path, **options)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return await self.call("POST", path, json=body if body is not None else {}, **options)


def owner_of(served: Served) -> Person:
    """The person who started the server."""
    return Person(served.url, LOCAL, served.presence.token)


class Organization:
    """One that no other test uses: an admin, and two members who see only what is theirs."""

    def __init__(self, name: str, admin: Person, ada: Person, bob: Person) -> None:
        self.name = name
        self.admin = admin
        self.ada = ada
        self.bob = bob

    @classmethod
    async def found(cls, name: str, served: Served, store: Store) -> "Organization":
        """Its repositories are those of the person who started the server, by another way."""
        (served.home / "of").mkdir(exist_ok=True)
        (served.home / "of" / name).symlink_to(served.workspace)
        url = served.url

        async def person(user: str, role: PrincipalRole) -> Person:
            principal = Principal(name, user, role)
            _, secret = await Doorkeeper(store).issue(principal, "test")
            return Person(url, principal, secret)

        member = PrincipalRole.MEMBER
        return cls(
            name,
            await person("root", PrincipalRole.ADMIN),
            await person("ada", member),
            await person("bob", member),
        )

    async def project(self) -> dict[str, Any]:
        """The repository that every server here has, in which members may work."""
        repo = await project(self.admin)
        opened = await self.admin.call("PUT", f"/api/repos/{repo['id']}/members", json={"allowed": True})
        changed: dict[str, Any] = opened.json()
        return changed


async def project(person: Person) -> dict[str, Any]:
    """The repository that every server here has."""
    repos: list[dict[str, Any]] = (await person.post("/api/repos/scan")).json()["repos"]
    return next(repo for repo in repos if repo["name"] == "project")


def problem(response: httpx2.Response) -> dict[str, Any]:
    """The problem that a refused request was answered with: a sentence, and nothing of the inside."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    found: dict[str, Any] = response.json()
    assert found["status"] == response.status_code
    assert " " in found["detail"]
    assert "Traceback" not in response.text
    return found


def decoded(response: httpx2.Response, shape: type[Any]) -> Any:
    """The answer, which must be of that shape."""
    assert response.is_success, response.text
    return msgspec.json.decode(response.content, type=shape)


def events_of(text: str) -> list[tuple[str, str, Any]]:
    """The name, id and data of the events in a piece of an event stream."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            events.append((fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"])))
    return events
