"""Blobs in a directory and in a bucket: every test that takes `blobs` runs in both.

The bucket is one of moto's S3, in a process of its own that the whole run shares.
"""

import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from holdfast import Store, open_store
from holdfast.blobs import Blobs, open_blobs


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory, process: None) -> Iterator[str]:
    """The address of a server that speaks as S3 does."""
    log = tmp_path_factory.mktemp("s3") / "log"  # no pipe: nobody would read what it says about each request
    with log.open("w") as said:
        command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        server = subprocess.Popen(command, stdout=said, stderr=said)
    with server:
        try:
            while (running := re.search(r"Running on (http://\S+)", log.read_text())) is None:
                assert server.poll() is None, log.read_text()
                time.sleep(0.02)
            yield running[1]
        finally:
            server.kill()


@pytest.fixture
def bucket_url(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket, and the environment in which it is reached."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    name = uuid4().hex
    with urlopen(Request(f"{s3}/{name}", method="PUT")) as made:
        assert made.status == 200
    return f"s3://{name}/some/prefix"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def directory_url(directory: Path) -> str:
    return directory.as_uri()


@pytest.fixture(params=["directory", "bucket"])
def blobs(request: pytest.FixtureRequest) -> Blobs:
    return open_blobs(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def local(directory_url: str) -> Blobs:
    return open_blobs(directory_url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened
