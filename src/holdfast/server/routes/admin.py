"""Who may come in, and what was decided or denied."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from fastapi import Query as QueryOf
from pydantic import Field
from starlette.responses import RedirectResponse, Response

from holdfast.model.ids import TokenId
from holdfast.model.principal import Principal, PrincipalRole
from holdfast.server import shapes
from holdfast.server.doorkeeper import COOKIE_DAYS, Unauthenticated
from holdfast.server.routes.common import (
    COUNTING,
    UUID,
    AdminOf,
    Body,
    CallerOf,
    Label,
    Moment,
    PartsOf,
    Query,
    Text,
    View,
    answers,
    problem_answer,
    rendered,
)
from holdfast.server.routes.route import Route

router = APIRouter(tags=["access"], route_class=Route)

TokenPath = Annotated[str, Path(alias="id", description="The token's id.", pattern=UUID)]


class TokenRequest(Body):
    user: Label
    role: Literal["member", "admin"] = "member"
    label: Annotated[Text, Field(max_length=512)] = ""
    expires_at: Moment | None = None


class AuditPage(Query):
    before: Annotated[int, Field(description="The `next` of the page before.", **COUNTING)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class SignIn(Query):
    code: Annotated[str, Field(max_length=200)]


@router.get("/api/me", responses=answers(shapes.Me))
async def get_me(caller: CallerOf) -> Response:
    """Who is calling."""
    who = caller.principal
    return rendered(shapes.Me(organization=who.organization, user=who.user, role=who.role))


@router.get("/api/tokens", responses=answers(shapes.Tokens))
async def list_tokens(admin: AdminOf, view: View) -> Response:
    """The tokens of the caller's organization, without their secrets."""
    return rendered(shapes.Tokens(tokens=tuple(map(shapes.Token.of, await view.list_tokens()))))


@router.post("/api/tokens", status_code=201, responses=answers(shapes.NewToken, 201))
async def create_token(new: TokenRequest, parts: PartsOf, admin: AdminOf, view: View) -> Response:
    """Make a token for a user of the caller's organization. Its secret is shown this once."""
    principal = Principal(admin.principal.organization, new.user, PrincipalRole(new.role))
    token, secret = await parts.doorkeeper.issue(principal, new.label, new.expires_at)
    await view.audit("token.create", "done", subject=token.id, detail={"user": new.user, "role": new.role})
    return rendered(shapes.NewToken(token=shapes.Token.of(token), secret=secret), 201)


@router.delete("/api/tokens/{id}", responses=answers(shapes.Token, 200, 404))
async def revoke_token(token_id: TokenPath, parts: PartsOf, admin: AdminOf, view: View) -> Response:
    """Make a token worthless."""
    token = await parts.doorkeeper.revoke(view, TokenId(token_id))
    await view.audit("token.revoke", "done", subject=token.id)
    return rendered(shapes.Token.of(token))


@router.get("/api/audit", responses=answers(shapes.Audit))
async def list_audit(wanted: Annotated[AuditPage, QueryOf()], admin: AdminOf, view: View) -> Response:
    """What people of the organization decided and were denied, newest first."""
    entries = await view.list_audit(before=wanted.before, limit=wanted.limit)
    following = entries[-1].id if len(entries) == wanted.limit else None
    return rendered(shapes.Audit(entries=tuple(map(shapes.AuditEntry.of, entries)), next=following))


@router.post("/api/sign-in-links", status_code=201, responses=answers(shapes.SignInLink, 201))
async def create_sign_in_link(request: Request, parts: PartsOf, caller: CallerOf, view: View) -> Response:
    """An address that opens the page signed in as the caller, once, for as long as the caller may come in."""
    code = await parts.doorkeeper.sign_in_code_of(caller)
    await view.audit("sign_in.link", "done")
    reached = parts.settings.server.public_url or str(request.base_url).rstrip("/")
    return rendered(shapes.SignInLink(url=f"{reached}/sign-in?code={code}"), 201)


@router.get(
    "/sign-in",
    status_code=303,
    responses={
        303: {"description": "To the page, with a cookie; to a browser also where the code is used up."},
        400: problem_answer(),
        401: problem_answer(),
    },
    openapi_extra={"security": []},
)
async def sign_in(wanted: Annotated[SignIn, QueryOf()], request: Request, parts: PartsOf) -> Response:
    """Exchange a one-time code for a cookie. A browser whose code is used up goes to the page, which is open
    where the code was used, and elsewhere says how to come in."""
    try:
        principal, secret = await parts.doorkeeper.redeem(wanted.code)
    except Unauthenticated as refusal:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        request.scope["holdfast.error"] = refusal
        return RedirectResponse("/", status_code=303)
    await parts.store.as_principal(principal).through("http").audit("sign_in", "done")
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        parts.doorkeeper.cookie,
        secret,
        max_age=COOKIE_DAYS * 24 * 3600,
        httponly=True,
        samesite="strict",
        secure=parts.settings.server.is_encrypted,
    )
    return response


@router.post("/api/sign-out", responses=answers(shapes.Me))
async def sign_out(parts: PartsOf, caller: CallerOf) -> Response:
    """Make the cookie worthless that the page was given."""
    if caller.door == "web":
        await parts.doorkeeper.sign_out(caller)
    who = caller.principal
    response = rendered(shapes.Me(organization=who.organization, user=who.user, role=who.role))
    response.delete_cookie(
        parts.doorkeeper.cookie,
        httponly=True,
        samesite="strict",
        secure=parts.settings.server.is_encrypted,
    )
    return response
