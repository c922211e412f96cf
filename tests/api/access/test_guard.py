"""A shared server: keys, limits, CORS, bodies and addresses, over real server processes."""

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from scholarbase.api.access import keys as keys_module
from scholarbase.api.access.guard import check_access
from scholarbase.api.access.keys import create_key, revoke_key
from scholarbase.api.access.rates import PROBES, SLOTS, Rates, make_file
from scholarbase.api.app import create_app
from scholarbase.client import AsyncClient, Client
from scholarbase.errors import Forbidden, InvalidRequest, RateLimited, Unauthorized
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.conftest import run_cli, serving, serving_in_thread
from tests.encoders.servers import running

SEARCH = "/v1/search?q=string+theory&limit=1"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def slug(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"]
    assert response.json()["status"] == response.status_code
    return str(response.json()["type"]).rpartition("#")[2]


class Shared:
    """A server that requires keys."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys.json"
        self.read, _ = create_key(self.keys, "reader")
        self.admin, _ = create_key(self.keys, "admin", role="admin")
        self.url = ""


@pytest.fixture(scope="module")
def shared(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(tmp_path_factory.mktemp("keys"))
    with serving_in_thread(sample, keys=str(made.keys)) as made.url:
        yield made


# -- keys -----------------------------------------------------------------------------------------------


PATHS = [
    SEARCH,
    "/v1/snapshot",
    "/docs/",
    "/openapi.json/",
    "/metrics",
    "/nowhere",
    "/healthz/",
    "/healthz%0a",
]


def test_requests_without_a_key_are_rejected(shared: Shared) -> None:
    for path, headers in product(PATHS, ({}, {"Authorization": "Basic YTpi"})):
        response = httpx.get(shared.url + path, headers=headers)
        assert (response.status_code, slug(response)) == (401, "unauthorized")
        assert response.headers["www-authenticate"] == 'Bearer realm="ScholarBase"'
        assert "requires a key" in response.json()["detail"]


def test_a_wrong_key_is_rejected_and_not_quoted(shared: Shared) -> None:
    wrong = "sb_" + "w" * 43
    sent_keys = (bearer(wrong), {"X-API-Key": wrong}, bearer(shared.read[:-1]), bearer("\xff\xe9"))
    for path, headers in product(PATHS, sent_keys):
        sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
        response = httpx.get(shared.url + path, headers=sent)
        assert (response.status_code, slug(response)) == (401, "unauthorized")
        assert 'error="invalid_token"' in response.headers["www-authenticate"]
        assert "unknown or was revoked" in response.json()["detail"]
        assert wrong not in response.text


def test_the_interactive_page_opens_without_a_key_and_its_forms_send_one(shared: Shared) -> None:
    page = httpx.get(f"{shared.url}/docs")
    assert page.status_code == 200
    scripts = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
    assert scripts
    for script in scripts:
        assert httpx.get(shared.url + script).status_code == 200, script
    document = httpx.get(f"{shared.url}/openapi.json").json()
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert {"key": []} in document["security"]


def test_at_mcp_the_rejection_is_a_json_rpc_error(shared: Shared) -> None:
    for path in ("/mcp", "/mcp/"):
        response = httpx.post(shared.url + path, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert response.status_code == 401
        assert response.headers["content-type"] == "application/json"
        content = response.json()
        assert (content["jsonrpc"], content["id"]) == ("2.0", None)
        assert "requires a key" in content["error"]["message"]
        assert content["error"]["data"]["status"] == 401


def test_health_needs_no_key(shared: Shared) -> None:
    assert httpx.get(f"{shared.url}/healthz").status_code == 200
    assert httpx.head(f"{shared.url}/readyz").status_code == 200


def test_a_key_is_accepted_in_either_header(shared: Shared) -> None:
    for headers in (
        bearer(shared.read),
        {"Authorization": f"bearer  {shared.read}"},
        {"X-API-Key": shared.read},
        {"Authorization": "Basic YTpi", "X-API-Key": shared.read},
    ):
        response = httpx.get(shared.url + SEARCH, headers=headers)
        assert response.status_code == 200
        assert "ratelimit" not in response.headers


def test_metrics_need_an_admin_key(shared: Shared) -> None:
    for path in ("/metrics", "/metrics%0a", "/metrics/"):
        response = httpx.get(shared.url + path, headers=bearer(shared.read))
        assert (response.status_code, slug(response)) == (403, "forbidden")
        assert "'reader'" in response.json()["detail"]
    assert httpx.get(f"{shared.url}/metrics", headers=bearer(shared.admin)).status_code == 200


async def test_no_websocket_is_opened_without_a_key(sample: Library, tmp_path: Path) -> None:
    create_key(tmp_path / "keys.json", "ana")
    app = create_app(sample, settings=load_settings(keys=tmp_path / "keys.json"))
    opened: list[str] = []

    async def greet(socket: WebSocket) -> None:
        opened.append(socket.url.path)

    app.router.routes[:0] = [WebSocketRoute("/greet", greet)]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/greet", "headers": [], "query_string": b"", "scheme": "ws"}
    await app(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert not opened


@pytest.mark.slow
def test_the_log_has_the_keys_id_and_no_key(sample_library: Path, tmp_path: Path) -> None:
    keys, said = tmp_path / "keys.json", []
    text, key = create_key(keys, "ana")
    wrong = "sb_" + "w" * 43
    at = {"SCHOLARBASE_KEYS": str(keys), "SCHOLARBASE_LOG_LEVEL": "debug"}
    with serving(sample_library, said=said, **at) as (url, _):
        for sent in (text, wrong):
            httpx.get(url + SEARCH, headers=bearer(sent))
            httpx.get(f"{url}/metrics", headers={"X-API-Key": sent})
            httpx.post(f"{url}/v1/search", content="{", headers=bearer(sent))
    log = "".join(said)
    assert text not in log
    assert wrong not in log
    assert [f" key={key.id}\n" in line for line in said if " id=" in line] == [True] * 3 + [False] * 3


def test_a_key_is_valid_from_its_creation_to_its_revocation(
    sample: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While serving; without any key, all requests are rejected."""
    monkeypatch.setattr(keys_module, "CHECK_SECONDS", 0.05)
    keys = tmp_path / "keys.json"
    first, _ = create_key(keys, "first")
    with serving_in_thread(sample, keys=str(keys)) as url:
        assert httpx.get(url + SEARCH, headers=bearer(first)).status_code == 200
        second, _ = create_key(keys, "second")
        time.sleep(0.1)
        assert httpx.get(url + SEARCH, headers=bearer(second)).status_code == 200
        revoke_key(keys, "first")
        time.sleep(0.1)
        assert httpx.get(url + SEARCH, headers=bearer(first)).status_code == 401
        assert httpx.get(url + SEARCH, headers=bearer(second)).status_code == 200
        revoke_key(keys, "second")
        time.sleep(0.1)
        for headers in (bearer(first), bearer(second), {}):
            assert httpx.get(url + SEARCH, headers=headers).status_code == 401
        keys.unlink()
        time.sleep(0.1)
        for headers in (bearer(second), {}):
            assert httpx.get(url + SEARCH, headers=headers).status_code == 401
        assert httpx.get(f"{url}/readyz").json()["keys"] == "ok"
        assert httpx.get(f"{url}/healthz").status_code == 200


def test_a_server_with_an_invalid_key_file_is_not_ready(sample: Library, tmp_path: Path) -> None:
    """Its users were told that their keys were revoked."""
    keys = tmp_path / "keys.json"
    text, _ = create_key(keys, "ana")
    with serving_in_thread(sample, keys=str(keys)) as url:
        keys.write_text("broken")
        refused = httpx.get(url + SEARCH, headers=bearer(text))
        assert (refused.status_code, slug(refused)) == (500, "internal")
        assert "its operator must restore the key file" in refused.json()["detail"]
        ready = httpx.get(f"{url}/readyz")
        assert ready.status_code == 503
        assert "keys: the key file cannot be read" in ready.json()["detail"]


async def test_the_client_sends_its_key_and_raises_the_servers_error(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(shared.url, api_key=shared.read) as client:
        assert client.search("string theory", limit=1).results
    with Client(shared.url) as client, pytest.raises(Unauthorized, match="This server requires a key"):
        client.snapshot()
    with (
        Client(shared.url, api_key="sb_wrong") as client,
        pytest.raises(Unauthorized, match="unknown or was"),
    ):
        client.snapshot()
    with Client(shared.url, api_key="sb_wrong", headers=bearer(shared.read)) as client:
        assert client.snapshot()
    monkeypatch.setenv("SCHOLARBASE_API_KEY", shared.read)
    with Client(shared.url) as client:
        assert client.snapshot()
    async with AsyncClient(shared.url) as async_client:
        assert await async_client.snapshot()
    # A name and password in the URL are for a proxy, and use the Authorization header.
    with (
        Client(shared.url.replace("//", "//a:b@")) as client,
        pytest.raises(Unauthorized, match="requires a"),
    ):
        client.snapshot()


@pytest.mark.parametrize("key", ["sb_two\nlines", "sb_with space", "sb_\u00e9"])
def test_a_key_that_is_invalid_in_a_header_is_rejected_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Client("http://127.0.0.1:1", api_key=key)
    assert key not in str(refused.value)


def test_the_command_line_sends_the_key_of_the_settings(shared: Shared) -> None:
    asked = ("paper", "hep-th/9301068", "--url", shared.url)
    assert run_cli(*asked, SCHOLARBASE_API_KEY=shared.read).returncode == 0
    refused = run_cli(*asked)
    assert refused.returncode == Unauthorized.exit_code == Forbidden.exit_code == RateLimited.exit_code == 14
    assert "requires a key" in refused.stderr


# -- limits ---------------------------------------------------------------------------------------------


def statuses(url: str, key: str, count: int) -> list[int]:
    def send(_: int) -> int:
        return httpx.get(f"{url}/v1/snapshot", headers=bearer(key) | {"Connection": "close"}).status_code

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(send, range(count)))


@pytest.mark.slow
def test_exactly_the_limit_is_accepted(sample_library: Path, tmp_path: Path) -> None:
    """A limit of 6 per minute allows another request every 10 s, after the test has ended."""
    keys = tmp_path / "keys.json"
    first, _ = create_key(keys, "first")
    second, _ = create_key(keys, "second", rate=3)
    at = {"SCHOLARBASE_KEYS": str(keys), "SCHOLARBASE_RATE_LIMIT": "6"}
    with serving(sample_library, "--workers", "2", **at) as (url, _):
        for key, limit, count in ((first, 6, 40), (second, 3, 20)):
            began = time.monotonic()
            passed = statuses(url, key, count)
            late = int(
                (time.monotonic() - began) * limit / 60
            )  # requests allowed meanwhile on a slow machine
            assert passed.count(200) in range(limit, limit + late + 1)
            assert passed.count(429) == count - passed.count(200)
        while (refused := httpx.get(f"{url}/v1/snapshot", headers=bearer(first))).status_code == 200:
            pass
        assert slug(refused) == "rate-limited"
        assert "'first' may send 6 requests per minute" in refused.json()["detail"]
        assert 1 <= int(refused.headers["retry-after"]) <= 10
        assert refused.headers["ratelimit-policy"] == '"minute";q=6;w=60'
        assert refused.headers["ratelimit"].startswith('"minute";r=0;t=')
        for _ in range(20):
            assert httpx.get(f"{url}/healthz").status_code == 200
            assert "ratelimit" not in httpx.get(f"{url}/readyz", headers=bearer(first)).headers


def test_responses_have_the_remaining_requests(sample: Library, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    text, _ = create_key(keys, "ana", rate=120)
    with serving_in_thread(sample, keys=str(keys)) as url:
        for path, status in ((SEARCH, 200), ("/nowhere", 404), ("/metrics", 403)):
            response = httpx.get(url + path, headers=bearer(text))
            assert response.status_code == status
            assert response.headers["ratelimit-policy"] == '"minute";q=120;w=60'
        assert response.headers["ratelimit"] in (
            '"minute";r=117;t=2',
            '"minute";r=118;t=1',
            '"minute";r=118;t=2',
            '"minute";r=119;t=1',
        )


def test_a_minutes_burst_is_allowed_and_then_the_rate() -> None:
    """Counted by hand: 60 a minute is one a second. At 0 s 60 pass, the 61st waits 1 s; half a second later 0.5 s."""
    rates = Rates()
    first = [rates.count("0000aaaa", 60, now=1000.0) for _ in range(60)]
    assert [verdict.wait for verdict in first] == [0.0] * 60
    assert [verdict.remaining for verdict in first] == list(range(59, -1, -1))
    assert first[-1].full == pytest.approx(60)
    assert rates.count("0000aaaa", 60, now=1000.0).wait == pytest.approx(1)
    assert rates.count("0000aaaa", 60, now=1000.5).wait == pytest.approx(0.5)
    assert rates.count("0000bbbb", 60, now=1000.5).wait == 0
    passed = sum(rates.count("0000aaaa", 60, now=1000 + tenth / 10).wait == 0 for tenth in range(1, 601))
    assert passed == 60
    assert rates.count("0000aaaa", 60, now=2000.0).remaining == 59


@pytest.mark.parametrize("rate", [1, 7, 97, 1_000_000])
def test_rounding_errors_reject_no_request(rate: int) -> None:
    rates = Rates()
    asked = min(rate, 1000) + 1
    waits = [rates.count("0000aaaa", rate, now=123456.789).wait for _ in range(asked)]
    assert waits[:rate] == [0.0] * min(rate, asked)
    assert (waits[-1] > 0) is (rate < asked)


def test_processes_share_one_file_and_keys_are_counted_separately(tmp_path: Path) -> None:
    make_file(tmp_path / "rates")
    with closing(Rates(tmp_path / "rates")) as one, closing(Rates(tmp_path / "rates")) as two:
        _check_shared(one, two)


def _check_shared(one: Rates, two: Rates) -> None:
    ids = [f"{number:08x}" for number in range(SLOTS // PROBES)]
    for key in ids:
        assert [rates.count(key, 2, now=50.0).wait == 0 for rates in (one, two, one)] == [True, True, False]
    # Slots of passed times are free, so the table does not fill up with old keys.
    for number in range(2 * SLOTS):
        one.count(f"{number:08x}", 60, now=1000.0 + 2 * number)
    assert two.count("ffffffff", 1, now=1e6).wait == 0
    assert one.count("ffffffff", 1, now=1e6).wait == pytest.approx(60)


# -- bodies ---------------------------------------------------------------------------------------------


def chunks(size: int) -> Iterator[bytes]:
    for _ in range(size // 2**16):
        yield b" " * 2**16


def test_a_body_that_is_too_large_is_rejected_and_the_connection_kept(server: str) -> None:
    """10 MB with a limit of 8 MiB, with and without a declared length, then a small body on the same connection."""
    size = 160 * 2**16
    json = {"Content-Type": "application/json"}
    with httpx.Client(base_url=server, timeout=120, headers=json) as client:
        for path in ("/v1/search", "/v1/papers/batch", "/nowhere"):
            whole = client.post(path, content=b" " * size)
            assert client.post("/v1/search", content=b'{"q": "string theory"}').status_code == 200
            pieces = client.post(path, content=chunks(size))
            assert client.post("/v1/search", content=iter([b'{"q": "str', b'ings"}'])).status_code == 200
            assert slug(whole) == "body-too-large"
            assert "10,485,760 bytes, and this server accepts 8,388,608 at most" in whole.json()["detail"]
            assert slug(pieces) == "body-too-large"
            assert "more than 8,388,608 bytes, and this server accepts" in pieces.json()["detail"]
            assert (whole.status_code, pieces.status_code) == (413, 413)


def test_a_declared_body_is_rejected_before_it_is_sent(server: str) -> None:
    """A client that waits for 100 Continue, as curl does with large bodies, need not send it."""
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 1000000000000\r\nExpect: 100-continue\r\n\r\n"
        )
        response = b""
        while b"1,000,000,000,000 bytes" not in response and (more := connection.recv(65536)):
            response += more
    assert response.startswith(b"HTTP/1.1 413")
    assert b"1,000,000,000,000 bytes" in response


def test_the_limit_is_a_setting_and_four_times_as_large_for_tools(sample: Library) -> None:
    app = create_app(sample, settings=load_settings(max_body_bytes=1024))

    async def read(request: Request) -> JSONResponse:
        return JSONResponse({"taken": len(await request.body())})

    app.router.routes[:0] = [Route("/mcp", read, methods=["POST"]), Route("/raw", read, methods=["POST"])]
    with running(app) as address, httpx.Client(base_url=address.removesuffix("/v1"), timeout=120) as client:
        for path, most in (("/raw", 1024), ("/mcp", 4096)):
            for size, status in ((most, 200), (most + 1, 413)):
                whole = client.post(path, content=b"x" * size)
                pieces = client.post(path, content=iter([b"x" * (size - 1), b"x"]))
                assert (whole.status_code, pieces.status_code) == (status, status)
                if status == 200:
                    assert whole.json() == pieces.json() == {"taken": size}


# -- CORS -----------------------------------------------------------------------------------------------


def preflight(url: str, origin: str, headers: str = "authorization,content-type") -> httpx.Response:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": headers,
    }
    return httpx.options(f"{url}/v1/search", headers=asked)


def test_pages_of_other_origins_are_not_allowed_by_default(server: str) -> None:
    assert "access-control-allow-origin" not in preflight(server, "https://a.org").headers
    response = httpx.get(server + SEARCH, headers={"Origin": "https://a.org"})
    assert "access-control-allow-origin" not in response.headers
    for origin in ("http://localhost:6274", "http://127.0.0.1", "http://[::1]:3000"):
        assert preflight(server, origin).headers["access-control-allow-origin"] == origin
    for origin in ("http://localhost.a.org", "http://127.0.0.1.a.org", "null"):
        assert "access-control-allow-origin" not in preflight(server, origin).headers


def test_pages_of_configured_origins_may_send_requests(sample: Library, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    text, _ = create_key(keys, "page", rate=60)
    at = {
        "keys": str(keys),
        "cors_origins": "https://a.org, http://localhost:3000",
    }
    with serving_in_thread(sample, **at) as url:
        for origin in ("https://a.org", "http://localhost:3000"):
            asked = preflight(url, origin)
            assert asked.status_code == 200
            assert asked.headers["access-control-allow-origin"] == origin
            assert "authorization" in asked.headers["access-control-allow-headers"].lower()
            assert "POST" in asked.headers["access-control-allow-methods"]
            for headers, status in ((bearer(text), 200), ({}, 401)):
                response = httpx.get(url + SEARCH, headers={"Origin": origin, **headers})
                assert response.status_code == status
                assert response.headers["access-control-allow-origin"] == origin
                shown = response.headers["access-control-expose-headers"]
                for name in ("X-Request-ID", "X-ScholarBase-Snapshot", "RateLimit", "Retry-After"):
                    assert name in shown
            assert "access-control-allow-credentials" not in response.headers
        assert preflight(url, "https://b.org").status_code == 400
        response = httpx.get(url + SEARCH, headers={"Origin": "https://b.org", **bearer(text)})
        assert "access-control-allow-origin" not in response.headers


def test_a_star_allows_all_origins(sample: Library) -> None:
    with running(create_app(sample, settings=load_settings(cors_origins="*"))) as address:
        url = address.removesuffix("/v1")
        assert preflight(url, "https://anything.org").headers["access-control-allow-origin"] == "*"
        response = httpx.get(url + SEARCH, headers={"Origin": "https://anything.org"})
        assert response.headers["access-control-allow-origin"] == "*"


# -- invalid settings ------------------------------------------------------------------------------------


def serve_error(library: Path, *options: str, **environment: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "scholarbase.api.server.Workers.serve", lambda *_, **__: pytest.fail("the server started")
        )
        done = run_cli("serve", "--library", library, "--port", "0", *options, **environment)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_public_address_without_keys_is_rejected(sample_library: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        said = serve_error(sample_library, "--host", host)
        assert host in said
        assert "scholarbase key create" in said
        assert "--public" in said


def test_a_public_address_needs_keys_or_public(tmp_path: Path) -> None:
    create_key(tmp_path / "keys.json", "ana")
    check_access(load_settings(host="0.0.0.0", public=True))
    check_access(load_settings(host="0.0.0.0", keys=str(tmp_path / "keys.json")))
    with pytest.raises(InvalidRequest, match="without a key"):
        check_access(load_settings(host="0.0.0.0"))


def test_a_file_without_keys_is_rejected(sample_library: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    for content in (None, "[]"):
        if content is not None:
            keys.write_text(content)
        said = serve_error(sample_library, SCHOLARBASE_KEYS=str(keys))
        assert str(keys) in said
        assert "scholarbase key create" in said
    keys.write_text("[1]")
    assert "not a valid key file" in serve_error(sample_library, SCHOLARBASE_KEYS=str(keys))


def test_a_limit_without_keys_is_rejected(sample_library: Path) -> None:
    assert "a rate limit needs keys" in serve_error(sample_library, SCHOLARBASE_RATE_LIMIT="10")


def test_a_session_name_of_another_key_cannot_be_probed(sample: Library, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    (ana, _), (bob, _), (admin, _) = (
        create_key(keys, name, role=role)
        for name, role in (("ana", "read"), ("bob", "read"), ("root", "admin"))
    )
    with serving_in_thread(sample, keys=str(keys), sessions=str(tmp_path)) as url:

        def status(key: str, method: str = "GET", path: str = "/s", **rest: Any) -> int:
            return httpx.request(method, f"{url}/v1/sessions{path}", headers=bearer(key), **rest).status_code

        body = {"session": "s", "limits": {"calls": 5}}
        assert status(ana, "POST", "", json=body) == 201
        assert (status(bob), status(bob, "DELETE"), status(admin)) == (404, 404, 200)
        assert (
            httpx.get(url + SEARCH, headers=bearer(bob) | {"X-ScholarBase-Session": "s"}).status_code == 200
        )
        assert status(bob, "DELETE") == 204
        assert status(bob, "POST", "", json=body) == 201
        assert status(ana, "POST", "", json=body) == 409
        assert status(admin) == 400, "two keys have one"
        assert status(bob, "DELETE") == 204
        assert status(ana) == 200
