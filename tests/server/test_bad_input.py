"""Bad input: a sentence and a status in the four hundreds, nothing stored, nothing of the inside shown."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from holdfast import Session, Store
from holdfast.server.protocol import MAX_HEAD_BYTES
from tests.server.servers import Organization, Served, problem
from tests.waiting import SECONDS

PROMPT = "/api/sessions/{id}/prompt"

BODIES: list[tuple[str, bytes, str, int]] = [
    ("broken JSON", b'{"text": ', "application/json", 400),
    ("no JSON at all", b"\x00\xff", "application/json", 400),
    ("a list", b'["text"]', "application/json", 400),
    ("nothing", b"{}", "application/json", 400),
    ("a wrong type", b'{"text": 5}', "application/json", 400),
    ("null", b'{"text": null}', "application/json", 400),
    ("empty text", b'{"text": ""}', "application/json", 400),
    ("an unknown field", b'{"text": "x", "texts": 1}', "application/json", 400),
    ("a repeated surrogate half", b'{"text": "\\ud800"}', "application/json", 400),
    ("another content type", b'{"text": "x"}', "text/plain", 415),
    ("a form", b"text=x", "application/x-www-form-urlencoded", 415),
    ("deep nesting", b"[" * 100_000, "application/json", 400),
    ("a huge number", b'{"text": ' + b"9" * 10_000 + b"}", "application/json", 400),
    ("not UTF-8", b'{"text": "\xff"}', "application/json", 400),
    ("too much", b'{"text": "' + b"x" * 9_000_000 + b'"}', "application/json", 413),
]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/api/sessions?limt=3", None, "limt: there is nothing of this name here."),
        ("/api/sessions?limit=3&limit=4", None, "limit: It is given more than once."),
        ("/api/me?verbose=1", None, "verbose: there is nothing of this name here."),
        ("/api/sessions/x/messages", None, "id: it is not an id, which is 32 hexadecimal digits"),
        ("/api/sessions?agent=a%00b", None, "agent: it must not contain a NUL character."),
        (
            "/api/questions/7128f21c-90a2-400d-a12e-3363636206d4/answer",
            '{"answers": [{"questionIndex": 0, "customText": "a\\u0000b"}]}',
            "answers.0.customText: it must not contain a NUL character.",
        ),
        ("/api/repos", "{", "The body is not JSON: it goes wrong at character 1."),
        ("/api/repos", "{}", "name: it is missing."),
    ],
)
async def test_what_is_wrong_is_said_in_a_sentence(
    org: Organization, path: str, body: str | None, sentence: str
) -> None:
    kind = {"Content-Type": "application/json"}
    answer = await org.ada.call("POST" if body else "GET", path, content=body, headers=kind if body else {})
    assert problem(answer)["detail"].startswith(sentence)


@pytest.mark.parametrize(
    ("body", "kind", "status"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES]
)
async def test_a_bad_body_is_refused(
    store: Store, org: Organization, session: Session, body: bytes, kind: str, status: int
) -> None:
    response = await org.ada.call(
        "POST", PROMPT.format(id=session.id), content=body, headers={"Content-Type": kind}
    )
    assert problem(response)["status"] == status
    unchanged = await store.as_principal(org.ada.principal).get_session(session.id)
    assert unchanged == session


async def test_a_body_without_a_length_is_limited_too(org: Organization, session: Session) -> None:
    async def endless() -> Any:
        yield b'{"text": "'
        for _ in range(200):
            yield b"x" * 65536

    async with org.ada.client() as client:
        response = await client.post(
            PROMPT.format(id=session.id), content=endless(), headers={"Content-Type": "application/json"}
        )
        assert problem(response)["status"] == 413


@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions/not-a-uuid",
        "/api/sessions/01a1e252d3217308bdaedb93e6f71518",
        "/api/sessions/01a1e252-d321-7308-bdae-db93e6f71518-",
        "/api/sessions/%F0%9F%A6%80",
        "/api/sessions/" + "a" * 5000,
        "/api/questions/1",
        "/api/sessions?limit=0",
        "/api/sessions?limit=1001",
        "/api/sessions?limit=ten",
        "/api/sessions?offset=-1",
        "/api/sessions?offset=99999999999999999999",
        "/api/sessions?before=created-1",
        "/api/sessions?before=x",
        "/api/sessions?status=",
        "/api/sessions?q=%00",
        "/api/sessions?agent=%00",
        "/api/sessions?unknown=1",
        "/api/sessions?repoId=1",
        "/api/audit?before=-1",
        "/api/events?since=1.5",
    ],
)
async def test_a_bad_path_or_query_is_refused(org: Organization, path: str) -> None:
    assert problem(await org.admin.get(path))["status"] == 400


@pytest.mark.parametrize("since", ["yesterday", "2026-01-01", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00"])
async def test_a_time_that_is_none_is_refused(org: Organization, session: Session, since: str) -> None:
    response = await org.ada.get(f"/api/sessions/{session.id}/messages", params={"since": since})
    assert problem(response)["status"] == 400


async def test_what_is_not_there_and_what_is_not_done_there(org: Organization, session: Session) -> None:
    assert problem(await org.ada.get("/api/nothing"))["status"] == 404
    response = await org.ada.call("PUT", f"/api/sessions/{session.id}")
    assert problem(response)["status"] == 405
    assert set(response.headers["allow"].split(", ")) >= {"GET", "PATCH", "DELETE"}


async def test_a_flood_of_headers_is_cut_off(served: Served) -> None:
    flood = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Filler: y\r\n" * 10_000
    long = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"y" * 200_000
    for request in (flood, long):
        # A connection that is closed before all was read may lose the answer on its way.
        assert (await _said(served, request))[:13] in (b"HTTP/1.1 431 ", b"")
    await _is_well(served)


CHUNKED = b"Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "flood",
    [b"0\r\n" + b"X-Filler: y\r\n" * 100_000, b"0\r\nX-Long: " + b"y" * 1_000_000, b"5;" + b"y" * 1_000_000],
    ids=["trailers", "a trailer", "an extension"],
)
async def test_a_flood_beside_the_body_is_cut_off(served: Served, flood: bytes) -> None:
    said = await _said(served, b"POST /healthz HTTP/1.1\r\n" + CHUNKED + b"\r\n" + flood)
    assert said[:10] in (b"HTTP/1.1 4", b"")
    await _is_well(served)


async def test_trailers_are_no_headers(served: Served, org: Organization, session: Session) -> None:
    path = f"/api/sessions/{session.id}?messages=none".encode()
    head = b"GET " + path + b" HTTP/1.1\r\nConnection: close\r\n" + CHUNKED
    trailer = b"Authorization: Bearer " + org.ada.secret.encode() + b"\r\n"
    trailed = await _said(served, head + b"\r\n0\r\n" + trailer + b"\r\n", stays=True)
    headed = await _said(served, head + trailer + b"\r\n0\r\n" + trailer + b"\r\n", stays=True)
    assert (trailed[:13], headed[:13]) == (b"HTTP/1.1 401 ", b"HTTP/1.1 200 ")


async def test_one_who_sends_a_request_very_slowly_is_not_waited_for(served: Served) -> None:
    half = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    *said, nothing = await asyncio.gather(*(_said(served, half) for _ in range(20)), _said(served, b""))
    assert [_problem_in(answer)["status"] for answer in said] == [408] * 20
    assert nothing == b""
    await _is_well(served)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ],
)
async def test_what_is_not_http_is_turned_away(served: Served, request_bytes: bytes) -> None:
    assert _problem_in(await _said(served, request_bytes))["status"] in (400, 401, 403)
    await _is_well(served)


async def test_a_head_that_is_too_long_is_told_so(served: Served) -> None:
    begin = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "
    said = await _said(served, begin + b"y" * (MAX_HEAD_BYTES + 1 - len(begin)))
    assert _problem_in(said)["status"] == 431


def _problem_in(answer: bytes) -> dict[str, Any]:
    """The problem that the bytes of an answer hold."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return problem(httpx2.Response(int(status.split()[1]), headers=headers, content=body))


async def _said(served: Served, request: bytes, *, stays: bool = False) -> bytes:
    """What the server says to these bytes before it hangs up."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(SECONDS):
            writer.write(request)
            await writer.drain()
            if request.endswith(b"\r\n\r\n") and not stays:
                writer.write_eof()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def _is_well(served: Served) -> None:
    async with httpx2.AsyncClient(base_url=served.url) as client:
        assert json.loads((await client.get("/healthz")).text)["status"] == "ok"
