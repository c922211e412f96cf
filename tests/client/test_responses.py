"""Responses, failures and retries: both clients against scripted servers."""

import gzip
import logging
import socket
from collections.abc import Callable

import httpx
import orjson
import pytest
from tenacity import Retrying

from scholarbase import __version__, errors
from scholarbase.client import Client, endpoints
from scholarbase.client.core import read_response
from scholarbase.errors import (
    ClientError,
    EncoderError,
    InvalidRequest,
    ScholarBaseError,
    ServerFailure,
    ServerUnreachable,
)
from scholarbase.http import retry_options
from scholarbase.models.requests import SearchRequest
from tests.client.scripted import (
    DROP,
    EMPTY,
    HANG,
    SNAPSHOT,
    ScriptedServer,
    both,
    call_over,
    problem,
    response,
)

STRINGS = "arXiv:hep-th/9301068"


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    "fault",
    [
        DROP,
        response("200 OK", SNAPSHOT)[:-5],
        response("502 Bad Gateway", b"<h1>Bad Gateway</h1>"),
        response("503 Service Unavailable", b""),
        response("504 Gateway Timeout", b""),
        response("429 Too Many Requests", b"", "Retry-After: 0"),
        response("503 Service Unavailable", b"", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"),
        response("503 Service Unavailable", b"", "Retry-After: soon"),
        problem("encoder", "503 Service Unavailable", "The encoder is loading."),
    ],
    ids=["dropped", "cut-off", "502", "503", "504", "429", "date", "nonsense", "problem"],
)
def test_a_temporary_failure_is_retried(
    kind: str, fault: bytes | str, script: Callable[..., ScriptedServer]
) -> None:
    server = script(fault, fault, response())
    assert call_over(kind, server.url, "snapshot") == SNAPSHOT
    assert [first for first, _, _ in server.requests] == ["GET /v1/snapshot HTTP/1.1"] * 3


@both
def test_a_retry_sends_the_whole_body_again(kind: str, script: Callable[..., ScriptedServer]) -> None:
    server = script(DROP, response(content={"snapshot": "s1", "results": [EMPTY]}))
    (found,) = call_over(kind, server.url, "search_batch", [{"q": "gravity"}])
    assert found.results == ()
    first, second = server.requests
    assert first[2] == second[2] == b'{"searches":[{"q":"gravity","limit":10,"offset":0}]}'


def test_the_last_problem_document_is_raised_as_its_error(script: Callable[..., ScriptedServer]) -> None:
    detail = "The encoder failed: its process is gone. Start it again."
    server = script(problem("encoder", "503 Service Unavailable", detail, "X-Request-ID: r1"))
    with pytest.raises(EncoderError) as raised:
        call_over("sync", server.url, "snapshot", retries=2)
    assert str(raised.value) == detail
    assert raised.value.__notes__ == [
        f"Response from {server.url}/v1/snapshot with request id r1 after 3 attempts."
    ]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("scripted", "message"),
    [
        (response("500 Internal Server Error", b"<h1>Oops</h1>"), "500 Internal Server Error (<h1>Oops</h1>). See"),
        (problem("internal", "500 Internal Server Error", "An error that it does not know.", "X-Request-ID: r7"),
         "(An error that it does not know.). See the server's log for the request id r7."),
        (response("200 OK", b"<h1>Welcome</h1>"), "not JSON (<h1>Welcome</h1>): check that it is a ScholarBase"),
        (response("200 OK", b""), "not JSON"),
        (response("200 OK", {"hello": "world"}), "has an unexpected structure (KeyError: 'snapshot')"),
        (response("200 OK", [1, 2]), "has an unexpected structure"),
        (response("200 OK", gzip.compress(b"{}")[:-9] + b"garbage--", "Content-Encoding: gzip"), "cannot be read"),
        (response("404 Not Found", b"nginx"), "Check that the address is that of a ScholarBase server"),
        (response("401 Unauthorized", b""), "Add the credentials that it requires to headers"),
        (response("301 Moved Permanently", b"", "Location: https://new.example.org/v1/snapshot"),
         "Use the address https://new.example.org/v1/snapshot instead"),
        (response("503 Service Unavailable", b"", "Retry-After: 3600"), "/v1/snapshot: 503"),
    ],
)  # fmt: skip
def test_an_unexpected_response_fails_without_a_retry(
    scripted: bytes, message: str, script: Callable[..., ScriptedServer]
) -> None:
    server = script(scripted)
    with pytest.raises(ServerFailure) as raised:
        call_over("sync", server.url, "snapshot")
    assert message in str(raised.value)
    assert f"{server.url}/v1/snapshot" in str(raised.value)
    assert len(server.requests) == 1


@pytest.mark.slow
@both
def test_a_timeout_counts_the_attempts(kind: str, script: Callable[..., ScriptedServer]) -> None:
    server = script(HANG)
    with pytest.raises(ServerUnreachable) as raised:
        call_over(kind, server.url, "snapshot", timeout=httpx.Timeout(60, read=0.2), retries=1)
    assert f"No response from {server.url}/v1/snapshot in 2 attempts (ReadTimeout" in str(raised.value)
    assert "longer timeout" in str(raised.value)


