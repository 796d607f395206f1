"""Callers with a JWT of an identity provider: its signature, issuer, audience and times must hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.principal import Principal, PrincipalRole
from holdfast.server.keys import keys_at

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures that only the issuer can make. A shared secret, or none, is not among them."""


LEEWAY_SECONDS = 30
"""How far the issuer's clock may be from ours."""

LAST_SECOND = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())


class InvalidJwt(HoldfastError):
    code = "unauthenticated"
    status = 401

    def __init__(self, why: object) -> None:
        super().__init__(f"The JWT is not accepted: {str(why).removesuffix('.')}.")


class JwtVerifier:
    """`org`, `sub` and `role` of the JWT are the principal's organization, user and role."""

    def __init__(self, *, issuer: str, audience: str, keys: str) -> None:
        """`keys` is the address of a JSON Web Key Set, or the path of a file that holds one."""
        self._issuer = issuer
        self._audience = audience
        self._keys = keys_at(keys)

    async def verified(self, text: str) -> tuple[Principal, datetime]:
        """Whose JWT it is, and when it expires."""
        claims = await self._claims(text)
        organization, user, role = claims.get("org"), claims["sub"], claims.get("role", PrincipalRole.MEMBER)
        if not isinstance(organization, str) or role not in list(PrincipalRole):
            raise InvalidJwt("its `org` is a text, its `role` member or admin")
        try:
            return Principal(organization, user, PrincipalRole(role)), _moment(claims["exp"])
        except InvalidInput as error:
            raise InvalidJwt(error) from None

    async def _claims(self, text: str) -> dict[str, Any]:
        import jwt

        try:
            name = jwt.get_unverified_header(text).get("kid")
            key = await self._keys.find(name)
            if key is None:
                raise InvalidJwt(f"none of the issuer's keys is called {name!r}")
            claims: dict[str, Any] = jwt.decode(
                text,
                key.key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise InvalidJwt(error) from None
        except OverflowError:
            raise InvalidJwt("its times are numbers of seconds") from None
        except TypeError:  # how the library says it
            raise InvalidJwt("its algorithm is not that of the issuer's key") from None
        return claims


def _moment(seconds: Any) -> datetime:
    """When that is. Issuers write whole numbers, fractions and texts, and some of them milliseconds."""
    return datetime.fromtimestamp(min(int(seconds), LAST_SECOND), UTC)
