"""Callers with a JWT: only what the issuer signed is let in, and nobody while its keys are not known."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from holdfast.model.principal import LOCAL, Principal, PrincipalRole
from holdfast.server.jwt import InvalidJwt, JwtVerifier
from holdfast.server.keys import FETCHES_BURST, KEYS_SECONDS, KeysOfAddress, KeysUnavailable
from tests.server.servers import Person, Served, problem

ISSUER, AUDIENCE = "https://id.example", "holdfast"

ADA = {"organization": "acme", "user": "ada", "role": "admin"}


class Signer:
    """Somebody with a private key, who signs with it."""

    def __init__(self, name: str = "k1") -> None:
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())

    @property
    def public(self) -> dict[str, Any]:
        key: dict[str, Any] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        return key | {"kid": self.name, "use": "sig", "alg": "ES256"}

    def sign(self, *, without: str | None = None, **claims: Any) -> str:
        signed = {name: value for name, value in (good_claims() | claims).items() if name != without}
        return jwt.encode(signed, self._key, algorithm="ES256", headers={"kid": self.name})


class Issuer:
    """An identity provider on loopback, which gives its keys to whoever asks."""

    def __init__(self, *signers: Signer) -> None:
        self.answer = key_set(*signers)
        self.status = 200
        self.asked = 0
        issuer = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                self.send_response(issuer.status)
                self.end_headers()
                self.wfile.write(issuer.answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


@pytest.fixture
def signer() -> Signer:
    return Signer()


@pytest.fixture
def issuer(signer: Signer) -> Iterator[Issuer]:
    issuer = Issuer(signer)
    yield issuer
    issuer.stop()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def good_claims() -> dict[str, Any]:
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "org": "acme",
        "role": "admin",
        "exp": int(time.time()) + 60,
    }


def key_set(*signers: Signer) -> bytes:
    return json.dumps({"keys": [signer.public for signer in signers]}).encode()


def verifier(keys: str) -> JwtVerifier:
    return JwtVerifier(issuer=ISSUER, audience=AUDIENCE, keys=keys)


def trusting(home: Path, keys: str) -> Served:
    """A server that lets in who shows a JWT signed with one of these keys."""
    return Served(
        home,
        HOLDFAST_SERVER_JWT_ISSUER=ISSUER,
        HOLDFAST_SERVER_JWT_AUDIENCE=AUDIENCE,
        HOLDFAST_SERVER_JWT_KEYS=keys,
    )


async def shown(served: Served, token: str) -> httpx2.Response:
    return await Person(served.url, LOCAL, token).get("/api/me")


@pytest.mark.usefixtures("process")
async def test_a_jwt_of_the_issuer_is_let_in_and_no_other(tmp_path: Path, signer: Signer) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(signer))
    served = trusting(tmp_path, str(keys))
    served.start()
    claims = good_claims()
    refused = [
        signer.sign(iss="https://evil.example"),
        signer.sign(aud="another"),
        signer.sign(exp=int(time.time()) - 60),
        signer.sign(without="exp"),
        signer.sign(role="owner"),
        signer.sign(org=""),
        signer.sign(sub=7),
        Signer("k1").sign(),
        Signer("k2").sign(),
        jwt.encode(
            claims, "a secret that is long enough to be one", algorithm="HS256", headers={"kid": "k1"}
        ),
        jwt.encode(claims, "", algorithm="none", headers={"kid": "k1"}),
        jwt.encode(claims, rsa.generate_private_key(65537, 2048), algorithm="RS256", headers={"kid": "k1"}),
        jwt.encode(claims, "", algorithm="none"),
    ]
    try:
        assert (await shown(served, signer.sign())).json() == ADA
        for token in refused:
            assert problem(await shown(served, token))["status"] == 401
    finally:
        served.stop()
    assert "Traceback" not in served.complaints()


@pytest.mark.usefixtures("process")
async def test_who_signed_in_with_a_jwt_is_not_in_for_longer(tmp_path: Path, signer: Signer) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(signer))
    served = trusting(tmp_path, str(keys))
    served.start()
    expires = int(time.time()) + 600
    try:
        ada = Person(served.url, LOCAL, signer.sign(exp=expires))
        link = (await ada.post("/api/sign-in-links")).json()["url"]
        async with httpx2.AsyncClient(base_url=served.url) as browser:
            await browser.get(link)
            assert (await browser.get("/api/me")).json() == ADA
            (token,) = (await browser.get("/api/tokens")).json()["tokens"]
        assert datetime.fromisoformat(token["expiresAt"]).timestamp() == expires
    finally:
        served.stop()


@pytest.mark.usefixtures("process")
async def test_keys_of_an_address_follow_the_issuer(tmp_path: Path, issuer: Issuer, signer: Signer) -> None:
    served = trusting(tmp_path, issuer.url)
    served.start()
    try:
        assert (await shown(served, signer.sign())).json() == ADA
        assert (await shown(served, signer.sign(sub="bob"))).json()["user"] == "bob"
        assert issuer.asked == 1
        successor = Signer("k2")
        assert problem(await shown(served, successor.sign()))["status"] == 401
        issuer.answer = key_set(successor)
        assert (await shown(served, successor.sign())).json() == ADA
        assert problem(await shown(served, signer.sign()))["status"] == 401
    finally:
        served.stop()


@pytest.mark.usefixtures("process")
async def test_nobody_is_let_in_while_the_issuer_cannot_be_asked(
    tmp_path: Path, issuer: Issuer, signer: Signer
) -> None:
    issuer.stop()
    served = trusting(tmp_path, issuer.url)
    served.start()
    try:
        refused = await shown(served, signer.sign())
        assert (problem(refused)["status"], problem(refused)["code"]) == (503, "keys_unavailable")
        assert issuer.url in problem(refused)["detail"]
        assert (await shown(served, served.presence.token)).status_code == 200
    finally:
        served.stop()


async def test_the_issuer_is_not_asked_more_often_however_many_keys_are_made_up(
    issuer: Issuer, signer: Signer
) -> None:
    clock = Clock()
    keys = KeysOfAddress(issuer.url, clock)
    for number in range(50):
        assert await keys.find(f"made-up-{number}") is None
    assert issuer.asked == FETCHES_BURST
    assert await keys.find(signer.name) is not None
    clock.now += 60
    assert await keys.find("made-up") is None
    assert issuer.asked == FETCHES_BURST + 1


async def test_keys_that_have_grown_old_are_not_used_without_the_issuer(
    issuer: Issuer, signer: Signer
) -> None:
    clock = Clock()
    keys = KeysOfAddress(issuer.url, clock)
    assert await keys.find(signer.name) is not None
    issuer.status = 500
    assert await keys.find(signer.name) is not None
    clock.now += KEYS_SECONDS
    with pytest.raises(KeysUnavailable, match="it answered 500"):
        await keys.find(signer.name)
    issuer.status = 200
    assert await keys.find(signer.name) is not None


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b"{}", b'{"keys": [{"kty": "EC"}]}', b'{"keys": 5}']
)
async def test_an_answer_that_holds_no_keys_lets_nobody_in(
    tmp_path: Path, issuer: Issuer, signer: Signer, answer: bytes
) -> None:
    issuer.answer = answer
    file = tmp_path / "keys.json"
    file.write_bytes(answer)
    for keys in (issuer.url, str(file), str(tmp_path / "missing.json")):
        with pytest.raises(KeysUnavailable):
            await verifier(keys).verified(signer.sign())


async def test_a_key_that_is_not_for_signatures_verifies_none(issuer: Issuer, signer: Signer) -> None:
    issuer.answer = json.dumps({"keys": [signer.public | {"use": "enc"}, Signer("k2").public]}).encode()
    with pytest.raises(InvalidJwt, match="none of the issuer's keys is called 'k1'"):
        await verifier(issuer.url).verified(signer.sign())


async def test_without_a_role_the_caller_is_a_member(issuer: Issuer, signer: Signer) -> None:
    ada, _ = await verifier(issuer.url).verified(signer.sign(without="role"))
    assert ada == Principal("acme", "ada", PrincipalRole.MEMBER)


async def test_the_issuers_clock_may_be_a_little_behind_ours(issuer: Issuer, signer: Signer) -> None:
    await verifier(issuer.url).verified(signer.sign(exp=int(time.time()) - 1))


@pytest.mark.parametrize("exp", ["4102444800", 4102444800.5, 4102444800_000, 10**30], ids=str)
async def test_whatever_number_an_expiry_is_it_is_a_moment(
    issuer: Issuer, signer: Signer, exp: object
) -> None:
    _, expires_at = await verifier(issuer.url).verified(signer.sign(exp=exp))
    assert expires_at.year in (2100, 9999)


async def test_an_expiry_that_is_no_number_lets_nobody_in(issuer: Issuer, signer: Signer) -> None:
    endless: list[object] = ["soon", float("inf"), [], None]
    for exp in endless:
        with pytest.raises(InvalidJwt):
            await verifier(issuer.url).verified(signer.sign(exp=exp))
