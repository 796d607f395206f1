"""What every request passes before any route sees it, and every answer on its way out.

In this order: the name the server was called by (a page that rebinds DNS to us names itself), the
path, the page the request comes from, who is calling, how often, and what kind of body it brings.
A route that is added later is locked like the others; what is open is listed here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import AccessDenied, HoldfastError, SessionNotFound, StoreError
from holdfast.model.ids import SessionId
from holdfast.model.principal import LOCAL, Principal
from holdfast.server.doorkeeper import Caller, Doorkeeper, Unauthenticated
from holdfast.server.hub import Closing
from holdfast.server.inbox import HiddenQuestionSet
from holdfast.server.jwt import InvalidJwt
from holdfast.server.limits import RateLimit
from holdfast.server.problems import problem_of, unexpected
from holdfast.store.store import Store

log = logging.getLogger("holdfast.server")

SIGN_IN = "/sign-in"
OPEN = frozenset({"/", "/healthz", SIGN_IN, "/favicon.ico"})
OPEN_UNDER = "/assets/"

NOBODY = Principal(LOCAL.organization, "nobody")
"""In whose name the audit log keeps what strangers tried."""

READING = frozenset({"GET", "HEAD"})

OF_THE_PAGE = b"x-holdfast-page"
"""A header that our page sends. A form of another page cannot send it, and a script of another page only with
a permission (CORS) that this server never gives."""

BODY_SECONDS = 30.0
"""How long the next piece of a body may take."""

WHOLE_BODY_SECONDS = 300.0
"""How long all of a body may take: the largest, over a line of half a megabit."""

DENIED_PER_SECOND, DENIED_BURST = 0.2, 20
"""How often it is written down that an address was refused in one way before anybody knew who called."""

_API_POLICY = "default-src 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_SECURE = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_API_HEADERS = [
    *_SECURE,
    (b"content-security-policy", _API_POLICY.encode()),
    (b"cache-control", b"no-store"),
]
_PAGE_HEADERS = [
    *_SECURE,
    (b"content-security-policy", _PAGE_POLICY.encode()),
    (b"cache-control", b"no-cache"),  # its parts fit one another only when they are of one version
]


class WrongHost(AccessDenied):
    code = "wrong_host"


class CrossSite(AccessDenied):
    code = "cross_site"


class Traversal(AccessDenied):
    code = "path_traversal"


class BodyTooLarge(HoldfastError):
    code = "body_too_large"
    status = 413


class BodyTooSlow(HoldfastError):
    code = "body_too_slow"
    status = 408


class WrongContentType(HoldfastError):
    code = "wrong_content_type"
    status = 415


class Gate:
    def __init__(
        self,
        app: ASGIApp,
        *,
        store: Store,
        doorkeeper: Doorkeeper,
        hosts: Iterable[str],
        public_url: str | None,
        requests: RateLimit,
        max_body: int,
    ) -> None:
        self._app = app
        self._store = store
        self._doorkeeper = doorkeeper
        self._hosts = frozenset(host.lower() for host in hosts)
        self._public = public_url.lower() if public_url else None
        self._requests = requests
        self._denials = RateLimit(DENIED_PER_SECOND, DENIED_BURST)
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        headers = dict(scope["headers"])
        secured = _secured(send, _PAGE_HEADERS if _is_open(path) else _API_HEADERS)
        try:
            self._check_place(scope, headers)
            if not _is_open(path):
                scope["holdfast.caller"] = await self._admit(scope, headers)
            receive = self._checked_body(scope, headers, receive)
        except HoldfastError as refusal:
            await self._note(scope, refusal)
            response = problem_of(refusal)
            if refusal.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            await response(scope, receive, secured)
            return
        except Exception:
            log.exception("the gate failed at %s", _printable(path))
            await unexpected()(scope, receive, secured)
            return
        try:
            await self._app(scope, receive, self._recorded(scope, secured))
        except asyncio.CancelledError:  # by the server, which stops and has waited long enough
            if "holdfast.answered" not in scope:
                await problem_of(Closing())(scope, receive, secured)
            return
        error = scope.get("holdfast.error")
        if isinstance(error, SessionNotFound | HiddenQuestionSet | Unauthenticated):
            await self._note(scope, error)  # only now: how long the answer took must not tell

    def _recorded(self, scope: Scope, send: Send) -> Send:
        """A denial is on record before it is answered."""

        async def recorded(message: Message) -> None:
            error = scope.get("holdfast.error")
            if message["type"] == "http.response.start":
                if isinstance(error, AccessDenied):
                    await self._note(scope, error)
                scope["holdfast.answered"] = True
            await send(message)

        return recorded

    def _check_place(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Whether the request is for us, for something inside us, and not from another site's page."""
        host = headers.get(b"host", b"").decode("latin-1")
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise WrongHost("A request names one host.")
        if hostname(host) not in self._hosts:
            named = f"This server is not called {host[:100]!r}."
            raise WrongHost(f"{named} If it should be, add the name to `hosts` in [server].")
        if _escapes(scope):
            raise Traversal("A path must not lead out of the place it begins in.")
        origin = headers.get(b"origin")
        if origin is not None and not self._is_own(origin.decode("latin-1"), host):
            raise CrossSite("A page of another site must not call this server.")
        navigates = headers.get(b"sec-fetch-mode") == b"navigate" and _is_open(scope["path"])
        site = headers.get(b"sec-fetch-site", b"none")
        if site in (b"same-origin", b"none"):
            return
        if navigates and scope["path"] == SIGN_IN:  # it would sign one in as somebody else, unnoticed
            raise CrossSite("A sign-in link is not followed from another site; copy it into the address bar.")
        if not navigates:
            raise CrossSite("A page of another site must not call this server.")

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether the page is of this server: as it is called now, or by its public address."""
        named = origin.lower()
        return named == self._public or named.partition("://")[2] == host.lower()

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller:
        caller = await self._doorkeeper.admit(_bearer(headers), _cookie(headers, self._doorkeeper.cookie))
        if caller.door == "web" and scope["method"] not in READING and OF_THE_PAGE not in headers:
            raise CrossSite("What changes something is sent by our page, which sends `X-Holdfast-Page`, too.")
        self._requests.take(f"{caller.principal.organization}\0{caller.principal.user}")
        return caller

    def _checked_body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_body:
            raise self._too_large()
        if length == b"0" and b"transfer-encoding" not in headers:
            return receive
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json":
            raise WrongContentType("The body must be JSON: send `Content-Type: application/json`.")
        received, complete = 0, False
        now = asyncio.get_running_loop().time
        end = now() + WHOLE_BODY_SECONDS

        async def checked() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(min(now() + BODY_SECONDS, end)):
                    message = await receive()
            except TimeoutError:
                raise BodyTooSlow(
                    f"The body stopped for {BODY_SECONDS:g} seconds, or took longer than "
                    f"{WHOLE_BODY_SECONDS:g} in all; send it again."
                ) from None
            received += len(message.get("body", b""))
            if received > self._max_body:
                raise self._too_large()
            complete = not message.get("more_body", False)
            return message

        return checked

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body is too large; at most {self._max_body:,} bytes are taken.")

    async def _note(self, scope: Scope, refusal: HoldfastError) -> None:
        """Keep in the audit log that somebody was denied something."""
        headers = dict(scope["headers"])
        caller: Caller | None = scope.get("holdfast.caller")
        strange = isinstance(refusal, Unauthenticated | InvalidJwt)
        guessed = b"authorization" in headers or b"cookie" in headers or scope["path"] == SIGN_IN
        if strange and not guessed:
            return  # nobody in particular, who tried nothing
        if not strange and not await self._is_denial(refusal):
            return
        if caller is None and not self._denials.allows(f"{_address(scope)} {refusal.code}"):
            return  # a flood of guesses, or of a page that somebody looks at; enough of it is written down
        view = self._store.as_principal(caller.principal if caller else NOBODY).through("http")
        detail = {"method": scope["method"], "code": refusal.code, "reason": str(refusal)}
        detail["address"] = _address(scope)
        try:
            await view.audit("http.request", "denied", subject=_printable(scope["path"]), detail=detail)
        except StoreError as error:
            log.error("a denial is not on record: %s (%s)", error, refusal)

    async def _is_denial(self, refusal: HoldfastError) -> bool:
        """Whether somebody was kept from what is there, and it is not on record yet."""
        if isinstance(refusal, SessionNotFound):
            try:
                await self._store.as_system().get_session(SessionId(refusal.session))
            except HoldfastError:
                return False  # nobody has it
            return True
        if isinstance(refusal, HiddenQuestionSet):
            return True
        return isinstance(refusal, AccessDenied) and not refusal.on_record


def _secured(send: Send, added: list[tuple[bytes, bytes]]) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(header for header in added if header[0] not in given),
            ]
        await send(message)

    return secured


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local"


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith(OPEN_UNDER)


def hostname(host: str) -> str:
    """The name in a `Host` header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _escapes(scope: Scope) -> bool:
    """Whether any reading of the path has a step upwards in it, or a character that no path has."""
    once = scope["raw_path"].decode("latin-1")
    for path in (once, unquote(once), unquote(unquote(once))):
        if ".." in path.replace("\\", "/").split("/") or "\0" in path:
            return True
    return False


def _bearer(headers: dict[bytes, bytes]) -> str | None:
    kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else None


def _cookie(headers: dict[bytes, bytes], ours: str) -> str | None:
    """Ours, among those that whatever else is on this host has set: they may be of any form."""
    for each in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = each.strip().partition("=")
        if name == ours:
            return value.strip('"')
    return None


def _printable(path: str) -> str:
    return path.replace("\0", "␀")[:500]