@both
def test_a_refused_connection(kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(
            ServerUnreachable, match=f"No response from {url}/v1/papers/.* in 1 attempt .*scholarbase serve"
        ):
            call_over(kind, url, "paper", STRINGS, retries=0)


def page(snapshot: str, next_offset: int | None) -> bytes:
    paper = {"id": "arXiv:2001.00001"}
    return response(
        content=EMPTY
        | {"snapshot": snapshot, "next_offset": next_offset, "results": [{"score": 1.0, "paper": paper}]}
    )


@both
def test_pages_of_two_snapshots_are_a_failure(kind: str, script: Callable[..., ScriptedServer]) -> None:
    server = script(page("s1", 1), page("s2", None))
    with pytest.raises(ServerFailure, match="The snapshot changed from s1 to s2 between two pages"):
        call_over(kind, server.url, "iter_search", "gravity")


def test_an_offset_that_does_not_increase_is_a_failure(script: Callable[..., ScriptedServer]) -> None:
    server = script(page("s1", 1))
    with pytest.raises(ServerFailure, match="The page at offset 1 has next_offset 1"):
        call_over("sync", server.url, "iter_search", "gravity")


def test_requests_have_the_version_and_the_users_headers(script: Callable[..., ScriptedServer]) -> None:
    server = script(response())
    address = server.url.replace("://", "://reader:secret@") + "/scholar/"
    call_over("sync", address, "snapshot", headers={"X-Request-ID": "r9"})
    ((first, headers, _),) = server.requests
    assert first == "GET /scholar/v1/snapshot HTTP/1.1"
    assert headers["user-agent"] == f"scholarbase/{__version__}"
    assert headers["x-request-id"] == "r9"
    assert headers["authorization"] == "Basic cmVhZGVyOnNlY3JldA=="


def test_an_invalid_header_is_rejected_without_a_retry(script: Callable[..., ScriptedServer]) -> None:
    server = script(response())
    with (
        Client(server.url, headers={"X-Request-ID": "a\nb"}) as client,
        pytest.raises(InvalidRequest, match=r"cannot be sent .* check the headers"),
    ):
        client.snapshot()
    assert server.requests == []


def test_a_password_in_the_address_is_not_shown(
    script: Callable[..., ScriptedServer], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server = script(response("500 Internal Server Error", b""))
    with (
        Client(server.url.replace("://", "://reader:secret@")) as client,
        pytest.raises(ServerFailure) as raised,
    ):
        client.snapshot()
    assert "secret" not in str(raised.value) + client.base_url + caplog.text
    assert "HTTP Request" in caplog.text


def test_short_searches_use_the_url_and_long_ones_a_body(script: Callable[..., ScriptedServer]) -> None:
    server = script(response(content=EMPTY))
    call_over("sync", server.url, "run", SearchRequest(q="a b&c", fields=("title",), category=("cs",)))
    call_over("sync", server.url, "run", SearchRequest(q="gravity", within=(STRINGS,) * 500))
    (short, _, _), (long, headers, body) = server.requests
    assert short == "GET /v1/search?q=a+b%26c&limit=10&offset=0&fields=id%2Ctitle&category=cs HTTP/1.1"
    assert long == "POST /v1/search HTTP/1.1"
    assert headers["content-type"] == "application/json"
    assert orjson.loads(body) == {"q": "gravity", "limit": 10, "offset": 0, "within": [STRINGS] * 500}


def waits(retries: int, outcomes: list[httpx.Response | httpx.RequestError]) -> list[float]:
    """The waits of a request with these outcomes, without waiting."""
    waited: list[float] = []

    def send() -> httpx.Response:
        outcome = outcomes[len(waited)]
        if isinstance(outcome, httpx.RequestError):
            raise outcome
        return outcome

    log = logging.getLogger("scholarbase.client")
    options = retry_options("http://h/v1", retries, 0.5, log) | {"sleep": waited.append}
    assert Retrying(**options)(send) is outcomes[-1]
    return waited


def test_waits_double_up_to_a_limit_with_jitter() -> None:
    waited = waits(10, [*[httpx.ConnectError("refused")] * 7, httpx.Response(200)])
    for wait, longest in zip(waited, [0.5, 1, 2, 4, 8, 10, 10], strict=True):
        assert longest / 2 <= wait <= longest


def test_an_unknown_host_is_not_tried_again() -> None:
    error = httpx.ConnectError("Name or service not known")
    error.__cause__ = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    with pytest.raises(httpx.ConnectError):
        waits(3, [error, httpx.Response(200)])
    error.__cause__ = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert len(waits(3, [error, httpx.Response(200)])) == 1


def test_retry_after_replaces_the_backoff() -> None:
    (wait,) = waits(3, [httpx.Response(429, headers={"Retry-After": "60"}), httpx.Response(200)])
    assert 60 <= wait <= 60.5
    assert waits(3, [httpx.Response(503, headers={"Retry-After": "61"})]) == []


def _errors() -> list[type[ScholarBaseError]]:
    found = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, ScholarBaseError)]
    return [e for e in found if e is not ScholarBaseError and not issubclass(e, ClientError)]


def test_each_problem_type_is_raised_as_its_error() -> None:
    for error in _errors():
        content = {
            "type": errors.PROBLEM_TYPE_BASE + error.slug,
            "title": "",
            "status": error.status,
            "detail": "A sentence.",
        }
        with pytest.raises(ScholarBaseError) as raised:
            read_response(
                endpoints.Request("GET", "/", dict), httpx.Response(error.status, json=content), "http://h", 1
            )
        assert type(raised.value) is error
        assert str(raised.value) == "A sentence."
