"""Searches of a library built without options: with the encoder in the package, hybrid, with a floor of similarity."""

from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from scholarbase.encoders import open_encoder
from scholarbase.errors import InvalidRequest, LibraryExists, UnsupportedMode
from scholarbase.identifiers import parse
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.limits import Fusion, Mode
from scholarbase.models.papers import Paper
from scholarbase.models.requests import SearchRequest
from scholarbase.search.fusion import FIRST
from scholarbase.search.library import Library
from scholarbase.settings import Settings, load_settings
from tests.conftest import run_cli, serving_in_thread
from tests.libraries import opened_library

WAYS: Final[list[dict[str, Any]]] = [
    *({"mode": "sparse", "engine": engine} for engine in ("bm25", "feedback", "fts5")),
    {"mode": "dense"},
    {"mode": "dense", "exact": True},
    *({"mode": "hybrid", "engine": engine} for engine in (None, "bm25", "fts5")),
]
NONSENSE: Final = (
    (Path(__file__).parent.parent / "data" / "nonsense.txt").read_text(encoding="utf-8").splitlines()
)


@pytest.fixture(scope="module")
def papers(library: Library) -> list[Paper]:
    """Every eighth paper."""
    with library.catalog.reading() as connection:
        numbers = [row[0] for row in connection.execute("SELECT id FROM papers ORDER BY id")]
    return library._catalog.papers(numbers[::8], ["id", "title", "abstract", "url"])


@pytest.fixture(scope="module")
def cosines(library: Library) -> Any:
    """The cosines of a query and all papers, from the vectors as stored and numpy."""
    points = [point for batch in library._vectors.points() for point in batch]
    vectors = np.array([point.dense for point in points])
    encoder = open_encoder(PACKAGED)

    def of(q: str) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = vectors @ encoder.encode_queries([q]).dense[0]
        return found

    yield of
    encoder.close()


@pytest.mark.parametrize("way", WAYS)
def test_nonsense_finds_nothing(library: Library, way: dict[str, Any]) -> None:
    """Dense search returned the whole library."""
    for q in NONSENSE:
        found = library.search(q, **way)
        assert (q, found.total, found.total_relation, found.results) == (q, 0, "eq", ())


@pytest.mark.parametrize("way", [*WAYS, {"mode": "dense", "min_similarity": -1}])
def test_a_query_without_a_letter_or_digit_found_a_thousand_papers(
    library: Library, way: dict[str, Any]
) -> None:
    for q in ("!!!!", "...", "%", '"', "« »", "😀", "\u0301"):
        found = library.search(q, **way)
        assert (found.total, found.total_relation, found.results, found.next_offset) == (0, "eq", (), None), q
    assert library.search("the who", **way).total > 0  # only stop words


def test_the_total_of_a_search_within_few_papers_was_a_lower_bound(
    library: Library, papers: list[Paper], cosines: Any
) -> None:
    some = [paper.id for paper in papers[:100]]
    q = "string theory and black holes"
    floor = library.manifest.vectors["random_similarity"]["p75"]
    numbers = [point.id for batch in library._vectors.points() for point in batch]
    above = {number for number, value in zip(numbers, cosines(q), strict=True) if value >= floor}
    held = library._catalog.resolve([parse(paper_id) for paper_id in some])
    dense = library.search(q, mode="dense", within=some, limit=100)
    assert (dense.total, dense.total_relation) == (len(above.intersection(held)), "eq")
    hybrid = library.search(q, within=some, limit=100)
    assert (hybrid.total, hybrid.total_relation) == (len(hybrid.results), "eq")
    assert len(hybrid.results) > dense.total > 0


def test_the_floor_is_a_quantile_of_random_pairs(library: Library, papers: list[Paper], cosines: Any) -> None:
    random = library.manifest.vectors["random_similarity"]
    pairs = np.concatenate([cosines(paper.title) for paper in papers[:200]])
    assert random["p75"] == pytest.approx(np.quantile(pairs, 0.75), abs=0.03)
    assert random["p999"] == pytest.approx(np.quantile(pairs, 0.999), abs=0.06)


def test_dense_results_are_above_the_floor(library: Library, cosines: Any) -> None:
    floor = library.manifest.vectors["random_similarity"]["p75"]
    expected = int((cosines("string theory and black holes") >= floor).sum())
    assert 10 < expected < 1000
    found = library.search("string theory and black holes", mode="dense", exact=True, limit=1000)
    assert min(hit.score for hit in found.results) >= floor
    assert abs(found.total - expected) <= 1  # a cosine may be at the floor
    assert (found.total, found.total_relation) == (len(found.results), "eq")


