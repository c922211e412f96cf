"""Every kind of error returns a problem document (RFC 9457) that names the value."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scholarbase.api.app import create_app
from scholarbase.api.middleware import _logged_path
from scholarbase.encoders import open_encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.service import create_service
from scholarbase.errors import PROBLEM_TYPE_BASE
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from tests.encoders.servers import running
from tests.libraries import copied

HOLOMORPHIC = "arXiv:hep-th/9302103"


@pytest.fixture(scope="module")
def http(sample: Library) -> Iterator[httpx.Client]:
    """A client of a server with one route that raises an error."""
    app = create_app(sample)

    def broken() -> None:
        raise RuntimeError("a secret detail")

    app.add_api_route("/broken", broken)
    with running(app) as url, httpx.Client(base_url=url.removesuffix("/v1"), timeout=120) as client:
        yield client


def problem(response: httpx.Response) -> dict[str, Any]:
    """The body of a problem document, checked to be well-formed."""
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"]
    assert response.headers["x-scholarbase-snapshot"]
    body: dict[str, Any] = response.json()
    assert list(body) == ["type", "title", "status", "detail"]
    assert body["status"] == response.status_code
    assert body["type"].startswith(PROBLEM_TYPE_BASE)
    assert body["title"]
    assert len(body["detail"]) > 10
    assert body["detail"].rstrip().endswith((".", ")"))
    return body


JSON = {"content-type": "application/json"}
INVALID = [
    ("GET", "/v1/search", {}, "'q'"),
    ("GET", "/v1/search?q=", {}, "q is empty"),
    ("GET", "/v1/search?q=x&q=y", {}, "'q' is repeated"),
    ("GET", "/v1/search?q=x&date_from=2020", {}, "'date_from'"),
    ("GET", "/v1/search?q=x&mode=fuzzy", {}, "'fuzzy'"),
    ("GET", "/v1/search?q=x&mode=dense", {}, "'dense'"),
    ("GET", "/v1/search?q=x&limit=ten", {}, "'ten'"),
    ("GET", "/v1/search?q=x&limit=1001", {}, "1001"),
    ("GET", "/v1/search?q=x&limit=1&offset=10000", {}, "10000"),
    ("GET", "/v1/search?q=x&from=2020&to=2019", {}, "'2020'"),
    ("GET", "/v1/search?q=x&from=yesterday", {}, "'yesterday'"),
    ("GET", "/v1/search?q=x&fields=title,doi", {}, "'doi'"),
    ("GET", "/v1/search?q=x&within=nonsense", {}, "'nonsense'"),
    ("GET", "/v1/search?q=(graph+AND+x&syntax=query", {}, "never closed"),
    ("GET", "/v1/search?q=na%EFve", {}, "%EF"),
    ("GET", "/v1/papers/na%EFve", {}, "%EF"),
    ("POST", "/v1/search", {}, "The body is missing"),
    ("POST", "/v1/search", {"content": "{", "headers": JSON}, "not valid JSON"),
    ("POST", "/v1/search", {"content": "[" * 100_000, "headers": JSON}, "JSON"),
    ("POST", "/v1/search", {"content": '{"q": "x"}', "headers": {"content-type": "text/plain"}}, "Content-Type"),
    ("POST", "/v1/search", {"json": []}, "not a JSON object"),
    ("POST", "/v1/search", {"json": {"q": "x", "lang": "en"}}, "'lang'"),
    ("POST", "/v1/search", {"json": {"q": "x", "from_": "2020"}}, "'from_'"),
    ("POST", "/v1/search", {"json": {"q": None}}, "null"),
    ("POST", "/v1/search", {"json": {"q": "x", "limit": "5"}}, "'5'"),
    ("POST", "/v1/search?limit=5", {"json": {"q": "x"}}, "'limit'"),
    ("POST", "/v1/search", {"content": rb'{"q": "\ud800"}', "headers": JSON}, "surrogate"),
    ("POST", "/v1/search/batch", {"json": {"searches": [{"q": "a"}, {"q": "b", "limit": 0}]}}, "search 'b': limit"),
    ("POST", "/v1/search/batch", {"json": {"searches": [{"q": "a"}] * 101}}, "101"),
    ("GET", "/v1/title-match?title=", {}, "title is empty"),
    ("GET", "/v1/title-match?title=x&min_score=nan", {}, "nan"),
    ("POST", "/v1/title-match/batch", {"json": {"titles": ["x", " "]}}, "In the title ' '"),
    ("GET", "/v1/papers/1706", {}, "'1706'"),
    ("GET", "/v1/papers/arXiv:1706.0376211", {}, "'1706.0376211'"),
    ("POST", "/v1/papers/batch", {"json": {"ids": ["x"]}}, "'x'"),
    ("POST", "/v1/papers/batch", {"json": {"ids": [HOLOMORPHIC] * 10_001}}, "10001"),
    ("GET", f"/v1/papers/{HOLOMORPHIC}/citations?sort=year", {}, "'year'"),
    ("GET", f"/v1/papers/{HOLOMORPHIC}/citations?offset={10**30}", {}, str(10**30)),
    ("GET", f"/v1/papers/{HOLOMORPHIC}/similar?sort=date", {}, "'sort'"),
    ("POST", f"/v1/papers/{HOLOMORPHIC}/similar", {"json": {"offset": 1000}}, "offset 1000"),
    ("POST", "/v1/expand", {"json": {"seeds": [HOLOMORPHIC], "hops": 5}}, "5"),
    ("GET", "/v1/snapshot?verbose=1", {}, "'verbose'"),
]  # fmt: skip


def test_an_invalid_request_is_400(http: httpx.Client) -> None:
    for method, path, request, named in INVALID:
        response = http.request(method, path, **request)
        body = problem(response)
        assert response.status_code == 400, body
        assert named in body["detail"]
        assert body["type"].rpartition("#")[2] in ("invalid-request", "unsupported-mode")


def test_a_missing_paper_is_404(http: httpx.Client) -> None:
    missing = "CorpusId:999"
    for method, path, content in (
        ("GET", f"/v1/papers/{missing}", None),
        ("GET", f"/v1/papers/{missing}/citations", None),
        ("GET", f"/v1/search?q=x&within={missing}", None),
        ("POST", "/v1/search/batch", {"searches": [{"q": "x", "within": [missing]}]}),
        ("POST", "/v1/expand", {"seeds": [HOLOMORPHIC, missing]}),
    ):
        response = http.request(method, path, json=content)
        body = problem(response)
        assert (response.status_code, body["type"].rpartition("#")[2]) == (404, "paper-not-found")
        assert missing in body["detail"]


def test_an_unknown_route_is_404_and_an_unknown_method_405(http: httpx.Client) -> None:
    for path in ("/v1", "/v2/search", "/v1/search/", "/favicon.ico"):
        body = problem(http.get(path))
        assert (body["status"], body["type"].rpartition("#")[2]) == (404, "not-found")
        assert f"at {path}:" in body["detail"]
    for method, path, allowed in (
        ("DELETE", "/v1/search", "GET, HEAD, POST"),
        ("PUT", "/v1/snapshot", "GET, HEAD"),
        ("GET", "/v1/expand", "POST"),
        ("FOO", "/healthz", "GET, HEAD"),
    ):
        response = http.request(method, path)
        assert problem(response)["type"].endswith("#method-not-allowed")
        assert response.status_code == 405
        assert response.headers["allow"] == allowed
        assert method in response.json()["detail"]


def test_an_unexpected_error_is_500_and_is_logged(
    http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        response = http.get("/broken", headers={"X-Request-ID": "the-broken-one"})
    body = problem(response)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "the-broken-one" in body["detail"]
    assert response.headers["x-request-id"] == "the-broken-one"
    failed = next(record for record in caplog.records if record.exc_info)
    assert "the-broken-one" in failed.getMessage()
    assert "a secret detail" in caplog.text
    # The server keeps running.
    assert http.get("/healthz").status_code == 200


def test_a_path_with_a_line_break_is_logged_in_one_line(
    http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """``%0a`` was decoded, so a client could forge log lines."""
    with caplog.at_level(logging.INFO):
        http.get("/nothing%0aGET%20/forged%c2%85%e2%80%a8")
        http.get("/v1/papers/x%0d%0aGET%20/forged")
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("scholarbase")]
    assert any("GET /nothing%0aGET%20/forged%c2%85%e2%80%a8 404" in message for message in messages)
    assert all(message.isprintable() for message in messages)


def test_a_path_without_raw_path_is_logged_encoded() -> None:
    assert _logged_path({"path": "/a b/100%\n\x85é"}) == "/a%20b/100%25%0A%C2%85%C3%A9"
    assert _logged_path({"path": "/ab", "raw_path": b"/%61b\xff?"}) == "/%61b%FF?"


def test_a_failing_part_is_503(dense_library: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = copied(dense_library, tmp_path / "copy")
    with closing(open_encoder(PACKAGED)) as encoder, running(create_service(encoder)) as service:
        library = Library.open(copy, encoder=HttpEncoder(service, retries=0))
    with library, running(create_app(library)) as url:
        response = httpx.get(f"{url}/search?q=x&mode=dense", headers={"X-Request-ID": "without-encoder"})
        assert (problem(response)["type"].rpartition("#")[2], response.status_code) == ("encoder", 503)
        assert "id=without-encoder" in caplog.text
        response = httpx.get(url.removesuffix("v1") + "readyz")
        assert (problem(response)["type"].rpartition("#")[2], response.status_code) == ("not-ready", 503)
        assert response.json()["detail"].startswith("encoder: ")
        # Requests without the encoder still work.
        assert httpx.get(f"{url}/search?q=theory&mode=sparse").json()["results"]
        catalog = copy / "catalog.sqlite"
        with catalog.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (catalog.stat().st_size - 4096))
        response = httpx.get(f"{url}/papers/{HOLOMORPHIC}")
        assert (problem(response)["type"].rpartition("#")[2], response.status_code) == (
            "library-corrupt",
            503,
        )


# -- no request causes a 500 --------------------------------------------------------------------------------

ODD_TEXTS = (
    "", " ", "\0", "\ud800", '"', '"a', "a AND", "NOT", "title:", "x*", "(((", "the", "é", "null", "NaN", "-0", "cs",
)  # fmt: skip
ODD = st.text(st.characters(), max_size=30) | st.sampled_from(ODD_TEXTS)
NUMBERS = st.integers(-2, 1100) | st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, 10**30, -(10**30)])
IDS = (
    st.sampled_from([HOLOMORPHIC, "hep-th/9302103v1", "CorpusId:1014899", "CorpusId:" + "9" * 18, "10.1/x"])
    | ODD
)
DATES = st.sampled_from(["1993", "1993-02", "1993-02-22", "0000", "9999-12-31", "1993-02-30"]) | ODD
AS_OF = st.sampled_from(["1993", "1993-02", "1900-01", "1993-02-22", "9999-12-31"]) | ODD
FILTERS: dict[str, Any] = {
    "from": DATES,
    "to": DATES,
    "category": st.lists(ODD, max_size=2),
    "venue": st.lists(ODD, max_size=2),
    "min_citations": NUMBERS,
    "status": st.lists(st.sampled_from(["active", "retracted"]) | ODD, max_size=2),
    "exclude": st.lists(ODD, max_size=2),
    "exclude_ids": st.lists(IDS, max_size=2),
    "within": st.lists(IDS, max_size=2),
    "as_of": AS_OF,
}
PAGE: dict[str, Any] = {
    "limit": NUMBERS,
    "offset": NUMBERS,
    "fields": st.lists(st.sampled_from(["title", "id", "x", ""]), max_size=2),
}
SEARCH: dict[str, Any] = {
    "mode": st.sampled_from(["sparse", "dense", "hybrid", "x", ""]),
    "engine": st.sampled_from(["bm25", "fts5", "learned", "x"]),
    "exact": st.booleans() | ODD,
    "explain": st.booleans(),
    "rerank": st.sampled_from(["minilm", ""]) | ODD,
    "rerank_depth": NUMBERS,
    "rerank_weight": NUMBERS,
    "rerank_ms": NUMBERS,
    "partial": st.booleans(),
    **PAGE,
    **FILTERS,
}
BODIES: dict[str, st.SearchStrategy[Any]] = {
    "/v1/search": st.fixed_dictionaries({"q": ODD}, optional=SEARCH),
    "/v1/search/batch": st.fixed_dictionaries(
        {"searches": st.lists(st.fixed_dictionaries({"q": ODD}, optional=SEARCH), max_size=2)}
    ),
    "/v1/title-match/batch": st.fixed_dictionaries(
        {"titles": st.lists(ODD, max_size=2)},
        optional={"min_score": st.floats() | NUMBERS, "as_of": AS_OF, **PAGE},
    ),
    "/v1/papers/batch": st.fixed_dictionaries(
        {"ids": st.lists(IDS, max_size=3)}, optional={"fields": PAGE["fields"], "as_of": AS_OF}
    ),
    "/v1/papers/CorpusId:1014899/similar": st.fixed_dictionaries(
        {}, optional={"exact": st.booleans() | ODD, "explain": st.booleans(), **PAGE, **FILTERS}
    ),
    "/v1/expand": st.fixed_dictionaries(
        {"seeds": st.lists(IDS, max_size=2)},
        optional={"direction": st.sampled_from(["both", "up"]), "hops": NUMBERS, **PAGE, **FILTERS},
    ),
}
URLS: dict[str, st.SearchStrategy[Any]] = {
    "/v1/search": st.fixed_dictionaries({"q": ODD}, optional=SEARCH),
    "/v1/title-match": st.fixed_dictionaries(
        {"title": ODD}, optional={"min_score": st.floats(), "as_of": AS_OF, **PAGE}
    ),
    "/v1/papers/CorpusId:1014899/citations": st.fixed_dictionaries(
        {},
        optional={"sort": st.sampled_from(["date", "x"]), "from": DATES, "to": DATES, "as_of": AS_OF, **PAGE},
    ),
}
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check_response(response: httpx.Response) -> None:
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        problem(response)
    else:
        assert response.json()["snapshot"]


@BOUNDED
@given(st.sampled_from(sorted(BODIES)).flatmap(lambda path: st.tuples(st.just(path), BODIES[path])))
def test_no_body_causes_a_500(http: httpx.Client, call: tuple[str, Any]) -> None:
    path, body = call
    sent = json.dumps(body)  # unlike httpx, sends lone surrogates as escapes, infinities as Infinity
    check_response(http.post(path, content=sent, headers={"content-type": "application/json"}))


@BOUNDED
@given(st.sampled_from(sorted(URLS)).flatmap(lambda path: st.tuples(st.just(path), URLS[path])))
def test_no_url_causes_a_500(http: httpx.Client, call: tuple[str, Any]) -> None:
    path, parameters = call
    encodable = {
        name: [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in value]
        if isinstance(value, list)
        else (value.encode("utf-8", "replace").decode() if isinstance(value, str) else value)
        for name, value in parameters.items()
    }
    check_response(http.get(path, params=encodable))


@BOUNDED
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    | st.sampled_from(["..", "//", "%", "?", "#"])
)
def test_no_paper_id_causes_a_500(http: httpx.Client, name: str) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in name.encode())
    check_response(http.get(f"/v1/papers/{quoted or 'x'}"))
