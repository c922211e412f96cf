"""DNS rebinding: the check of ``Host``, on every route, with one worker and with two."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scholarbase.api.access.keys import create_key
from scholarbase.search.library import Library
from tests.api.raw import exchange, statuses
from tests.conftest import serving, serving_in_thread

PATHS = [
    "/healthz", "/readyz", "/metrics", "/v1/search?q=string", "/v1/papers/hep-th/9301068", "/v1/sessions", "/docs",
    "/openapi.json", "/static-offline-docs/swagger-ui.css", "/nowhere",
]  # fmt: skip
FOREIGN = [
    "rebound.example",
    "rebound.example:8000",
    "localhost.rebound.example",
    "127.0.0.1.rebound.example",
    "192.0.2.1",
    "[2001:db8::1]:80",
    "2130706433",
]
OWN = ["localhost", "LOCALHOST.:1", "127.0.0.1:80", "127.1.2.3", "[::1]", "[0:0:0:0:0:0:0:1]:8000"]


def status(url: str, host: str, path: str = "/healthz") -> int:
    return httpx.get(url + path, headers={"Host": host}).status_code


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, sample_library: Path) -> Iterator[str]:
    if request.param == "1":
        yield request.getfixturevalue("server")
        return
    with serving(sample_library, "--workers", request.param) as (url, _):
        yield url


def test_a_page_could_read_a_local_server_under_its_own_name(url: str) -> None:
    for path in PATHS:
        for _ in range(3):  # both workers
            response = httpx.get(url + path, headers={"Host": "rebound.example:8000"})
            assert response.status_code == 421, path
            assert response.headers["content-type"] == "application/problem+json"
            assert response.headers["x-request-id"]
            content = response.json()
            assert content["type"].endswith("#misdirected-request")
            assert "'rebound.example:8000'" in content["detail"]
            assert "SCHOLARBASE_HOSTS" in content["detail"]
        assert status(url, "localhost", path) in (200, 404), path
    for host in FOREIGN:
        assert status(url, host) == 421, host
    for host in OWN:
        assert status(url, host) == 200, host
    for method in ("OPTIONS", "POST", "BREW"):
        response = httpx.request(method, f"{url}/v1/search", headers={"Host": "rebound.example"})
        assert response.status_code == 421


def test_at_mcp_it_is_a_json_rpc_error(url: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in ({}, {"Origin": "http://rebound.example"}):
        response = httpx.post(f"{url}/mcp", json=message, headers={"Host": "rebound.example", **headers})
        assert response.status_code == 421
        assert "'rebound.example'" in response.json()["error"]["message"]


def test_a_missing_or_malformed_host_was_accepted(server: str) -> None:
    valid = b"Host: localhost\r\n"
    hosts = (
        b"",
        b" ",
        b" localhost, localhost",
        b" a b",
        b" localhost:80:80",
        b" localhost:x",
        b" [::1",
        b" \xe9",
    )
    links = (b" http://localhost", b" localhost/", b" user@localhost", b" " + b"a" * 60_000)
    for host in (valid * 2, *(host and b"Host:" + host + b"\r\n" for host in (*hosts, *links))):
        sent = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + host + b"\r\n"
        assert statuses(exchange(server, sent)) == [400], host[:80]


def test_http_1_0_needs_no_host(server: str) -> None:
    assert statuses(exchange(server, b"GET /healthz HTTP/1.0\r\n\r\n")) == [200]
    assert statuses(exchange(server, b"GET /healthz HTTP/1.0\r\nHost: rebound.example\r\n\r\n")) == [421]


def test_the_settings_name_more_hosts(sample: Library) -> None:
    with serving_in_thread(sample, hosts=" Papers.example.org, [2001:db8::1] ") as url:
        for host in ("papers.example.org", "PAPERS.example.org:443", "[2001:db8:0::1]", "localhost"):
            assert status(url, host) == 200, host
        for host in ("example.org", "a.papers.example.org", "[2001:db8::2]"):
            assert status(url, host) == 421, host
    with serving_in_thread(sample, hosts="*") as url:
        assert status(url, "anything.example") == 200
        assert status(url, "any thing") == 400


def test_a_key_protects_a_server_under_any_name(sample: Library, tmp_path: Path) -> None:
    key, _ = create_key(tmp_path / "keys.json", "ana")
    headers = {"Authorization": f"Bearer {key}"}
    for settings, expected in (({}, 200), ({"hosts": "papers.example.org"}, 421)):
        with serving_in_thread(sample, keys=str(tmp_path / "keys.json"), **settings) as url:
            for host, wanted in (("rebound.example", expected), ("papers.example.org", 200)):
                response = httpx.get(f"{url}/v1/snapshot", headers={**headers, "Host": host})
                assert response.status_code == wanted


def test_a_public_server_has_any_name(sample: Library) -> None:
    for settings, expected in (({}, 200), ({"hosts": "api"}, 421)):
        with serving_in_thread(sample, public=True, host="0.0.0.0", **settings) as url:
            assert status(url, "rebound.example") == expected
            assert status(url, "api:8000") == 200
            assert status(url, "127.0.0.1") == 200