def test_pages_end_at_the_floor(library: Library) -> None:
    """The total is a lower bound, since a search of a graph may miss papers, but the last page has no next one."""
    q = "string theory and black holes"
    whole = library.search(q, mode="dense", limit=1000)
    assert whole.next_offset is None
    pages = list(library.iter_search(q, mode="dense"))
    assert [hit.paper.id for hit in pages] == [hit.paper.id for hit in whole.results]
    last = library.search(q, mode="dense", limit=10, offset=len(pages) - 5)
    assert (len(last.results), last.next_offset) == (5, None)


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"from_": "1994"}, {"explain": True}])
def test_pages_of_a_hybrid_search_have_no_overlaps_and_no_gaps(
    library: Library, options: dict[str, Any]
) -> None:
    """The first 300 results are fused from shorter legs than those after them."""
    q = "string theory and black holes"
    found = library.search(q, limit=1000, **options)
    whole = [(hit.paper.id, hit.score) for hit in found.results]
    for hit in found.results:
        if hit.explain is not None:
            assert sum(leg.share for leg in hit.explain) == pytest.approx(hit.score, abs=1e-9)
    assert len(dict(whole)) == len(whole) > FIRST
    assert [score for _, score in whole] == sorted((score for _, score in whole), reverse=True)
    for limit in (40, 100):
        paged, offset = [], 0
        while offset < FIRST + 100:
            page = library.search(q, limit=limit, offset=offset, **options)
            paged += [(hit.paper.id, hit.score) for hit in page.results]
            assert page.next_offset == offset + limit
            offset = page.next_offset
        assert paged == whole[: len(paged)]


def test_a_lower_bound_counts_a_paper_that_no_leg_found(library: Library) -> None:
    for q in ("2006.01205", "2006.07490", "2006.11834", "2006.15454"):
        found = library.search(q, min_similarity=0.4, limit=1000)
        assert found.total_relation == "gte"
        assert found.results[0].paper.id == f"arXiv:{q}"
        assert found.total == len(found.results)


def test_without_a_floor_a_hybrid_total_counts_all_papers_that_pass(library: Library) -> None:
    recent = library.search("string theory", min_similarity=-1, from_="1994", limit=1)
    counted = library._vectors.count(library._lookup.filters(SearchRequest(q="x", from_="1994"))[0])
    assert (recent.total, recent.total_relation) == (counted, "eq")


def test_a_request_sets_its_own_floor(library: Library, cosines: Any) -> None:
    q = "string theory and black holes"
    whole = library.search(q, mode="dense", exact=True, min_similarity=-1)
    assert (whole.total, whole.total_relation) == (2440, "eq")
    high = library.search(q, mode="dense", exact=True, min_similarity=0.5)
    assert abs(high.total - int((cosines(q) >= 0.5).sum())) <= 1
    none = library.search(q, mode="dense", min_similarity=1)
    assert (none.total, none.total_relation, none.results) == (0, "eq", ())


def test_a_floor_of_zero_is_a_floor(library: Library, cosines: Any) -> None:
    """It was read as none, where no paper is above it."""
    q = "quantum"
    values = cosines(q)
    numbers = [point.id for batch in library._vectors.points() for point in batch]
    below = [number for number, value in zip(numbers, values, strict=True) if value < -0.01][:1]
    [paper] = library._catalog.papers(below, ["id"])
    found = library.search(q, mode="dense", min_similarity=0, within=[paper.id])
    assert (found.total, found.results) == (0, ())


@pytest.mark.parametrize("depth", [100, 1000])
def test_as_many_papers_above_the_floor_as_a_search_fetches_have_no_next_page(
    library: Library, cosines: Any, depth: int
) -> None:
    q = "string theory and black holes"
    ordered = np.sort(cosines(q))[::-1]
    floor = float((ordered[depth - 1] + ordered[depth]) / 2)
    last = library.search(q, mode="dense", min_similarity=floor, exact=True, limit=10, offset=depth - 10)
    assert (last.total, len(last.results), last.next_offset) == (depth, 10, None)


@pytest.mark.slow
def test_words_of_the_month_of_as_of_are_known(tmp_path: Path) -> None:
    """Frequencies are those of full months, so that in its first month a library seemed to have no words."""
    rows = [
        {"corpusid": n, "title": f"Gravity {n}", "abstract": "Of waves.", "publicationdate": "2020-01-03", "year": 2020,
         "externalids": {"ArXiv": f"2001.{n:05}"}}
        for n in range(1, 601)
    ]  # fmt: skip
    with opened_library(tmp_path, rows, dense=True) as library:
        assert library.search("gravity", mode="dense", as_of="2020-01-20").total > 0
        assert library.search("zzqqy", mode="dense", as_of="2020-01-20").total == 0


