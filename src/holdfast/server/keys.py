"""The public keys of an identity provider: of a file, or of an address that is asked now and then."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from holdfast.errors import HoldfastError
from holdfast.server.limits import RateLimit

if TYPE_CHECKING:
    from jwt import PyJWK

KEYS_SECONDS = 300.0
"""How long keys that were fetched are used: how late it is noticed that one is no longer good."""

FETCHES_PER_SECOND, FETCHES_BURST = 0.1, 5
"""How often the issuer is asked, whatever keys the callers name."""

FETCH_SECONDS = 5.0


class KeysUnavailable(HoldfastError):
    """Nobody can be told apart for now, so nobody is let in."""

    code = "keys_unavailable"
    status = 503
    retriable = True


class Keys(Protocol):
    async def find(self, name: object) -> PyJWK | None:
        """The key of that name; None when the issuer has none. `KeysUnavailable` when that is not known."""


def keys_at(place: str) -> Keys:
    """Those of an address, or of the file at a path."""
    is_address = urlsplit(place).scheme in ("http", "https")
    return KeysOfAddress(place) if is_address else KeysOfFile(Path(place))


class KeysOfFile:
    """Keys of a file, read when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = 0.0
        self._keys: Mapping[object, PyJWK] = {}

    async def find(self, name: object) -> PyJWK | None:
        try:
            return (await asyncio.to_thread(self._read)).get(name)
        except (OSError, ValueError) as error:
            raise KeysUnavailable(f"The keys in {self._path} cannot be read: {error}.") from None

    def _read(self) -> Mapping[object, PyJWK]:
        changed_at = self._path.stat().st_mtime
        if changed_at != self._read_at:
            self._keys = _by_name(json.loads(self._path.read_text()))
            self._read_at = changed_at
        return self._keys


class KeysOfAddress:
    """Keys of an address, fetched when they have grown old or one is asked for that is not among them."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._fetches = RateLimit(FETCHES_PER_SECOND, FETCHES_BURST, clock)
        self._fetching = asyncio.Lock()
        self._keys: Mapping[object, PyJWK] = {}
        self._good_until = float("-inf")
        self._tried_at = float("-inf")
        self._failure = "it was not asked yet"

    async def find(self, name: object) -> PyJWK | None:
        asked_at = self._clock()
        if asked_at >= self._good_until or name not in self._keys:
            await self._refresh(asked_at)
        if self._clock() >= self._good_until:
            raise KeysUnavailable(
                f"The issuer's keys at {self._url} cannot be fetched ({self._failure}); try again soon."
            )
        return self._keys.get(name)

    async def _refresh(self, asked_at: float) -> None:
        """Fetch the keys, unless that was tried while this caller waited, or too often already."""
        async with self._fetching:
            if self._tried_at > asked_at or not self._fetches.allows(self._url):
                return
            try:
                self._keys = _by_name(await _fetched(self._url))
            except (OSError, ValueError) as error:
                self._failure = str(error) or type(error).__name__
            else:
                self._good_until = self._clock() + KEYS_SECONDS
            self._tried_at = self._clock()


async def _fetched(url: str) -> Any:
    import httpx2

    try:
        async with httpx2.AsyncClient(timeout=FETCH_SECONDS) as client, asyncio.timeout(FETCH_SECONDS):
            response = await client.get(url)
            response.raise_for_status()
            return response.json()
    except httpx2.HTTPStatusError as error:
        raise OSError(f"it answered {error.response.status_code}") from None
    except (httpx2.HTTPError, TimeoutError) as error:
        raise OSError(str(error) or "it did not answer in time") from None


def _by_name(document: Any) -> Mapping[object, PyJWK]:
    """The keys of a JSON Web Key Set that can be used; `ValueError` when it holds none."""
    import jwt

    try:
        found = jwt.PyJWKSet.from_dict(document).keys
    except (jwt.PyJWTError, AttributeError, TypeError) as error:
        raise ValueError(f"it is no JSON Web Key Set: {error}") from None
    return {key.key_id: key for key in found if key.public_key_use in ("sig", None)}
