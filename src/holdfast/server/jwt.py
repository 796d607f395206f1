"""Callers with a JWT of an identity provider: its signature, issuer, audience and times must hold."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.principal import Principal, PrincipalRole

if TYPE_CHECKING:
    from jwt import PyJWKClient, PyJWKSet

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures that only the issuer can make. A shared secret, or none, is not among them."""

KEYS_SECONDS = 300
"""How long keys that were fetched are used."""

FETCH_SECONDS = 10


class InvalidJwt(HoldfastError):
    code = "unauthenticated"
    status = 401


class JwtVerifier:
    """`org`, `sub` and `role` of the JWT are the principal's organization, user and role."""

    def __init__(self, *, issuer: str, audience: str, keys: str) -> None:
        """`keys` is the address of a JSON Web Key Set, or the path of a file that holds one."""
        self._issuer = issuer
        self._audience = audience
        self._keys = _Fetched(keys) if urlsplit(keys).scheme in ("http", "https") else _Kept(Path(keys))

    async def principal(self, text: str) -> Principal:
        return await asyncio.to_thread(self._principal, text)

    def _principal(self, text: str) -> Principal:
        import jwt

        try:
            claims: dict[str, Any] = jwt.decode(
                text,
                self._keys.key_of(text),
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise InvalidJwt(f"The JWT is not accepted: {error}.") from None
        organization, user, role = claims.get("org"), claims["sub"], claims.get("role", PrincipalRole.MEMBER)
        if not isinstance(organization, str) or role not in list(PrincipalRole):
            raise InvalidJwt("The JWT is not accepted: its `org` is a text, its `role` member or admin.")
        try:
            return Principal(organization, user, PrincipalRole(role))
        except InvalidInput as error:
            raise InvalidJwt(f"The JWT is not accepted: {error}") from None


class _Kept:
    """Keys of a file, read when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = 0.0
        self._keys: PyJWKSet | None = None

    def key_of(self, text: str) -> Any:
        import jwt

        changed_at = self._path.stat().st_mtime
        if self._keys is None or changed_at != self._read_at:
            self._keys = jwt.PyJWKSet.from_dict(json.loads(self._path.read_text()))
            self._read_at = changed_at
        wanted = jwt.get_unverified_header(text).get("kid")
        for key in self._keys.keys:
            if key.key_id == wanted:
                return key.key
        raise jwt.PyJWTError(f"none of the issuer's keys is called {wanted!r}")


class _Fetched:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client: PyJWKClient | None = None

    def key_of(self, text: str) -> Any:
        import jwt

        if self._client is None:
            self._client = jwt.PyJWKClient(self._url, lifespan=KEYS_SECONDS, timeout=FETCH_SECONDS)
        return self._client.get_signing_key_from_jwt(text).key