def test_strange_words_are_searched_by_their_pieces_where_a_request_sets_the_floor(library: Library) -> None:
    assert library.search("asdkjhaskdjh zzzqqq", mode="dense", min_similarity=-1).total == 2440


# -- fusion of a request ------------------------------------------------------------------------------------

SEARCHES: Final[list[dict[str, Any]]] = [
    {"q": "string theory and black holes"},
    {"q": "supernova neutrinos", "limit": 300, "explain": True, "engine": "feedback"},
    {"q": "quark AND gluon", "limit": 5, "offset": 5},
]


@pytest.mark.parametrize(
    ("setting", "other"), [("rrf", "scores"), pytest.param("scores", "rrf", marks=pytest.mark.slow)]
)
def test_a_request_fuses_as_the_setting_does(default_library: Path, setting: Fusion, other: Fusion) -> None:
    with (
        Library.open(default_library, settings=load_settings(fusion=setting)) as ours,
        Library.open(default_library, settings=load_settings(fusion=other)) as theirs,
        serving_in_thread(ours) as our_url,
        serving_in_thread(theirs) as their_url,
    ):
        for search in SEARCHES:
            fused = search | {"fusion": setting}
            assert theirs.search(**fused) == ours.search(**search) != theirs.search(**search)
            expected = httpx.post(f"{our_url}/v1/search", json=search).content
            assert httpx.post(f"{their_url}/v1/search", json=fused).content == expected
            assert httpx.get(f"{their_url}/v1/search", params=fused).content == expected
            assert theirs.facets(search["q"], fusion=setting) == ours.facets(search["q"])
        batches = [
            {"searches": SEARCHES},
            {"searches": [search | {"fusion": setting} for search in SEARCHES]},
        ]
        expected = httpx.post(f"{our_url}/v1/search/batch", json=batches[0]).content
        assert httpx.post(f"{their_url}/v1/search/batch", json=batches[1]).content == expected


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_a_search_with_one_leg_rejects_fusion(library: Library, mode: Mode) -> None:
    with pytest.raises(InvalidRequest, match=f"fusion 'rrf' applies to hybrid searches, and mode '{mode}'"):
        library.search("string theory", mode=mode, fusion="rrf")


# -- profiles ---------------------------------------------------------------------------------------------


def test_the_profile_of_the_benchmark_is_its_baseline(default_library: Path) -> None:
    """FTS5 with equal weights, exact dense search, and ranks fused with k = 60."""
    with Library.open(default_library, settings=load_settings(profile="scholarquest")) as library:
        found = library.search("string theory and black holes", explain=True, limit=20)
        assert (found.mode, found.engine) == ("hybrid", "fts5")
        for hit in found.results:
            assert {leg.leg for leg in hit.explain or ()} <= {"fts5", "dense"}
            assert hit.score == pytest.approx(sum(1 / (60 + leg.rank) for leg in hit.explain or ()))
        assert library.snapshot()["ranking"] == {
            "profile": "scholarquest",
            "engine": "fts5",
            "exact": True,
            "similarity_floor": False,
            "fusion": "rrf",
            "rrf_k": 60,
            "fusion_depth": 1000,
            "fusion_weights": {},
            "graph_weight": 0.0,
            "fts5_title_weight": 1.0,
            "known_items": False,
        }


def test_the_engine_of_the_settings_is_checked_as_that_of_a_request(default_library: Path) -> None:
    with (
        Library.open(default_library, settings=load_settings(engine="learned")) as library,
        pytest.raises(UnsupportedMode, match="engine 'learned' requires term weights"),
    ):
        library.search("string theory", mode="sparse")


def test_settings_take_precedence_over_the_profile(default_library: Path) -> None:
    settings = load_settings(profile="scholarquest", rrf_k=10, engine="bm25")
    with Library.open(default_library, settings=settings) as library:
        ranking = library.snapshot()["ranking"]
        assert (ranking["rrf_k"], ranking["engine"], ranking["fusion"]) == (10, "bm25", "rrf")


@pytest.mark.slow
def test_a_library_has_the_profile_that_it_was_built_for(small_snapshot: Path, tmp_path: Path) -> None:
    path = tmp_path / "library"
    ingest([small_snapshot], path, rules=IngestRules(profile="scholarquest"))
    with Library.open(path) as library:
        assert library.manifest.rules["profile"] == "scholarquest"
        assert library.search("string theory").engine == "fts5"
    with Library.open(path, settings=Settings(profile="default")) as library:
        assert library.search("string theory").engine == "bm25"
    with pytest.raises(LibraryExists, match=r"from other .*profile"):
        ingest([small_snapshot], path)
    done = run_cli(
        "ingest", small_snapshot, "--library", path, "--encoder", "none", "--profile", "scholarquest"
    )
    assert done.returncode == 0, done.stderr
