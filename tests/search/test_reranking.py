"""Searches with a reranker. The expected orders are those of the cross-encoder itself, on the papers' texts."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.responses import Response

from scholarbase.client import Client
from scholarbase.deadlines import DEADLINE
from scholarbase.errors import InvalidRequest, RerankerError, TimeLimit
from scholarbase.models.papers import Paper
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import SearchResponse
from scholarbase.rerankers.base import Scores
from scholarbase.rerankers.http import HttpReranker
from scholarbase.search import reranking
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from tests.conftest import run_cli, serving_in_thread
from tests.rerankers.scripted import ScriptedReranker, Step, running_reranker
from tests.rerankers.tiny_cross_encoder import make_tiny_cross_encoder
from tests.search.test_library import ids

pytestmark = pytest.mark.slow

Q = "quantum field theories of strings and gauge fields"
DEPTH = 30


class Constant:
    """Scores all texts alike."""

    name, fingerprint = "constant", None

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        return np.zeros(len(texts), dtype=np.float32)

    def close(self) -> None: ...


class Varying(Constant):
    """Scores the same texts differently in every call."""

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        return np.array([random.random() for _ in texts], dtype=np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return make_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")


@pytest.fixture(scope="module")
def service() -> Iterator[ScriptedReranker]:
    with running_reranker() as running:
        yield running


@pytest.fixture(scope="module")
def path(dense_library: Path) -> Path:
    """150 papers with vectors of the encoder in the package."""
    return dense_library


@pytest.fixture(scope="module")
def library(path: Path, model: Path, service: ScriptedReranker) -> Iterator[Library]:
    rerankers: dict[str, Any] = {
        "tiny": str(model),
        "service": HttpReranker(service.url, retries=0),
        "constant": Constant(),
        "varying": Varying(),
    }
    settings = Settings(device="cpu", similarity_floor=False)
    with Library.open(path, rerankers=rerankers, settings=settings) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _reset(service: ScriptedReranker, library: Library) -> None:
    service.reset()
    library.forget_queries()


def scores(response: SearchResponse) -> list[float]:
    return [hit.score for hit in response.results]


def text_of(paper: Paper) -> str:
    return f"{paper.title}\n{paper.abstract}" if paper.abstract else str(paper.title)


def expected(model: Path, response: SearchResponse, depth: int) -> dict[str, float]:
    """The ids and scores of the first papers, in the order of sentence-transformers."""
    from sentence_transformers import CrossEncoder

    papers = [hit.paper for hit in response.results[:depth]]
    pairs = [(Q, text_of(paper)) for paper in papers]
    found = CrossEncoder(str(model), device="cpu").predict(pairs, show_progress_bar=False)
    assert len(set(found.tolist())) == len(papers)
    order = sorted(range(len(papers)), key=lambda place: -found[place])
    return {papers[place].id: float(found[place]) for place in order}


@pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
def test_the_first_papers_have_the_order_of_the_cross_encoder(
    library: Library, model: Path, mode: Any
) -> None:
    before = library.search(Q, mode=mode, limit=100)
    assert len(before.results) > DEPTH + 20
    assert before.rerank is None
    assert "rerank" not in before.to_dict()
    order = expected(model, before, DEPTH)
    after = library.search(Q, mode=mode, limit=100, rerank="tiny", rerank_depth=DEPTH, explain=True)
    assert ids(after) == [*order, *ids(before)[DEPTH:]]
    assert ids(after) != ids(before)
    assert (after.rerank, after.to_dict()["rerank"]) == ("tiny", "tiny")
    assert (after.total, after.next_offset) == (before.total, before.next_offset)
    # A score belongs to its place.
    assert scores(after) == scores(before)
    for place, hit in enumerate(after.results):
        *_, leg = hit.explain or ()
        assert (leg.leg == "rerank") is (place < DEPTH)
        assert sum(one.share for one in hit.explain or ()) == pytest.approx(hit.score)
        if place < DEPTH:
            assert leg.rank == place + 1
            assert leg.score == pytest.approx(order[hit.paper.id], abs=1e-5)


@pytest.mark.parametrize("name", ["tiny", "varying"])
@pytest.mark.parametrize("mode", ["sparse", "hybrid"])
def test_pages_are_those_of_one_list(library: Library, mode: Any, name: str) -> None:
    whole = library.search(Q, mode=mode, limit=70, rerank=name, rerank_depth=DEPTH)
    pages = [
        library.search(Q, mode=mode, limit=7, offset=offset, rerank=name, rerank_depth=DEPTH)
        for offset in range(0, 70, 7)
    ]
    assert [paper for page in pages for paper in ids(page)] == ids(whole)
    assert [score for page in pages for score in scores(page)] == scores(whole)
    # Places 28 and 29 are on the fifth page; those behind need no reranker.
    assert [page.rerank for page in pages] == [name] * 5 + [None] * 5
    through = library.iter_search(Q, mode=mode, limit=70, rerank=name, rerank_depth=DEPTH)
    assert [hit.paper.id for hit in through] == ids(whole)


def test_a_page_behind_does_not_use_the_reranker(library: Library, service: ScriptedReranker) -> None:
    page = library.search(Q, mode="sparse", limit=5, offset=DEPTH, rerank="service", rerank_depth=DEPTH)
    assert service.bodies == []
    assert ids(page) == ids(library.search(Q, mode="sparse", limit=5, offset=DEPTH))


def test_a_known_item_stays_first(library: Library) -> None:
    [*_, last] = library.search(Q, mode="sparse", limit=20).results
    title = last.paper.title
    assert title is not None
    before = library.search(title, limit=40)
    after = library.search(title, limit=40, rerank="service", rerank_depth=20, explain=True)
    assert ids(after)[0] == ids(before)[0] == last.paper.id
    assert scores(after) == scores(before)
    assert ids(after)[20:] == ids(before)[20:]
    legs = [leg.leg for leg in after.results[0].explain or ()]
    assert legs[0] == "title"
    assert "rerank" not in legs
    # The service prefers long texts.
    lengths = [len(text_of(hit.paper)) for hit in after.results[1:20]]
    assert lengths == sorted(lengths, reverse=True)


def test_query_syntax_is_reranked_by_its_words(library: Library, service: ScriptedReranker) -> None:
    library.search("title:quantum OR (string AND theory)", rerank="service")
    assert {body["query"] for body in service.bodies} == {"quantum string theory"}


# -- failures ------------------------------------------------------------------------------------------


def test_a_reranker_that_fails_is_an_error_or_named(library: Library, service: ScriptedReranker) -> None:
    service.most = 0
    with pytest.raises(RerankerError, match="returned 413"):
        library.search(Q, mode="sparse", rerank="service")
    before = library.search(Q, mode="sparse", explain=True)
    response = library.search(Q, mode="sparse", rerank="service", partial=True, explain=True)
    assert response.results == before.results
    assert response.rerank is None
    [failed] = response.failed_legs
    assert failed.leg == "rerank"
    assert failed.detail == (
        "The reranker 'service' failed. The reranking service returned 413: it rejects a single text as too large, so "
        "use a model for longer texts."
    )


class Wrong(Constant):
    """Returns what ``scores`` makes of the texts."""

    def __init__(self, scores: Callable[[Sequence[str]], Any]) -> None:
        self._scores = scores

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        scores: Scores = self._scores(texts)
        return scores


def _ends_the_process(texts: Sequence[str]) -> Any:
    raise SystemExit(3)


def _grows(texts: Sequence[str]) -> Any:
    texts.append("more")  # type: ignore[attr-defined]
    return np.zeros(len(texts))


WRONG: dict[str, tuple[Callable[[Sequence[str]], Any], str]] = {
    "few": (
        lambda texts: np.zeros(len(texts) - 1),
        r"returned scores of the shape \(\d+,\) for \d+ texts: mend it",
    ),
    "many": (lambda texts: np.zeros(len(texts) + 1), "returned scores of the shape"),
    "table": (lambda texts: np.zeros((len(texts), 1)), "returned scores of the shape"),
    "nan": (lambda texts: np.full(len(texts), np.nan), "returned the score nan for text 1 of"),
    "inf": (lambda texts: np.full(len(texts), np.inf), "returned the score inf for text 1 of"),
    "large": (lambda texts: [1e300] * len(texts), "returned the score inf for text 1 of"),
    "none": (lambda texts: None, "returned scores of the shape"),
    "words": (list, r"failed to score \d+ texts \(ValueError: "),
    "key": (lambda texts: {}[0], r"failed to score \d+ texts \(KeyError: 0\): mend it"),
    "exit": (_ends_the_process, r"failed to score \d+ texts \(SystemExit: 3\): mend it"),
    "grows": (_grows, "returned scores of the shape"),
}


def test_what_a_reranker_returns_is_checked(path: Path) -> None:
    rerankers: dict[str, Any] = {name: Wrong(scores) for name, (scores, _) in WRONG.items()}
    settings = Settings(device="cpu", similarity_floor=False)
    with Library.open(path, rerankers=rerankers, settings=settings) as library:
        before = library.search(Q)
        options: list[dict[str, Any]] = [{}, {"rerank_ms": 1}, {"rerank_weight": 0.5}]
        for (name, (_, message)), some in product(WRONG.items(), options):
            with pytest.raises(RerankerError, match=f"^The reranker '{name}' {message}"):
                library.search(Q, rerank=name, **some)
            partial = library.search(Q, rerank=name, partial=True, **some)
            assert (ids(partial), partial.rerank) == (ids(before), None)
            [failed] = partial.failed_legs
            assert failed.leg == "rerank"
            assert "KeyError" not in failed.detail
            assert f"The reranker '{name}' " in failed.detail


def test_a_slow_reranker_ends_at_the_time_limit(
    library: Library, service: ScriptedReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.released.clear()
    with pytest.raises(TimeLimit, match="was stopped at the time limit of 1 s"):
        library.search(Q, mode="sparse", rerank="service", timeout=1)
    monkeypatch.setattr(reranking, "_limit", lambda: 0.5)  # the rest of 600 s is for the response
    response = library.search(Q, mode="sparse", rerank="service", partial=True, timeout=600)
    assert response.rerank is None
    assert len(response.results) == 10
    [failed] = response.failed_legs
    assert (failed.leg, failed.detail) == (
        "rerank",
        "Reranking was stopped at the time limit of 0.5 s: use a smaller rerank_depth, or leave rerank out.",
    )


def test_what_is_named_while_a_reranker_runs(path: Path) -> None:
    running = []

    def score(texts: Sequence[str]) -> Any:
        deadline = DEADLINE.get()
        assert deadline is not None
        running.append(deadline.running[0])  # what a server names that does not wait any longer
        return np.zeros(len(texts))

    with Library.open(path, encoder="none", rerankers={"slow": Wrong(score)}) as library:
        library.search(Q, mode="sparse", rerank="slow", timeout=600)
    assert running == ["Reranking"]


def test_clients_saw_the_address_and_the_response_of_a_reranking_service(
    library: Library, service: ScriptedReranker, caplog: pytest.LogCaptureFixture
) -> None:
    address = service.url.removeprefix("http://")
    call = {"name": "search_papers", "arguments": {"query": Q, "rerank": "service"}}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    steps: list[Step] = [lambda _: Response("inner-secret", 400), lambda _: Response("inner-secret")]
    with serving_in_thread(library, sessions="none") as url:
        for step in steps:
            for partial in ("false", "true"):
                service.script = [step]
                asked = {"q": Q, "rerank": "service", "partial": partial}
                failed = httpx.get(f"{url}/v1/search", params=asked, timeout=120)
                assert "The reranker 'service' failed. The reranking service " in failed.text
                assert address not in failed.text
                assert "inner-secret" not in failed.text
            service.script = [step]
            accept = {"Accept": "application/json, text/event-stream"}
            failed = httpx.post(f"{url}/mcp", json=rpc, headers=accept, timeout=120)
            assert address not in failed.text
            assert "inner-secret" not in failed.text
    assert address in caplog.text
    assert "inner-secret" in caplog.text


def test_a_reranker_that_cannot_be_opened_ends_the_opening(path: Path, model: Path) -> None:
    closed: list[str] = []

    class Closing(Constant):
        def close(self) -> None:
            closed.append(self.name)

    rerankers: dict[str, Any] = {"first": Closing(), "second": "/nowhere"}
    with pytest.raises(
        RerankerError, match=r"The reranker 'second' cannot be opened\. The model path /nowhere"
    ):
        Library.open(path, encoder="none", rerankers=rerankers)
    assert closed == ["constant"]
    wrong: list[tuple[str, Any, str]] = [
        ("weight", -1, "is -1: mend it, so that it is a number from 0 to 1"),
        ("weight", float("nan"), "is nan"),
        ("weight", "0.5", "is '0.5'"),
        ("name", None, "is None: mend it, so that it is a text"),
        ("close", None, "is None: mend it, so that it is a function"),
    ]
    for part, value, message in wrong:
        second = Constant()
        setattr(second, part, value)
        with pytest.raises(RerankerError, match=rf"'second' cannot be used\. Its {part} {message}"):
            Library.open(path, encoder="none", rerankers={"first": Closing(), "second": second})
    assert closed == ["constant"] * 6
    Library.open(path, encoder="none", rerankers={"first": Closing()}).close()
    assert closed == ["constant"] * 7


# -- over HTTP, in commands and in evaluations -----------------------------------------------------------


def test_over_http(library: Library, service: ScriptedReranker) -> None:
    request = SearchRequest(q=Q, rerank="tiny", rerank_depth=DEPTH, limit=40, explain=True)
    here = library.run(request)
    with serving_in_thread(library, sessions="none") as url, Client(url) as client:
        assert client.run(request) == here
        assert client.search_batch([request, {"q": Q, "mode": "sparse"}])[0] == here
        few = client.search(Q, rerank="tiny", fields=["title"])
        assert few.rerank == "tiny"
        assert client.snapshot() == library.snapshot()
        response = httpx.get(f"{url}/v1/search", params={"q": Q, "rerank": "service"}, timeout=120)
        assert ", rerank;dur=" in response.headers["Server-Timing"]
        wrong = httpx.get(f"{url}/v1/search", params={"q": Q, "rerank": "other"}, timeout=120)
        assert (wrong.status_code, wrong.json()["detail"]) == (
            400,
            "Unknown reranker 'other': use one of tiny, service, constant, varying.",
        )
        service.most = 0
        library.forget_queries()
        failed = httpx.get(f"{url}/v1/search", params={"q": Q, "rerank": "service"}, timeout=120)
        assert failed.status_code == 503
        assert failed.json()["type"].endswith("#reranker")
        partial = httpx.get(
            f"{url}/v1/search", params={"q": Q, "rerank": "service", "partial": "true"}, timeout=120
        )
        assert [leg["leg"] for leg in partial.json()["failed_legs"]] == ["rerank"]


def test_doctor_opens_the_rerankers(path: Path, model: Path) -> None:
    found = run_cli("doctor", "--library", path, SCHOLARBASE_RERANKERS=f"tiny={model}")
    assert "ok       rerankers    tiny (tiny-cross-encoder)" in found.stdout
    failed = run_cli("doctor", "--library", path, SCHOLARBASE_RERANKERS="tiny=/nowhere")
    assert "failed   rerankers    The reranker 'tiny' cannot be opened." in failed.stdout


@pytest.mark.whole
def test_a_run_records_its_reranker(path: Path, library: Library, tmp_path: Path) -> None:
    from scholarbase_research.evaluation.requests import SearchSettings
    from scholarbase_research.evaluation.run_data import JudgedQuery
    from tests.extensions.research.evaluation.test_searching import SAMPLE_QUERIES
    from tests.extensions.research.evaluation.test_searching import search as evaluate

    settings = SearchSettings(mode="sparse", limit=60, rerank="tiny", rerank_depth=DEPTH)
    judged = [JudgedQuery(query.id, query.text, ()) for query in SAMPLE_QUERIES.queries]
    run = evaluate(library, tmp_path / "run", settings, judged=judged)
    query = judged[0]
    found = library.search(
        query.text, syntax="plain", mode="sparse", limit=60, rerank="tiny", rerank_depth=DEPTH
    )
    assert [result.id for result in run.rankings[query.id]] == ids(found)
    assert run.manifest.search is not None
    assert (run.manifest.search["rerank"], run.manifest.search["rerank_depth"]) == ("tiny", DEPTH)
    reranker = run.manifest.search["reranker"]
    assert (reranker["name"], len(reranker["fingerprint"])) == ("tiny-cross-encoder", 32)
    plain = evaluate(library, tmp_path / "plain", SearchSettings(mode="sparse", limit=60), judged=judged)
    assert plain.manifest.search is not None
    assert not {"rerank", "rerank_depth", "reranker"} & plain.manifest.search.keys()
    assert plain.manifest.identity != run.manifest.identity
    with pytest.raises(InvalidRequest, match="Unknown reranker 'other'"):
        evaluate(library, tmp_path / "other", SearchSettings(mode="sparse", rerank="other"), judged=judged)
    own = Settings(device="cpu", similarity_floor=False, rerank_ms=1)
    with Library.open(path, rerankers={"constant": Constant()}, settings=own) as other:
        budget = SearchSettings(limit=20, rerank="constant", rerank_ms=9000)
        search = evaluate(other, tmp_path / "budget", budget, judged=judged).manifest.search
        assert search is not None
        assert search["rerank_ms"] == 9000


# -- a time budget ---------------------------------------------------------------------------------------


class Slow(Constant):
    """Takes 50 ms for each text, and prefers the last ones."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.scored = 0

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        sleep(0.05 * len(texts))
        self.batches.append(len(texts))
        self.scored += len(texts)
        return np.arange(self.scored - len(texts), self.scored, dtype=np.float32)


