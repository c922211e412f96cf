"""The preference of a search for recent or cited papers, compared with factors computed from the papers."""

from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.search.library import Library
from tests.libraries import opened_library

Q = "supersymmetric gauge theories"


@pytest.mark.parametrize("way", [{}, {"mode": "sparse"}, {"mode": "dense"}, {"fusion": "rrf"}])
def test_a_score_is_multiplied_by_a_function_of_the_age(library: Library, way: dict[str, Any]) -> None:
    plain = {hit.paper.id: hit.score for hit in library.search(Q, limit=100, **way).results}
    found = library.search(Q, limit=100, prefer="recent", to="2003-01-01", explain=True, **way).results
    plain |= {hit.paper.id: hit.score for hit in library.search(Q, limit=100, to="2003-01-01", **way).results}
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    for hit in found:
        leg = (hit.explain or ())[-1]
        assert leg.leg == "recent"
        assert sum(one.share for one in hit.explain or ()) == pytest.approx(hit.score)
        if hit.paper.publication_date and hit.paper.id in plain:
            year, month, day = map(int, hit.paper.publication_date.split("-"))
            age = 2003 - year + (1 - month) / 12 + (1 - day) / 365
            assert leg.score == pytest.approx(1 / (1 + age / 3))
            assert hit.score == pytest.approx(plain[hit.paper.id] * leg.score)


def test_citations_are_those_known_at_a_day(library: Library) -> None:
    now = library.search(Q, prefer="cited", explain=True, fields=["citation_count"], graph_weight=0).results
    for hit in now:
        assert (hit.explain or ())[-1].score == pytest.approx((1 + (hit.paper.citation_count or 0)) ** 0.1)
    then = library.search(Q, prefer="cited", explain=True, as_of="1996-12", fields=["id"]).results
    for hit in then[:3]:
        known = library.citations(hit.paper.id, as_of="1996-12").total
        assert (hit.explain or ())[-1].score == pytest.approx((1 + known) ** 0.1)


def test_no_preference_changes_nothing(library: Library) -> None:
    assert library.search(Q, prefer="none") == library.search(Q)


def test_citations_of_a_day_require_citations(tmp_path: Path) -> None:
    row = {
        "corpusid": 1,
        "title": "Gravity",
        "abstract": "Of waves.",
        "year": 2024,
        "publicationdate": "2024-01-05",
    }
    with (
        opened_library(tmp_path, [row]) as without,
        pytest.raises(InvalidRequest, match="prefer 'cited' cannot be combined with as_of '2024-06'"),
    ):
        without.search("gravity", prefer="cited", as_of="2024-06")


@pytest.mark.parametrize("way", [{"mode": "sparse"}, {"mode": "dense"}, {}])
def test_the_order_does_not_depend_on_the_page(library: Library, way: dict[str, Any]) -> None:
    def ids(**page: Any) -> list[str]:
        results = library.search(Q, prefer="recent", fields=["id"], **page, **way).results
        scores = [hit.score for hit in results]
        assert scores == sorted(scores, reverse=True)
        return [hit.paper.id for hit in results]

    whole = ids(limit=400)
    assert len(set(whole)) == len(whole)
    assert [one for offset in range(0, 400, 50) for one in ids(limit=50, offset=offset)] == whole
    assert ids(limit=10) == ids(limit=101)[:10] == whole[:10]
    assert ids(limit=10, offset=295) == whole[295:305]


def test_a_preference_raises_negative_scores_too(library: Library) -> None:
    results = library.search(
        Q, mode="dense", min_similarity=-1, prefer="cited", explain=True, limit=1000, offset=1440
    ).results
    negative = [hit for hit in results if hit.score < 0]
    factors = {(hit.explain or ())[-1].score for hit in negative}
    assert len(factors) > 1
    assert all((hit.explain or ())[-1].share >= 0 for hit in negative)


def test_a_preference_without_effect_has_a_warning(library: Library, tmp_path: Path) -> None:
    rows = [{"corpusid": 1, "title": "Gravity", "abstract": "Of waves."}]
    with opened_library(tmp_path, rows) as bare:
        assert bare.search("gravity", prefer="recent").warnings == (
            "prefer 'recent' changes nothing, because no paper of this library has a date.",
        )
        assert bare.search("gravity", prefer="cited").warnings == (
            "prefer 'cited' changes nothing, because no paper of this library has a citation count.",
        )
    assert library.search(Q, prefer="recent").warnings == library.search(Q, prefer="cited").warnings == ()


def test_one_late_paper_does_not_decide_the_newest_day(tmp_path: Path) -> None:
    rows = [
        {
            "corpusid": n,
            "title": f"Gravity {n}",
            "abstract": "Of waves.",
            "publicationdate": f"2003-01-{n % 28 + 1:02}",
        }
        for n in range(1, 101)
    ]
    rows[0] |= {"publicationdate": "2016-06-05"}
    with opened_library(tmp_path, rows) as opened:
        assert opened.catalog.newest_day == 20030128
        best = opened.search("gravity", prefer="recent", explain=True, limit=1, mode="sparse").results[0]
        assert (best.explain or ())[-1].score == 1
