"""Sources of candidates: recorded files, services over HTTP, and how results are matched to the library."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import ConstructionError, InvalidRequest, UnsupportedMode
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_research.construction.job import Setup, construct_answers
from scholarbase_research.construction.services import SearchService, open_service
from scholarbase_research.construction.sources import (
    LibrarySource,
    RecordedSource,
    Returned,
    matched,
    open_library_sources,
)
from tests.conftest import serving_in_thread
from tests.extensions.research.construction.toy import QUESTION, toy_id, toy_library, toy_queries, toy_setup
from tests.extensions.research.llm.model_server import Reply, in_order, model_server


def recorded(path: Path, *rows: Any) -> RecordedSource:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RecordedSource(path)


def test_results_are_matched_by_id_then_by_title(toy: Library) -> None:
    results = [
        Returned("https://arxiv.org/abs/2401.00001v2", "Another title"),
        Returned(None, "Alpha Beta Gamma: Partial"),
        Returned("2401.99999", "alpha citing number7"),
        Returned("https://example.org/a-page", "No such paper at all"),
        Returned("2401.99998", None),
    ]
    assert matched(toy, results) == [
        (toy_id("S1"), "id"),
        (toy_id("P1"), "title"),
        (toy_id("C07"), "title"),
        (None, "none"),
        (None, "none"),
    ]
    # All papers are of 2020.
    assert matched(toy, results[:1], "2019-06") == [(None, "later")]
    assert matched(toy, results[:1], "2020") == [(toy_id("S1"), "id")]


def test_a_recorded_file_that_changed_gave_the_old_results(toy: Library, tmp_path: Path) -> None:
    def construct(paper: str) -> None:
        source = recorded(tmp_path / "rec.jsonl", {"query": QUESTION, "results": [{"id": toy_id(paper)}]})
        setup = toy_setup(toy, hops=0)
        both = Setup([source], setup.rewriter, setup.panel, setup.limits)
        construct_answers(toy, toy_queries(), tmp_path / "out", both)

    construct("S1")
    construct("S1")
    with pytest.raises(ConstructionError, match="of another construction: its recorded is"):
        construct("H1")


def test_recorded_results_in_a_construction(toy: Library, tmp_path: Path) -> None:
    source = recorded(
        tmp_path / "google.jsonl",
        {"query": QUESTION.upper(), "results": [{"title": "gamma behind strict"}, {"id": "1234.56789"}]},
    )
    setup = toy_setup(toy, rewrites=1, hops=0)
    both = Setup([*setup.sources, source], setup.rewriter, setup.panel, setup.limits)
    pool = construct_answers(toy, toy_queries(), tmp_path / "out", both)["pool"]
    assert pool["searches_missing"] == 1  # the rewrite was not recorded
    assert pool["results"] == {"count": 6, "by_id": 4, "by_title": 1, "not_held": 1, "later": 0}
    by_source = {row["name"]: (row["found"], row["only"]) for row in pool["by_source"]}
    assert by_source["recorded:google"] == (1, 1)  # X, which no search for the question finds among two


@pytest.mark.parametrize(
    "row",
    [{"query": "a"}, {"query": "a", "results": [{"link": " "}]}, {"query": "a", "results": ["x"]}, [1], 7],
)
def test_wrong_recorded_results_are_refused(tmp_path: Path, row: Any) -> None:
    with pytest.raises(Exception, match="line 1") as caught:
        recorded(tmp_path / "wrong.jsonl", row)
    assert type(caught.value).__name__ in ("ConstructionError", "QueryFileError")


def test_the_modes_of_a_library_are_sources(toy: Library, tmp_path: Path) -> None:
    assert [one.name for one in open_library_sources(toy, "library")] == ["library:sparse"]
    with Library.open(toy_library(tmp_path, encoder=True)) as dense:
        names = {one.name for one in open_library_sources(dense, "library")}
    assert names == {"library:sparse", "library:dense", "library:hybrid"}
    assert [one.name for one in open_library_sources(toy, "library:sparse:fts5")] == ["library:sparse:fts5"]
    with pytest.raises(UnsupportedMode):
        open_library_sources(toy, "library:dense")
    with pytest.raises(InvalidRequest, match="--source library:best: use library"):
        open_library_sources(toy, "library:best")


@pytest.mark.parametrize(
    ("kind", "path"),
    [("serper", "/serper/search"), ("semantic-scholar", "/graph/v1"), ("arxiv", "/api/query")],
)
def test_each_service_finds_the_papers_of_the_library(sample: Library, kind: str, path: str) -> None:
    wanted = LibrarySource(sample, "sparse").search("conformal field theory", 5, None)[0].paper
    with serving_in_thread(sample) as url:
        service = SearchService(kind, url + path)
        results = service.search("conformal field theory", 5, None)
        service.close()
    assert 1 <= len(results) <= 5
    found = matched(sample, results)
    assert {how for _, how in found} <= {"id", "title"}
    if kind != "arxiv":  # arXiv ranks in another way
        assert wanted in [paper for paper, _ in found]


@pytest.mark.parametrize("kind", ["serper", "semantic-scholar", "arxiv"])
def test_a_service_that_fails_is_no_empty_list(kind: str) -> None:
    def search(script: Callable[[dict[str, Any]], Reply]) -> list[Returned]:
        with model_server(script) as server:
            service = SearchService(kind, server.url.partition("#")[0], "key", backoff=0.01)
            try:
                return service.search("strings", 5, None)
            finally:
                service.close()

    with pytest.raises(ConstructionError, match=r"returned 50\d|does not respond"):
        search(in_order(Reply(status=500, body=b"")))
    if kind == "serper":  # the scripted server answers POST
        with pytest.raises(ConstructionError, match="something else than results"):
            search(in_order(Reply(body=b"<html>")))
        with pytest.raises(ConstructionError, match=r"returned 403.*SCHOLARBASE_SERPER_API_KEY"):
            search(in_order(Reply(status=403, body=b"")))
        found = Reply(body=b'{"organic": [{"link": "https://arxiv.org/abs/hep-th/9301068", "title": "T"}]}')
        assert search(in_order(Reply(status=429, body=b""), found)) == [
            Returned("https://arxiv.org/abs/hep-th/9301068", "T")
        ]


ATOM = '<feed xmlns="http://www.w3.org/2005/Atom">{}</feed>'
# https://info.arxiv.org/help/api/user-manual.html#34-errors
ARXIV_ERROR = ATOM.format(
    "<entry><id>http://arxiv.org/api/errors#incorrect_id_format_for_1234.12345</id><title>Error</title>"
    "<summary>incorrect id format for 1234.12345</summary></entry>"
)
UNAUTHORIZED = '{"message": "Unauthorized."}'


@contextmanager
def answering(body: str) -> Iterator[str]:
    """A server that answers every request with status 200 and this body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("serper", UNAUTHORIZED, "no list of objects 'organic' in .*Unauthorized"),
        ("serper", '{"organic": null}', "no list of objects 'organic'"),
        ("serper", '{"organic": ["x"]}', "no list of objects 'organic'"),
        ("serper", "[]", "no list of objects 'organic'"),
        ("serper", '{"organic": [{"link": 5, "title": ["x"]}]}', "link is 5, not a text"),
        ("serper", '{"organic": [{"position": 1}]}', "a result without id and title"),
        ("semantic-scholar", UNAUTHORIZED, "no list of objects 'data' in .*Unauthorized"),
        ("semantic-scholar", '{"total": 3, "offset": 0}', "no list of objects 'data'"),
        ("semantic-scholar", '{"data": [{"title": "T", "externalIds": [1]}]}', "externalIds is"),
        ("semantic-scholar", '{"data": [{"title": "T", "externalIds": {"DOI": ["x"]}}]}', "DOI is"),
        ("semantic-scholar", '{"data": [{"title": 7}]}', "title is 7, not a text"),
        ("arxiv", ARXIV_ERROR, "the error 'incorrect id format for 1234.12345'"),
        ("arxiv", "<html><body>Rate exceeded.</body></html>", "not an Atom feed"),
        ("arxiv", ATOM.format("<entry/>"), "a result without id and title"),
    ],
)
def test_an_error_with_status_200_is_no_empty_list(kind: str, body: str, message: str) -> None:
    with answering(body) as url:
        service = SearchService(kind, url)
        with pytest.raises(ConstructionError, match=f"something else than results .*{message}"):
            service.search("strings", 5, None)
        service.close()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("serper", '{"organic": []}'),
        ("semantic-scholar", '{"total": 0, "offset": 0}'),
        ("semantic-scholar", '{"data": []}'),
        ("arxiv", ATOM.format("")),
    ],
)
def test_a_service_without_results_gives_an_empty_list(kind: str, body: str) -> None:
    with answering(body) as url:
        service = SearchService(kind, url)
        assert service.search("strings", 5, None) == []
        service.close()


def test_a_key_is_sent_to_its_own_service_only() -> None:
    settings = load_settings(s2_api_key="s2-key", serper_api_key="serper-key")
    for kind, url, header in (
        ("serper", "https://google.serper.dev/search", "serper-key"),
        ("semantic-scholar", "https://api.semanticscholar.org/graph/v1", "s2-key"),
        ("semantic-scholar", "https://example.org/graph/v1", None),
        ("arxiv", "https://export.arxiv.org/api/query", None),
    ):
        service = open_service(kind, url, settings)
        assert service._service._http.headers.get("x-api-key") == header
        service.close()
    with pytest.raises(InvalidRequest, match="Unknown source 'bing'"):
        open_service("bing", "https://example.org", settings)
    with pytest.raises(InvalidRequest, match="has no valid URL"):
        open_service("serper", "example.org", settings)
