"""Similar papers, on the sample with the vectors of the static encoder in the package.

Expected co-citations are counted from the sample's own citations, cosines by numpy from the stored vectors.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.encoders import open_encoder
from scholarbase.encoders.registry import PACKAGED
from scholarbase.errors import (
    InvalidRequest,
    LibraryError,
    NothingLeft,
    PaperNotFound,
    UnsupportedMode,
)
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.responses import SimilarResponse
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.conftest import SAMPLE, sample_edges, sample_rows
from tests.libraries import library_of

SEED = "arXiv:hep-th/9301068"
NUMBER = 1014785
"""The seed's corpus id: Two Dimensional QCD is a String Theory. 45 papers of the sample cite it."""
ROWS = {row["corpusid"]: row for row in sample_rows("papers")}
EDGES = sample_edges()
K = 60
DEPTH = 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,840 papers with vectors, and 7,518 edges."""
    path = tmp_path_factory.mktemp("similar") / "library"
    encoder = open_encoder(PACKAGED)
    rules = IngestRules(keep="title")  # with the papers that have no abstract
    ingest([SAMPLE / "s2ag"], path, encoder=encoder, encoder_location=PACKAGED, rules=rules)
    encoder.close()
    return path


@pytest.fixture(scope="module")
def library(path: Path) -> Iterator[Library]:
    with Library.open(path, encoder="none") as opened:  # the vectors are enough
        yield opened


@pytest.fixture(scope="module")
def shallow(path: Path) -> Iterator[Library]:
    """A fusion of the first ten papers of each leg."""
    with Library.open(path, encoder="none", settings=load_settings(fusion_depth=10, rrf_k=5)) as opened:
        yield opened


@pytest.fixture(scope="module")
def vectors(library: Library) -> dict[int, np.ndarray]:
    """Corpus id to vector."""
    points = [point for batch in library._vectors.points() for point in batch]
    papers = library._catalog.papers([point.id for point in points], ["corpus_id"])
    return {
        paper.corpus_id: point.dense
        for paper, point in zip(papers, points, strict=True)
        if paper.corpus_id is not None and point.dense is not None
    }


def cocitations(paper: int, last_date: str | None = None) -> Counter[int]:
    """How many papers cite each paper together with this one, of those published by a date."""
    there = {n for n, row in ROWS.items() if not last_date or (row["publicationdate"] or "9999") <= last_date}
    citing = {a for a, b in EDGES if b == paper and a in there}
    return Counter(b for a, b in EDGES if a in citing and b in there and b != paper)


def cosines(vectors: dict[int, np.ndarray], paper: int) -> dict[int, float]:
    own = vectors[paper]
    return {n: float(vector @ own) for n, vector in vectors.items() if n != paper}


def legs(response: SimilarResponse, leg: str) -> dict[int, tuple[int, float]]:
    """Corpus id to rank and score in a leg."""
    return {
        hit.paper.corpus_id or 0: (one.rank, one.score)
        for hit in response.results
        for one in hit.explain or ()
        if one.leg == leg
    }


def numbers(response: SimilarResponse) -> list[int]:
    return [hit.paper.corpus_id or 0 for hit in response.results]


# -- legs and fusion ------------------------------------------------------------------------------------


def test_cocitations_are_those_counted_by_hand(library: Library) -> None:
    """34 of the 45 papers that cite the seed also cite Twists and Wilson Loops, 15 Summing Over Inequivalent Maps."""
    found = legs(library.similar(SEED, limit=1000, explain=True), "cocitation")
    assert found[1014960] == (1, 34.0)
    assert found[1014739] == (2, 15.0)
    assert {found[1015038], found[1015209]} == {(3, 14.0), (4, 14.0)}
    expected = cocitations(NUMBER)
    assert len(expected) == 60
    assert {number: score for number, (_, score) in found.items()} == expected
    by_rank = sorted(found.values())
    assert [rank for rank, _ in by_rank] == list(range(1, 61))
    assert [score for _, score in by_rank] == sorted(expected.values(), reverse=True)


@pytest.mark.parametrize("exact", [True, False])
def test_the_dense_leg_is_the_cosine_of_the_stored_vectors(
    library: Library, vectors: dict[int, np.ndarray], exact: bool
) -> None:
    expected = cosines(vectors, NUMBER)
    found = legs(library.similar(SEED, limit=1000, explain=True, exact=exact), "dense")
    best = sorted(expected.values(), reverse=True)
    close = 0
    for number, (rank, score) in found.items():
        assert score == pytest.approx(expected[number], abs=2e-3)
        close += abs(score - best[rank - 1]) < 2e-3
    assert len(found) > 900
    assert close == len(found) if exact else close > 0.95 * len(found)


def test_scores_are_sums_of_shares_and_ties_break_by_id(library: Library) -> None:
    response = library.similar(SEED, limit=1000, explain=True)
    keys = []
    for hit in response.results:
        assert hit.explain is not None
        legs = [one.leg for one in hit.explain]
        assert legs == [leg for leg in ("dense", "cocitation", "graph") if leg in legs] != []
        assert all(one.share == 1 / (K + one.rank) for one in hit.explain)
        assert all(one.terms == () for one in hit.explain)
        assert hit.score == pytest.approx(sum(one.share for one in hit.explain), abs=1e-15)
        [number] = library._catalog.resolve([_identifier(hit.paper.id)])
        keys.append((-hit.score, number))
    assert keys == sorted(keys)
    plain = library.similar(SEED, limit=1000)
    assert [(h.paper.id, h.score) for h in plain.results] == [(h.paper.id, h.score) for h in response.results]
    assert all(hit.explain is None for hit in plain.results)


def _identifier(paper_id: str) -> Any:
    from scholarbase.identifiers import parse

    return parse(paper_id)


def test_the_settings_of_the_fusion_apply(shallow: Library) -> None:
    response = shallow.similar(SEED, limit=20, explain=True)
    shares = [one.share for hit in response.results for one in hit.explain or ()]
    assert max(shares) == 1 / 6
    assert len(response.results) == 10
    assert shallow.similar(SEED, limit=1, offset=9).next_offset is None
    with pytest.raises(InvalidRequest, match="offset 10 is beyond result 10, the last of the similar papers"):
        shallow.similar(SEED, offset=10)


def test_the_total_is_the_number_of_papers_in_the_fusion(
    library: Library, shallow: Library, path: Path
) -> None:
    best = legs(shallow.similar(SEED, limit=20, explain=True), "dense")
    response = shallow.similar(SEED)
    assert response.total_relation == "gte"
    assert 10 < response.total <= 20
    assert len(best) <= 10
    some = [f"CorpusId:{n}" for n in list(ROWS)[:300]]
    among = library.similar(SEED, within=some, limit=1000)
    assert (among.total, among.total_relation) == (len(among.results), "eq")
    assert among.total == 300 - (NUMBER in list(ROWS)[:300])
    with Library.open(path, encoder="none", settings=load_settings(fusion_depth=2000)) as deep:
        whole = deep.similar(SEED, exact=True)
        assert (whole.total, whole.total_relation) == (len(ROWS) - 1, "eq")


def test_pages_have_no_overlaps_and_no_gaps(library: Library) -> None:
    whole = library.similar(SEED, limit=1000)
    assert whole.next_offset is None
    assert [hit.paper.id for hit in library.iter_similar(SEED)] == [hit.paper.id for hit in whole.results]
    offset, paged = 0, []
    while offset is not None:
        page = library.similar(SEED, limit=170, offset=offset)
        assert page.total == whole.total
        paged += page.results
        offset = page.next_offset  # type: ignore[assignment]
    assert tuple(paged) == whole.results
    assert len({hit.paper.id for hit in paged}) == DEPTH
    assert list(library.iter_similar(SEED, offset=990, limit=50)) == list(whole.results[990:])


# -- filters --------------------------------------------------------------------------------------------

FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({"from_": "1994", "to": "1995-06"}, lambda r: "1994" <= (r["publicationdate"] or "") < "1995-07"),
    ({"min_citations": 100}, lambda r: (r["citationcount"] or 0) >= 100),
    ({"exclude": ["string theory"]}, lambda r: "string theory" not in r["title"].lower()),
    ({"exclude_ids": ["hep-th/9303046", "hep-th/9301003"]}, lambda r: r["corpusid"] not in (1014960, 1014739)),
    ({"within": [SEED, "hep-th/9303046", "hep-th/9301003"]}, lambda r: r["corpusid"] in (1014960, 1014739)),
    ({"within": []}, lambda r: False),
]  # fmt: skip


@pytest.mark.parametrize(("filters", "passes"), FILTERS, ids=[str(one)[:30] for one, _ in FILTERS])
def test_filters_apply_before_each_leg_takes_its_first_results(
    shallow: Library, vectors: dict[int, np.ndarray], filters: dict[str, Any], passes: Any
) -> None:
    passing = {number for number, row in ROWS.items() if passes(row) and number != NUMBER}
    response = shallow.similar(SEED, limit=20, explain=True, exact=True, **filters)
    assert set(numbers(response)) <= passing
    counts = {number: count for number, count in cocitations(NUMBER).items() if number in passing}
    found = legs(response, "cocitation")
    assert all(counts[number] == score for number, (_, score) in found.items())
    if "exclude" not in filters:  # abstracts are compared too
        near = {number: score for number, score in cosines(vectors, NUMBER).items() if number in passing}
        best = sorted(near.values(), reverse=True)
        for number, (rank, score) in legs(response, "dense").items():
            assert score == pytest.approx(near[number], abs=2e-3)
            assert score == pytest.approx(best[rank - 1], abs=2e-3)
        assert bool(response.results) == bool(passing)
        ranked = dict(enumerate(sorted(counts.values(), reverse=True), 1))
        assert all(score == ranked[rank] for rank, score in found.values())


def test_the_paper_itself_is_never_in_the_results(library: Library) -> None:
    for options in ({}, {"within": [SEED]}, {"exact": True}):
        assert NUMBER not in numbers(library.similar(SEED, limit=1000, **options))  # type: ignore[arg-type]
    alone = library.similar(SEED, within=[SEED])
    assert (alone.total, alone.total_relation, alone.next_offset, alone.warnings) == (0, "eq", None, ())


def test_unknown_ids_to_exclude_are_named(library: Library) -> None:
    [warning] = library.similar(SEED, exclude_ids=["arXiv:2001.00001"]).warnings
    assert "exclude_ids has no effect" in warning
    assert "'arXiv:2001.00001'" in warning


def test_as_of_counts_only_citing_papers_published_by_then(library: Library) -> None:
    response = library.similar(SEED, as_of="1993-12", limit=1000, explain=True)
    expected = cocitations(NUMBER, "1993-12-31")
    assert 0 < len(expected) < len(cocitations(NUMBER))
    found = legs(response, "cocitation")
    assert {number: score for number, (_, score) in found.items()} == expected
    assert found[1014960][1] < 34
    assert all((ROWS[n]["publicationdate"] or "9999") <= "1993-12-31" for n in numbers(response))
    assert {hit.paper.citation_count for hit in response.results} == {None}
    with pytest.raises(PaperNotFound, match="'hep-th/9408140' does not exist as of 1993-12"):
        library.similar("hep-th/9408140", as_of="1993-12")
    with pytest.raises(NothingLeft, match="as_of '1900-01' is before every paper"):
        library.similar(SEED, as_of="1900-01")


# -- other libraries ------------------------------------------------------------------------------------

SMALL = [
    (1, "Dark matter"),
    (2, "Dark matter halos"),
    (3, "The dark matter of graphs"),
    (4, "Graphs"),
    (5, "量子"),
]
SMALL_EDGES = [(3, 1), (3, 2), (4, 1), (4, 2), (4, 3)]
"""1 and 2 are cited together by 3 and 4, 1 and 3 and 2 and 3 by 4. 5 has no word that the encoder knows, and no
citation."""


def small(folder: Path, *, edges: bool, dense: bool) -> Library:
    rows = [
        {"corpusid": n, "title": title, "externalids": {"ArXiv": f"2401.0000{n}"}, "publicationdate": f"2024-01-0{n}"}
        for n, title in SMALL
    ]  # fmt: skip
    path = library_of(folder, rows, SMALL_EDGES if edges else (), dense=dense, keep="title")
    return Library.open(path, encoder="none")


def test_a_library_without_vectors_has_only_citations(tmp_path: Path) -> None:
    with small(tmp_path, edges=True, dense=False) as library:
        response = library.similar("CorpusId:1", explain=True)
        ranked = [(hit.paper.corpus_id, hit.score) for hit in response.results]
        assert ranked == [(3, pytest.approx(1 / 62 + 1 / 61)), (2, 1 / 61), (4, 1 / 62)]
        assert legs(response, "cocitation") == {2: (1, 2.0), 3: (2, 1.0)}
        # 3 and 4 cite the paper, whose weight is all there is.
        assert legs(response, "graph") == {3: (1, pytest.approx(0.5**0.5)), 4: (2, pytest.approx(0.5**0.5))}
        assert [leg.cites for leg in response.results[2].explain or ()] == [("arXiv:2401.00001",)]
        assert (response.total, response.total_relation, response.warnings) == (3, "eq", ())
        [warning] = library.similar("CorpusId:5").warnings
        assert warning == "'CorpusId:5' has no similar papers: it has no dense vector and no citations."
        assert numbers(library.similar("CorpusId:4")) == [1, 2, 3]
        # With these dates, no paper cites another yet.
        assert len(library.similar("CorpusId:1", as_of="2024-01-02").warnings) == 1
        assert library.similar("CorpusId:1", as_of="2024-01-03").total == 2
        # A filter that leaves nothing says nothing of the paper.
        assert library.similar("CorpusId:1", within=["CorpusId:4"]).warnings == ()


def test_a_leg_that_ends_at_the_depth_is_whole(tmp_path: Path) -> None:
    """Ten papers cite the first one, and eleven the second."""
    rows = [{"corpusid": n, "title": f"Graphs {n}", "externalids": {}} for n in range(1, 24)]
    edges = [(citing, 1) for citing in range(3, 13)] + [(citing, 2) for citing in range(13, 24)]
    path = library_of(tmp_path, rows, edges, keep="title")
    with Library.open(path, settings=load_settings(fusion_depth=10)) as library:
        for paper_id, relation in (("CorpusId:1", "eq"), ("CorpusId:2", "gte")):
            response = library.similar(paper_id, limit=20)
            assert (response.total, response.total_relation) == (10, relation)


@pytest.mark.slow
def test_a_library_without_edges_has_only_vectors(tmp_path: Path) -> None:
    with small(tmp_path, edges=False, dense=True) as library:
        response = library.similar("CorpusId:1", explain=True)
        assert {one.leg for hit in response.results for one in hit.explain or ()} == {"dense"}
        assert (set(numbers(response)[:2]), numbers(response)[2]) == ({2, 3}, 4)
        assert [hit.score for hit in response.results] == [1 / (60 + rank) for rank in (1, 2, 3)]
        assert (response.total, response.total_relation) == (3, "eq")
        nothing = library.similar("CorpusId:5")
        assert (nothing.results, nothing.total, nothing.total_relation) == ((), 0, "eq")
        assert "'CorpusId:5' has no similar papers: it has no dense vector" in nothing.warnings[0]


def test_a_library_with_neither_is_an_error(tmp_path: Path) -> None:
    with small(tmp_path, edges=False, dense=False) as library, pytest.raises(UnsupportedMode) as error:
        library.similar("CorpusId:1")
    assert str(error.value) == (
        "similar papers require dense vectors or citations, and this library was built without both: ingest with "
        "--encoder, or from a release with citations, or search for words of the paper's title."
    )
    with pytest.raises(LibraryError, match="is closed"):
        library.similar("CorpusId:1")
