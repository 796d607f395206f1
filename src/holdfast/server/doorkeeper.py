"""Who is calling.

A caller shows a token (`Authorization: Bearer …`), the cookie that the page was given for a
one-time code, or a JWT of a configured issuer. What is kept of a token is its SHA-256, which is
also how it is looked up: the secret is 256 random bits, so neither a hash that leaks nor the time
that a look-up takes says anything about another one.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from holdfast.errors import Conflict, HoldfastError, StoreError
from holdfast.model.ids import TokenId
from holdfast.model.principal import Principal
from holdfast.model.records import Token
from holdfast.server.jwt import InvalidJwt, JwtVerifier
from holdfast.store.store import Store

log = logging.getLogger("holdfast.server")

PREFIX = "hf_"
"""What every token of ours begins with, so that it is known for one wherever it turns up."""

TRUST_SECONDS = 2.0
"""How long a token that was looked up is not looked up again: how late a revocation elsewhere is noticed."""

TOUCH_SECONDS = 60.0
"""How exact the time of a token's last use is."""

CODE_SECONDS = 15 * 60.0
"""How long a one-time code is good for."""

COOKIE_DAYS = 30

MAX_KNOWN = 10_000


class Unauthenticated(HoldfastError):
    code = "unauthenticated"
    status = 401


class Caller(msgspec.Struct, frozen=True):
    principal: Principal
    door: str
    """`http` for programs, `web` for the page."""
    credential: str | None = None
    """The hash of what it showed, or a JWT, for looking again while a long answer is given. None without
    authentication."""
    expires_at: datetime | None = None
    """When that is no longer good."""

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)


class _Code(msgspec.Struct, frozen=True):
    """What a sign-in link gives: the name it signs in under, and what the cookie goes with."""

    principal: Principal
    good_until: float
    parent_id: TokenId | None = None
    expires_at: datetime | None = None


class _Known:
    __slots__ = ("looked_at", "token", "touched_at")

    def __init__(self, token: Token, looked_at: float) -> None:
        self.token = token
        self.looked_at = looked_at
        self.touched_at = 0.0


