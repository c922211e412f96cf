"""Times of stages: in a header of every response, in the log of slow requests, and as OpenTelemetry traces."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from scholarbase.api.middleware import _totals
from scholarbase.client import Client
from scholarbase.search.library import Library
from tests.conftest import serving_in_thread

PAPER = "arXiv:hep-th/9301068"


def stages(response: httpx.Response) -> dict[str, float]:
    """Milliseconds by stage."""
    header = response.headers["server-timing"]
    assert re.fullmatch(r"(\w+;dur=\d+\.\d\d, )*total;dur=\d+\.\d\d", header)
    return {name: float(value) for name, value in (part.split(";dur=") for part in header.split(", "))}


def test_every_response_has_the_times_of_its_stages(server: str) -> None:
    with httpx.Client(base_url=server) as http:
        assert list(stages(http.get("/v1/search?q=string+theory"))) == ["bm25", "hydrate", "total"]
        assert list(stages(http.get("/v1/search?q=string+theory&engine=fts5&category=hep-th"))) == [
            *("queue", "filters", "fts5", "hydrate", "total")
        ]
        assert list(stages(http.get(f"/v1/papers/{PAPER}"))) == ["hydrate", "total"]
        assert list(stages(http.get(f"/v1/papers/{PAPER}/citations")))[-2:] == ["citations", "total"]
        assert list(stages(http.get("/v1/title-match?title=QCD"))) == ["titles", "hydrate", "total"]
        similar = list(stages(http.get(f"/v1/papers/{PAPER}/similar")))
        assert similar == ["queue", "filters", "dense", "cocitation", "graph", "fusion", "hydrate", "total"]
        expanded = stages(http.post("/v1/expand", json={"seeds": [PAPER]}))
        assert list(expanded) == ["queue", "filters", "expand", "hydrate", "total"]
        assert sum(expanded.values()) - expanded["total"] <= expanded["total"] + 0.05
        for path, status in (("/nowhere", 404), ("/v1/search", 400), ("/healthz", 200), ("/docs", 200)):
            response = http.get(path)
            assert response.status_code == status
            assert list(stages(response)) == ["total"]


def test_a_hybrid_search_has_the_encoder_both_legs_and_the_fusion(dense: Library) -> None:
    with serving_in_thread(dense) as url:
        searched = stages(httpx.get(f"{url}/v1/search?q=gauge+theories+and+their+strings"))
    assert set(searched) == {"queue", "encode", "feedback", "dense", "fusion", "hydrate", "total"}
    assert all(milliseconds <= searched["total"] + 0.05 for milliseconds in searched.values())


def test_stages_of_a_batch_are_added_up() -> None:
    recorded = [("bm25", 3.0, 3.5), ("encode", 1.0, 3.0), ("bm25", 4.0, 4.25)]
    assert _totals(recorded) == {"encode": 2.0, "bm25": 0.75}


def test_requests_over_the_limit_are_logged_with_their_stages(
    sample: Library, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_in_thread(sample, slow_ms=3_600_000) as url:
        httpx.get(f"{url}/v1/search?q=strings")
    assert "slow:" not in caplog.text
    with serving_in_thread(sample, slow_ms=0) as url:
        httpx.get(f"{url}/v1/search", params={"q": "strings\n", "engine": "fts5", "fields": "title"})
        httpx.get(f"{url}/healthz")
    [line] = [line for line in caplog.text.splitlines() if "slow: GET /v1/search" in line]
    assert "slow: GET /v1/search?q=strings%0A&engine=fts5&fields=title " in line
    assert re.search(r"ms \(queue [\d.]+, fts5 [\d.]+, hydrate [\d.]+\) id=[0-9a-f]{32}$", line.strip())


# -- OpenTelemetry --------------------------------------------------------------------------------------


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A collector of OTLP over HTTP: its address, and the bodies that it receives."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}", received
        finally:
            http.shutdown()
            thread.join()


@pytest.mark.slow
def test_each_request_is_a_trace_with_a_span_for_each_stage(
    sample: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with collector() as (url, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with serving_in_thread(sample, tracing=True) as address, Client(address) as client:
            headers = {"traceparent": f"00-{trace}-{parent}-01", "X-Request-ID": "mine"}
            httpx.get(f"{address}/v1/search?q=strings&engine=fts5", headers=headers)
            client.paper(PAPER)
    spans = [
        span
        for body in received
        for resource in trace_service.ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    [search] = [span for span in spans if span.name == "GET /v1/search"]
    assert search.trace_id.hex() == trace
    assert search.parent_span_id.hex() == parent
    attributes = {one.key: one.value for one in search.attributes}
    assert attributes["http.response.status_code"].int_value == 200
    assert attributes["scholarbase.request_id"].string_value == "mine"
    below = [span for span in spans if span.parent_span_id == search.span_id]
    assert [span.name for span in below] == ["queue", "fts5", "hydrate"]
    for span in below:
        assert search.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    assert any(span.name == "GET /v1/papers/{paper_id:path}" for span in spans)


def test_tracing_without_its_extra_is_an_error(sample: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    from scholarbase.api.app import create_app
    from scholarbase.errors import MissingExtra
    from scholarbase.extras import PACKAGES
    from scholarbase.settings import load_settings

    monkeypatch.setitem(PACKAGES, "tracing", ("no_such_package",))
    assert PACKAGES["tracing"] == ("no_such_package",)
    with pytest.raises(
        MissingExtra, match=r'SCHOLARBASE_TRACING needs .*: run pip install "scholarbase\[tracing\]"'
    ):
        create_app(sample, settings=load_settings(tracing=True))


def test_a_leg_that_fails_has_a_time(dense: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    from scholarbase.errors import VectorIndexError

    def fail(*_: object, **__: object) -> None:
        raise VectorIndexError("the index fails")

    monkeypatch.setattr(dense._vectors, "search_dense", fail)
    with serving_in_thread(dense) as url:
        failed = httpx.get(f"{url}/v1/search?q=gauge+theories&mode=dense")
        assert failed.status_code == 503
        assert {"encode", "dense"} <= set(stages(failed))