def test_papers_for_which_the_time_is_not_enough_keep_their_order(path: Path) -> None:
    slow = Slow()
    settings = Settings(device="cpu", similarity_floor=False)
    with Library.open(path, rerankers={"slow": slow, "tiny": Constant()}, settings=settings) as library:
        before = library.search(Q, limit=60)
        after = library.search(Q, limit=60, rerank="slow", rerank_depth=DEPTH, rerank_ms=1190, explain=True)
        # A batch of 8 takes 400 ms: two fit, and a third would end after the budget.
        assert (slow.batches, after.reranked, after.to_dict()["reranked"]) == ([8, 8], 16, 16)
        assert ids(after) == [*reversed(ids(before)[:16]), *ids(before)[16:]]
        assert scores(after) == scores(before)
        legs = [[leg.leg for leg in hit.explain or ()] for hit in after.results]
        assert [own[-1] == "rerank" for own in legs] == [True] * 16 + [False] * 44
        # Other pages are of the same list, without another call.
        page = library.search(Q, limit=5, offset=20, rerank="slow", rerank_depth=DEPTH, rerank_ms=1190)
        assert (ids(page), page.reranked, len(slow.batches)) == (ids(before)[20:25], None, 2)
        assert page.rerank is None  # none of its papers has a score
        page = library.search(Q, limit=5, offset=14, rerank="slow", rerank_depth=DEPTH, rerank_ms=1190)
        assert (ids(page), page.reranked, len(slow.batches)) == (ids(after)[14:19], 16, 2)
        least = library.search(Q, rerank="slow", rerank_ms=1)
        assert least.reranked == 8
        whole = library.search(Q, rerank="tiny", rerank_depth=DEPTH, rerank_ms=60_000)
        assert (whole.reranked, ids(whole)) == (DEPTH, ids(before)[:10])
        assert library.search(Q, rerank="tiny", rerank_depth=DEPTH).reranked == DEPTH
        assert before.reranked is None
        assert "reranked" not in before.to_dict()


