"""The explorer's files: what they may load and run, and who gets them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from scholarbase.api.access.keys import create_key
from scholarbase.api.app import create_app
from scholarbase.api.explorer import FILES
from scholarbase.search.library import Library
from scholarbase.settings import load_settings

NAMES = sorted(path.name for path in FILES.iterdir())
ADDRESSES = ["/", *(f"/explorer/{name}" for name in NAMES if name != "index.html")]


@pytest.fixture(scope="module")
def http(sample: Library) -> TestClient:
    return TestClient(create_app(sample), base_url="http://127.0.0.1")


def test_every_file_has_a_strict_policy_and_a_tag(http: TestClient) -> None:
    for address in ADDRESSES:
        response = http.get(address)
        assert response.status_code == 200
        policy = dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-cache"
        current = http.get(address, headers={"If-None-Match": response.headers["etag"]})
        assert (current.status_code, current.content) == (304, b"")
        assert http.head(address).status_code == 200
        assert http.post(address).status_code == 405


def test_every_file_that_the_page_names_is_there(http: TestClient) -> None:
    named = set(re.findall(r'"explorer/([\w.]+)"', (FILES / "index.html").read_text()))
    for name in NAMES:
        named |= set(re.findall(r'(?:from|import\()\s*"\./([\w.]+)"', (FILES / name).read_text()))
    assert named == set(NAMES) - {"index.html"}
    assert http.get("/explorer/none.js").status_code == 404
    assert http.get("/explorer/..%2F__init__.py").status_code == 404


def test_no_file_has_inline_code_or_loads_from_other_hosts() -> None:
    text = "\n".join((FILES / name).read_text() for name in NAMES)
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+\s*=\s*\"|style=\"|javascript:", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text)
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    assert hosts <= {"www.w3.org", "arxiv.org", "doi.org"}  # names of SVG, and links that people follow


def test_the_page_needs_no_key_and_its_requests_do(sample: Library, tmp_path: Path) -> None:
    create_key(tmp_path / "keys.json", "reader")
    app = create_app(sample, settings=load_settings(keys=tmp_path / "keys.json"))
    http = TestClient(app, base_url="http://127.0.0.1")
    assert [http.get(address).status_code for address in ADDRESSES] == [200] * len(ADDRESSES)
    assert http.get("/v1/search", params={"q": "x"}).status_code == 401
    assert http.get("/explorer").status_code == 401


def test_the_page_is_small(server: str) -> None:
    headers = {"Accept-Encoding": "gzip"}
    with httpx.Client(base_url=server, headers=headers) as http:
        sizes = {}
        for address in ADDRESSES:
            with http.stream("GET", address) as response:
                sizes[address] = sum(map(len, response.iter_raw()))
    assert sum(sizes.values()) < 60_000, sizes
    assert sum((FILES / name).stat().st_size for name in NAMES) < 150_000
