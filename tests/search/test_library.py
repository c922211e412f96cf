"""A library, asked as its users ask it. Expected values come from the sample's raw records, or from asking the
same thing another way."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from scholarbase.encoders import open_encoder
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryNotFound,
    PaperNotFound,
    ScholarBaseError,
    TimeLimit,
    UnsupportedMode,
)
from scholarbase.markup import plain
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.requests import SearchBatchBody, SearchRequest, TitleBatchBody
from scholarbase.models.responses import SearchResponse
from scholarbase.search import legs, plan, ranking
from scholarbase.search.library import Library
from scholarbase.settings import Settings, load_settings
from tests.conftest import arxiv_rows, sample_edges, sample_rows
from tests.libraries import copied, relist

HOLOMORPHIC = "arXiv:hep-th/9302103"
WAYS: list[dict[str, Any]] = [
    {"mode": "sparse", "engine": "bm25"},
    {"mode": "sparse", "engine": "fts5"},
    {"mode": "dense"},
    {"mode": "dense", "exact": True},
    {"mode": "hybrid"},
    {"mode": "hybrid", "engine": "fts5"},
    {"mode": "hybrid", "exact": True},
]


def ids(answer: SearchResponse) -> list[str]:
    return [hit.paper.id for hit in answer.results]


# -- paging, totals, order ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_pages_put_together_are_one_long_page(dense: Library, way: dict[str, Any]) -> None:
    """Scores fall, and ties go by the id in the catalogue."""
    with closing(sqlite3.connect(dense.path / "catalog.sqlite")) as db:
        numbers = {f"arXiv:{name}": number for name, number in db.execute("SELECT arxiv_id, id FROM papers")}
    whole = dense.search("gauge theory", limit=1000, fields=["id"], **way)
    assert whole.next_offset is None
    order = [(-hit.score, numbers[hit.paper.id]) for hit in whole.results]
    assert order == sorted(order)
    pages = []
    offset: int | None = 0
    while offset is not None:
        page = dense.search("gauge theory", limit=30, offset=offset, fields=["id"], **way)
        assert (page.total, page.total_relation) == (whole.total, whole.total_relation)
        pages += page.results
        offset = page.next_offset
        assert len(pages) < 1000
    assert tuple(pages) == whole.results
    assert whole.total_relation == "eq"
    assert whole.total == len(whole.results) > 20
    assert tuple(dense.iter_search("gauge theory", fields=["id"], **way)) == whole.results


@pytest.mark.parametrize("engine", ["bm25", "fts5"])
def test_totals_and_next_offsets_hold_until_the_end(sample: Library, engine: Any) -> None:
    asked: dict[str, Any] = {"engine": engine, "fields": ["id"]}
    everything = [
        hit
        for offset in (0, 1000, 2000)
        for hit in sample.search("theory model", offset=offset, limit=1000, **asked).results
    ]
    count = len(everything)
    assert 1000 < count < 2440
    assert len({hit.paper.id for hit in everything}) == count
    first = sample.search("theory model", **asked)
    assert first.total <= count
    assert first.total == count or first.total_relation == "gte"
    exact = sample.search("theory model", exact=True, **asked)
    assert (exact.total, exact.total_relation) == (count, "eq")
    assert sample.search("theory model", offset=count - 10, **asked).next_offset is None
    assert sample.search("theory model", offset=count - 11, **asked).next_offset == count - 1
    beyond = sample.search("theory model", offset=count, **asked)
    assert (beyond.results, beyond.total, beyond.next_offset) == ((), count, None)


@pytest.mark.parametrize(("q", "less", "relation"), [("string", 0, "eq"), ("quantum", 1, "gte")])
def test_an_exact_total_ends_at_the_most_that_are_counted(
    sample: Library, monkeypatch: pytest.MonkeyPatch, q: str, less: int, relation: str
) -> None:
    everything = sample.search(q, mode="sparse", engine="bm25", limit=1000).results
    assert 100 < len(everything) < 1000
    monkeypatch.setattr(legs, "MOST_COUNTED", len(everything) - less)
    found = sample.search(q, mode="sparse", engine="bm25", exact=True)
    assert (found.total, found.total_relation) == (len(everything) - less, relation)


@pytest.mark.parametrize(
    ("way", "deepest"),
    [({"mode": "sparse"}, 10_000), ({"mode": "dense"}, 10_000), ({"mode": "hybrid"}, 1000)],
)
def test_the_deepest_page_is_answered_and_the_next_refused(
    dense: Library, way: dict[str, Any], deepest: int
) -> None:
    assert not dense.search("x", offset=deepest - 10, limit=10, **way).results
    # The last page ends where paging does, whatever its length.
    assert not dense.search("x", offset=deepest - 9, limit=10, **way).results
    with pytest.raises(InvalidRequest, match=f"beyond result {deepest}, .*narrow the search"):
        dense.search("x", offset=deepest, limit=10, **way)


@pytest.mark.parametrize("way", [{"engine": "bm25"}, {"engine": "fts5"}])
def test_following_next_offset_ends_without_an_error(
    sample: Library, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any]
) -> None:
    """Also where the length of a page does not divide the depth of paging."""
    monkeypatch.setattr(plan, "MAX_DEPTH", 50)
    monkeypatch.setattr(plan, "TIERS", (20, 50))
    monkeypatch.setattr(ranking, "MAX_DEPTH", 50)
    found, offset = [], 0
    while offset is not None:
        page = sample.search("gauge theory", mode="sparse", limit=7, offset=offset, fields=["id"], **way)
        found += ids(page)
        offset = page.next_offset
    assert found == ids(sample.search("gauge theory", mode="sparse", limit=50, fields=["id"], **way))
    assert len(found) == 50


# -- filters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_within_exclude_and_citation_counts(dense: Library, way: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"limit": 1000, "fields": ["citation_count"], **way}
    everything = ids(dense.search("gauge theory", **asked))
    some = everything[::3]
    assert set(ids(dense.search("gauge theory", within=some, **asked))) == set(some)
    # Ids of other forms, and twice.
    doubled = [name.removeprefix("arXiv:") for name in some] + some
    assert set(ids(dense.search("gauge theory", within=doubled, **asked))) == set(some)
    rest = dense.search("gauge theory", exclude_ids=some, **asked)
    assert set(ids(rest)) == set(everything) - set(some)
    assert rest.total == len(rest.results)
    none = dense.search("gauge theory", within=[], **asked)
    assert (none.results, none.total, none.total_relation, none.next_offset) == ((), 0, "eq", None)
    assert not dense.search("gauge theory", within=some, exclude_ids=some, **asked).results
    counts = {row["corpusid"]: row["citationcount"] for row in sample_rows("papers")}
    cited = dense.search("gauge theory", min_citations=20, limit=1000, **way)
    assert cited.results
    assert all(counts[hit.paper.corpus_id or 0] >= 20 for hit in cited.results)
    assert {hit.paper.id for hit in cited.results} < set(everything)


def test_the_most_cited_of_titles_with_an_equal_beginning_comes_first(sample: Library) -> None:
    for title in ("Supersymmetry", "Quantum gravity"):
        matches = sample.match_title(title, limit=100).results
        alike = [match.paper.citation_count or 0 for match in matches if match.score == 0.9]
        assert alike == sorted(alike, reverse=True)


# -- query syntax, explanations, fields ----------------------------------------------------------------------


def test_a_hybrid_search_keeps_to_what_the_syntax_matches(dense: Library) -> None:
    matches = dense.search('"standard model" NOT decay', mode="sparse", limit=1000)
    assert matches.engine == "fts5"
    texts = {hit.paper.id: f"{hit.paper.title} {hit.paper.abstract}".casefold() for hit in matches.results}
    assert texts
    assert not any("decay" in text.split() for text in texts.values())
    hybrid = dense.search('"standard model" NOT decay', mode="hybrid", limit=1000)
    assert set(ids(hybrid)) == set(texts)
    assert hybrid.total == len(texts)
    # The same words as free text find more.
    assert dense.search("standard model", mode="hybrid", limit=1000).total == dense.manifest.counts["papers"]


def test_settings_decide_the_fusion(dense_library: Path) -> None:
    settings = Settings(
        fusion="rrf", rrf_k=10, fusion_depth=10, fusion_weights={"dense": 2.5, "learned": 9.0}
    )
    library = Library.open(dense_library, settings=settings)
    assert library.snapshot()["ranking"]["fusion_weights"] == {"dense": 2.5, "learned": 9.0}
    answer = library.search("string theory", mode="hybrid", limit=1000, explain=True)
    legs = {
        name: library.search("string theory", mode=mode, limit=10).results
        for name, mode in (("bm25", "sparse"), ("dense", "dense"))
    }
    weights = {"bm25": 1.0, "dense": 2.5}
    scores: dict[str, float] = {}
    for name, hits in legs.items():
        for rank, hit in enumerate(hits, 1):
            scores[hit.paper.id] = scores.get(hit.paper.id, 0) + weights[name] / (10 + rank)
    assert [hit.score for hit in answer.results] == pytest.approx(sorted(scores.values(), reverse=True)[:10])
    assert answer.next_offset is None
    for hit in answer.results:
        assert hit.score == pytest.approx(scores[hit.paper.id])
        assert sum(leg.share for leg in hit.explain or ()) == pytest.approx(hit.score)
    library.close()


def test_hybrid_searches_of_small_libraries_use_feedback(
    dense: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = dense.manifest.counts["papers"]
    for most, engine in ((papers, "feedback"), (papers - 1, "bm25")):
        monkeypatch.setattr(plan, "FEEDBACK_UP_TO", most)
        with Library.open(dense.path, settings=dense.settings) as library:
            default = library.search("string theory", limit=50)
            assert default.engine == engine
            assert default.results == library.search("string theory", limit=50, engine=engine).results
            assert library.search("string theory", mode="sparse").engine == "bm25"


@pytest.mark.parametrize("way", WAYS)
def test_shares_explain_scores(dense: Library, way: dict[str, Any]) -> None:
    plain = dense.search("string theory", limit=50, **way)
    explained = dense.search("string theory", limit=50, explain=True, **way)
    assert ids(explained) == ids(plain)
    legs = {"sparse": 1, "dense": 1, "hybrid": 2}[way["mode"]]
    for hit in explained.results:
        assert hit.explain is not None
        assert 1 <= len(hit.explain) <= legs
        assert sum(leg.share for leg in hit.explain) == pytest.approx(hit.score)
    names = {leg.leg for hit in explained.results for leg in hit.explain or ()}
    expected = {way.get("engine", "feedback"), "dense"} if legs == 2 else {way.get("engine", "dense")}
    assert names == expected
    later = dense.search("string theory", limit=5, offset=20, explain=True, **way)
    assert later.results == explained.results[20:25]


def test_a_paper_is_what_both_sources_say(sample: Library) -> None:
    row = next(row for row in sample_rows("papers") if row["externalids"]["ArXiv"] == "hep-th/9302103")
    other = next(row for row in arxiv_rows() if row["id"] == "hep-th/9302103")
    paper = sample.paper("hep-th/9302103").to_dict()
    assert paper == {
        "id": HOLOMORPHIC,
        "corpus_id": row["corpusid"],
        "external_ids": {
            "arXiv": "hep-th/9302103",
            "CorpusId": str(row["corpusid"]),
            "DOI": row["externalids"]["DOI"].lower(),
        },
        "title": plain(row["title"]),
        "abstract": plain(other["abstract"]),
        "tldr": None,
        "authors": [{"name": author["name"], "author_id": author["authorId"]} for author in row["authors"]],
        "year": row["year"],
        "publication_date": row["publicationdate"],
        "venue": row["venue"],
        "status": None,
        "journal": None,
        "publication_types": [],
        "categories": other["categories"].split(),
        "fields_of_study": [field["category"] for field in row["s2fieldsofstudy"]],
        "is_open_access": row["isopenaccess"],
        "comment": other["comments"],
        "versions": [version["created"] for version in other["versions"]],
        "update_date": other["update_date"],
        "citation_count": row["citationcount"],
        "reference_count": row["referencecount"],
        "url": row["url"],
    }


# -- what may come in a request ------------------------------------------------------------------------------


def test_ids_that_the_library_does_not_hold_are_named(sample: Library) -> None:
    with pytest.raises(PaperNotFound, match=r"'arXiv:1111\.1111'"):
        sample.search("x", within=[HOLOMORPHIC, "arXiv:1111.1111"])
    for ask in (sample.paper, sample.citations, sample.references):
        with pytest.raises(PaperNotFound, match="CorpusId:999"):
            ask("CorpusId:999")  # type: ignore[operator]
    assert sample.papers([HOLOMORPHIC, "CorpusId:999", HOLOMORPHIC]) == [
        sample.paper(HOLOMORPHIC),
        None,
        sample.paper(HOLOMORPHIC),
    ]
    assert sample.papers([]) == []


# -- batches, threads, the same again --------------------------------------------------------------------------


def test_a_batch_answers_as_its_searches_do(dense: Library) -> None:
    questions = ["string theory", "black holes", '"quantum gravity"', "the of", "string theory"]
    requests = [
        SearchRequest(q=q, mode=mode, limit=20, from_="1993-03")  # type: ignore[arg-type]
        for q in questions
        for mode in ("sparse", "dense", "hybrid")
    ]
    # Encoded together, the last bits of a vector may differ: ids, and scores to seven digits.
    for together, alone in zip(dense.search_batch(requests), map(dense.run, requests), strict=True):
        assert ids(together) == ids(alone)
        assert [h.score for h in together.results] == pytest.approx(
            [h.score for h in alone.results], rel=1e-6
        )
        assert (together.total, together.next_offset) == (alone.total, alone.next_offset)
    assert dense.search_batch([]) == []
    with pytest.raises(InvalidRequest, match="In the search 'x': Unknown argument 'lang'"):
        dense.search_batch([{"q": "x", "lang": "en"}])


def test_many_threads_get_the_answers_of_one(dense: Library) -> None:
    names = [f"CorpusId:{row['corpusid']}" for row in sample_rows("papers")][:40]
    names = [name for name, paper in zip(names, dense.papers(names), strict=True) if paper]
    words = [
        "string theory",
        "gauge",
        '"black hole" OR inflation',
        "the of",
        "neutrino masses in the standard model",
    ]
    calls: list[Callable[[], Any]] = [
        *(lambda q=q, w=w: dense.search(q, **w) for q in words for w in WAYS),
        *(lambda n=n: dense.paper(n) for n in names),
        *(lambda n=n: dense.citations(n, limit=5) for n in names),
        *(lambda n=n: dense.expand([n], hops=2, limit=5) for n in names[:20]),
        *(lambda q=q: dense.match_title(q) for q in words),
    ]
    random.Random(7).shuffle(calls)
    calls = (calls * 2)[:160]
    expected = [call() for call in calls]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda call: call(), calls)) == expected


def test_a_copy_gives_the_same_bytes(dense: Library, copy: Path) -> None:
    def answers(library: Library) -> list[bytes]:
        searches = [library.search("string theory", limit=100, explain=True, **way) for way in WAYS]
        return [orjson.dumps(response.to_dict()) for response in searches]

    with Library.open(copy, settings=dense.settings) as again:
        assert answers(again) == answers(dense)


# -- citations -------------------------------------------------------------------------------------------------


def test_neighbours_are_those_that_the_edges_reach(sample: Library) -> None:
    edges = sample_edges()
    seeds = [1014899, next(citing for citing, cited in sorted(edges) if cited == 1014899)]
    reached: dict[int, set[int]] = {}
    for a, b in edges:
        for seed, other in ((a, b), (b, a)):
            if seed in seeds and other not in seeds:
                reached.setdefault(other, set()).add(seed)
    answer = sample.expand([f"CorpusId:{seed}" for seed in seeds], limit=1000)
    assert {n.paper.corpus_id: n.seeds for n in answer.results} == {k: len(v) for k, v in reached.items()}
    assert answer.total == len(reached)
    counts = [neighbour.seeds for neighbour in answer.results]
    assert counts == sorted(counts, reverse=True)
    pages = [
        sample.expand([f"CorpusId:{s}" for s in seeds], limit=9, offset=n).results
        for n in range(0, answer.total, 9)
    ]
    assert tuple(neighbour for page in pages for neighbour in page) == answer.results
    two = sample.expand([f"CorpusId:{seeds[0]}"], direction="references", hops=2, limit=1000)
    cited = {b for a, b in edges if a == seeds[0]}
    further = {b for a, b in edges if a in cited} - cited - {seeds[0]}
    assert {n.paper.corpus_id for n in two.results if n.hops == 1} == cited
    assert {n.paper.corpus_id for n in two.results if n.hops == 2} == further


# -- opening -----------------------------------------------------------------------------------------------------


def test_no_library_there(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFound, match="No library at"):
        Library.open(tmp_path / "nowhere")
    with pytest.raises(LibraryNotFound, match=r"No manifest\.json in"):
        Library.open(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(LibraryNotFound, match="is a file"):
        Library.open(file)
    (tmp_path / "begun" / "building").mkdir(parents=True)
    with pytest.raises(LibraryNotFound, match="is not finished"):
        Library.open(tmp_path / "begun")


@pytest.fixture
def copy(dense_library: Path, tmp_path: Path) -> Path:
    return copied(dense_library, tmp_path / "copy")


def test_another_librarys_vectors_are_found_out(copy: Path, sample_library: Path) -> None:
    shutil.rmtree(copy / "vectors")
    copied(sample_library / "vectors", copy / "vectors")
    with pytest.raises(ScholarBaseError):
        Library.open(copy, encoder="none").search("string theory", limit=1000)


def test_an_encoder_that_is_not_there_is_an_error(dense_library: Path, copy: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="no-such-model"):
        Library.open(dense_library, encoder=str(tmp_path / "no-such-model"))
    about = copy / "encoder.json"
    content = orjson.loads(about.read_bytes())
    about.write_bytes(orjson.dumps(content | {"location": str(tmp_path / "moved-away")}))
    relist(copy)
    with pytest.raises(EncoderError, match="moved-away"):
        Library.open(copy)


def test_a_library_without_vectors_refuses_dense_searches(sample: Library) -> None:
    assert sample.search("x").mode == "sparse"
    for asked in ({"mode": "dense"}, {"mode": "hybrid"}, {"engine": "learned"}):
        with pytest.raises(UnsupportedMode, match="this library"):
            sample.search("x", **asked)  # type: ignore[arg-type]


def test_a_closed_library_says_so_again_and_again(sample_library: Path) -> None:
    library = Library.open(sample_library)
    library.close()
    library.close()
    for ask in (
        lambda: library.search("x"),
        lambda: library.paper(HOLOMORPHIC),
        lambda: library.match_title("x"),
    ):
        with pytest.raises(ScholarBaseError, match="closed"):
            ask()


def test_the_pages_of_a_search_did_not_each_encode_the_query_again(
    dense_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(open_encoder(PACKAGED)) as encoder,
        Library.open(
            dense_library, encoder=encoder, settings=load_settings(similarity_floor=False)
        ) as library,
    ):
        asked: list[str] = []
        encode = encoder.encode_queries
        monkeypatch.setattr(encoder, "encode_queries", lambda texts: (asked.extend(texts), encode(texts))[1])
        pages = [
            library.search("black holes", mode="hybrid", limit=5, offset=offset) for offset in (0, 5, 10)
        ]
        again = library.search("black holes", mode="dense", limit=5)
        assert len({hit.paper.id for page in pages for hit in page.results}) == 15
        assert again == library.search("black holes", mode="dense", limit=5)
        assert asked == ["black holes"]
        library.search("Black holes", mode="dense")
        assert asked == ["black holes", "Black holes"]


# -- time limits --------------------------------------------------------------------------------------------


def test_what_a_batch_does_not_finish_in_time_has_an_error_in_its_place(sample: Library) -> None:
    searches = SearchBatchBody(searches=({"q": "strings"}, {"q": "branes"}), timeout=1e-6)
    response = sample.run_batch(searches)
    assert response.to_dict()["results"] == [
        {
            "error": f"In the search {q!r}: The search was stopped at the time limit of 1e-06 s: send fewer in one "
            "request.",
            "status": 504,
        }
        for q in ("strings", "branes")
    ]
    titles = sample.run_titles(TitleBatchBody(titles=("String theory",), timeout=1e-6)).to_dict()
    assert titles["results"][0]["error"].startswith("In the title 'String theory': The title was stopped")
    with pytest.raises(TimeLimit, match="In the title 'String theory'"):
        sample.match_titles(["String theory"], timeout=1e-6)


def test_each_call_has_a_time_limit_of_its_own(sample: Library) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: sample.search("strings", timeout=1e-6),
        lambda: sample.search("strings", engine="fts5", timeout=1e-6),
        lambda: sample.search_batch([{"q": "strings", "timeout": 1e-6}]),
        lambda: sample.similar(HOLOMORPHIC, timeout=1e-6),
        lambda: sample.facets(timeout=1e-6),
    ]
    for call in calls:
        with pytest.raises(TimeLimit, match="was stopped at the time limit of 1e-06 s"):
            call()
    assert sample.search("strings", timeout=600).results