class Doorkeeper:
    def __init__(
        self,
        store: Store,
        *,
        jwt: JwtVerifier | None = None,
        everybody: Principal | None = None,
        cookie: str = "holdfast",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `everybody`, all callers are that principal, and nothing is asked for. `cookie` is the name of
        the page's cookie."""
        self.cookie = cookie
        self._store = store.as_system()
        self._jwt = jwt
        self._everybody = everybody
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._codes: dict[str, _Code] = {}
        self.revocations = 0
        """How many tokens were revoked here: at each, those who are being answered are looked at again."""

    async def admit(self, bearer: str | None, cookie: str | None) -> Caller:
        """The caller who shows these; `Unauthenticated` when they open nothing."""
        if self._everybody is not None:
            return Caller(self._everybody, "http")
        if bearer is not None:
            return await self._caller("http", bearer if self._is_jwt(bearer) else token_hash(bearer))
        if cookie is not None:
            return await self._caller("web", cookie_hash(cookie))
        raise Unauthenticated(
            "This needs a token: send it as `Authorization: Bearer …`. The server's own is in server.json in "
            "its data directory; `holdfast token create` makes others."
        )

    async def readmit(self, caller: Caller) -> None:
        """Make sure that a caller who was admitted would be again."""
        if caller.credential is not None and (await self._known_by(caller.credential))[0] != caller.principal:
            raise Unauthenticated("This token is somebody else's now.")

    async def still_admits(self, caller: Caller) -> bool:
        try:
            await self.readmit(caller)
        except (Unauthenticated, InvalidJwt):
            return False
        return True

    async def _caller(self, door: str, credential: str) -> Caller:
        principal, expires_at = await self._known_by(credential)
        return Caller(principal, door, credential, expires_at)

    async def issue(
        self,
        principal: Principal,
        label: str,
        expires_at: datetime | None = None,
    ) -> tuple[Token, str]:
        """A new token and its secret."""
        secret = PREFIX + secrets.token_urlsafe(32)
        return await self._store.add_token(
            principal, token_hash(secret), label, expires_at=expires_at
        ), secret

    async def revoke(self, store: Store, token_id: TokenId) -> Token:
        """Make a token of the view's organization worthless, here at once and elsewhere soon."""
        token = await store.revoke_token(token_id)
        self.revocations += 1
        self._known = {
            key: known
            for key, known in self._known.items()
            if token_id not in (known.token.id, known.token.parent_id)
        }
        return token

    async def sign_out(self, caller: Caller) -> None:
        """Make what the caller showed worthless."""
        if caller.credential is not None:
            token = (await self._look_up(caller.credential)).token
            await self.revoke(self._store.as_principal(caller.principal), token.id)

    async def sign_in_code_of(self, caller: Caller) -> str:
        """A code that signs a browser in as the caller, for as long as what the caller showed is good."""
        code = _Code(caller.principal, self._clock() + CODE_SECONDS, expires_at=caller.expires_at)
        if caller.credential is not None and not self._is_jwt(caller.credential):
            token = (await self._look_up(caller.credential)).token
            code = msgspec.structs.replace(code, parent_id=token.parent_id or token.id)
        return self._new_code(code)

    def _new_code(self, entry: _Code) -> str:
        now = self._clock()
        self._codes = {code: each for code, each in self._codes.items() if each.good_until > now}
        code = secrets.token_urlsafe(24)
        self._codes[code] = entry
        return code

    async def redeem(self, code: str) -> tuple[Principal, str]:
        """Whom a code signs in, and the cookie for it; the code is then used up."""
        for known in list(self._codes):
            if hmac.compare_digest(known.encode(), code.encode()):
                entry = self._codes.pop(known)
                if entry.good_until > self._clock():
                    return entry.principal, await self._cookie(entry)
        raise Unauthenticated(
            "That sign-in link was used already, or is too old; `holdfast token link` makes a new one."
        )

    async def _cookie(self, entry: _Code) -> str:
        longest = datetime.now(UTC) + timedelta(days=COOKIE_DAYS)
        expires_at = min(longest, entry.expires_at or longest)
        secret = secrets.token_urlsafe(32)
        try:
            await self._store.add_token(
                entry.principal,
                cookie_hash(secret),
                "browser",
                expires_at=expires_at,
                parent_id=entry.parent_id,
            )
        except Conflict:
            raise Unauthenticated(
                "The token that made this sign-in link was revoked; ask for a new link."
            ) from None
        return secret

    def _is_jwt(self, secret: str) -> bool:
        return self._jwt is not None and secret.count(".") == 2

    async def _known_by(self, credential: str) -> tuple[Principal, datetime | None]:
        """Who shows this, and until when it is good."""
        if self._jwt is not None and self._is_jwt(credential):
            return await self._jwt.verified(credential)
        known = await self._look_up(credential)
        token = known.token
        if token.revoked_at is not None:
            raise Unauthenticated(f"The token {token.label!r} was revoked; ask for a new one.")
        if token.expires_at is not None and token.expires_at <= datetime.now(UTC):
            raise Unauthenticated(f"The token {token.label!r} has expired; ask for a new one.")
        now = self._clock()
        if now - known.touched_at > TOUCH_SECONDS:
            known.touched_at = now
            try:
                await self._store.touch_token(token.id)
            except StoreError as error:  # who may read still may, also where nothing can be written
                log.warning("it is not recorded that a token was used: %s", error)
        return token.principal, token.expires_at

    async def _look_up(self, key: str) -> _Known:
        now = self._clock()
        known = self._known.get(key)
        if known is not None and now - known.looked_at < TRUST_SECONDS:
            return known
        token = await self._store.find_token(key)
        if token is None:
            raise Unauthenticated("That token is not known here; check that it was copied whole.")
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = _Known(token, now)
        known.token, known.looked_at = token, now
        return known


def token_hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def cookie_hash(secret: str) -> str:
    """Not the hash of a token with this secret: browsers show a cookie to every port of a host."""
    return token_hash(f"cookie\0{secret}")


def cookie_name(server: str, *, is_encrypted: bool) -> str:
    """The name of a server's cookie, so that those of two ports of a host do not replace each other."""
    prefix = "__Host-" if is_encrypted else ""
    return f"{prefix}holdfast-{hashlib.sha256(server.encode()).hexdigest()[:12]}"