@pytest.mark.parametrize("budget", [{}, {"rerank_ms": 1}, {"rerank_ms": 60_000}], ids=str)
def test_a_batch_that_takes_longer_than_the_time_limit_is_not_waited_for(
    path: Path, budget: dict[str, int]
) -> None:
    slow = Slow()
    settings = Settings(device="cpu", similarity_floor=False)
    with Library.open(path, rerankers={"slow": slow}, settings=settings) as library:
        before = library.search(Q)
        with serving_in_thread(library, sessions="none") as url, Client(url) as client:
            # The first batch takes 0.4 s in a budget, and 2.5 s without.
            partial = client.search(Q, rerank="slow", timeout=0.6, partial=True, **budget)
            assert (ids(partial), partial.rerank) == (ids(before), None)
            assert [leg.leg for leg in partial.failed_legs] == ["rerank"]
            if budget:
                whole = client.search(Q, rerank="slow", timeout=0.6, **budget)
                assert (ids(whole), whole.rerank, whole.failed_legs) == (ids(before), None, ())
            else:
                with pytest.raises(TimeLimit):
                    client.search(Q, rerank="slow", timeout=0.6)
        if budget == {"rerank_ms": 60_000}:
            # Two of seven batches end in time.
            few = library.search(Q, rerank="slow", timeout=2, **budget)
            assert few.reranked in (8, 16)


def test_the_setting_is_a_budget_for_requests_without_one(path: Path) -> None:
    settings = Settings(device="cpu", similarity_floor=False, rerank_ms=1)
    with Library.open(path, rerankers={"slow": Slow(), "constant": Constant()}, settings=settings) as library:
        assert library.search(Q, rerank="slow").reranked == 8
        assert library.search(Q, rerank="constant", rerank_ms=60_000).reranked == 50
        assert library.snapshot()["ranking"]["rerank_ms"] == 1


def test_a_response_within_a_budget_has_no_entity_tag(library: Library) -> None:
    with serving_in_thread(library, sessions="none") as url:
        for budget, has_tag in (({}, True), ({"rerank_ms": 5000}, False)):
            parameters = {"q": Q, "rerank": "constant", **budget}
            response = httpx.get(f"{url}/v1/search", params=parameters, timeout=120)
            assert response.json()["reranked"] == 50
            assert ("ETag" in response.headers) is has_tag
        text = httpx.get(f"{url}/v1/search", params={**parameters, "format": "text"}, timeout=120).text
        assert "first 50 reranked by constant" in text
    with pytest.raises(InvalidRequest, match="rerank_ms 10 has no effect without rerank"):
        SearchRequest(q=Q, rerank_ms=10)
