"""What questions want and exclude."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.search.exclusions import read
from scholarbase.search.library import Library
from scholarbase.search.negations import may_exclude
from tests.libraries import opened_library, papers_of
from tests.tables import rows


def test_readings() -> None:
    for q, *expected in rows("negations"):
        understood = read(q)
        found = understood and [understood.wanted, list(understood.excluded), list(understood.avoided)]
        assert found == (expected or None), q


def counted(**papers: int) -> Callable[[str], int]:
    """A count of papers: ``deep_learning=3`` have this phrase, ``title_deep_learning=2`` have it in their title."""

    def count(expression: str) -> int:
        column, _, forms = expression.rpartition("title : ")
        phrases = [" ".join(re.findall(r"\w+", form)) for form in forms.split(" OR ")]
        prefix = "title " if expression != column + forms else ""
        return sum(papers.get(f"{prefix}{phrase}".replace(" ", "_"), 0) for phrase in phrases)

    return count


def test_what_papers_use_as_a_term_is_kept() -> None:
    few = {"wavelets": 1000, "title_wavelets": 100, "BERT": 1000, "minors": 1000}
    for q, negations in (
        ("denoising without wavelets", {"without_wavelets": 5}),
        ("denoising w/o wavelets", {"without_wavelets": 5}),
        ("denoising with no wavelets or curvelets", {"mitigate_wavelets": 50}),
        ("denoising without any wavelets", {"without_any_wavelets": 1, "title_without_any_wavelets": 1}),
        ("denoising not based on wavelets", {"without_wavelets": 2, "title_without_wavelets": 2}),
        ("denoising without curvelets", {"without_curvelets": 1, "curvelets": 20}),
        ("encoders other than BERT", {"other_than_BERT": 5}),
        ("graphs excluding minors", {"excluding_minors": 5}),
    ):
        assert read(q, counted(**few)) is not None
        assert read(q, counted(**few, **negations)) is None, q
    count = counted(**few, without_BERT=9, not_BERT=9, excluding_minors=9, no_wavelets=9)
    for q in ("encoders but not BERT", "graphs, excluding minors", "denoising without wavelets"):
        assert read(q, count) == read(q) is not None


@pytest.mark.parametrize(
    ("q", "papers", "wanted", "thing"),
    [
        ("sparse rather than dense retrieval", "sparse_retrieval", "sparse retrieval", "dense retrieval"),
        ("papers on sound but not complete proof systems", "sound_and_complete", "papers on sound proof systems",
         "complete proof systems"),
        ("translation but not neural networks", "translation", "translation", "neural networks"),
        ("graphs but not neural networks", "graphs_networks", "graphs", "neural networks"),
    ],
)  # fmt: skip
def test_adjectives_share_a_noun(q: str, papers: str, wanted: str, thing: str) -> None:
    understood = read(q, counted(**{papers: 5}))
    assert understood is not None
    assert (understood.wanted, understood.excluded + understood.avoided) == (wanted, (thing,))


def test_documents_are_not_read() -> None:
    for text in (
        "Trees are compared with networks, excluding small ones. " * 8,
        "trees but not networks " * 16,
        "trees but not networks, " * 9,
    ):
        assert read(text) is None


def test_a_question_without_a_negation_needs_no_reading() -> None:
    for q in ("graph neural networks for molecules", "nonlinear notions of notation", "knots and withouts"):
        assert not may_exclude(q)


# -- searches ------------------------------------------------------------------------------------------------

TEXTS = [
    ("Statistical machine translation", "Phrase tables are compared."),
    ("Neural machine translation (NMT)", "Attention is compared."),
    ("Machine translation of poems", "Translators use neural machine translation."),
    ("Machine translation with NMT systems", "Neural networks, without phrase tables."),
    ("Machine translation by rules", "Grammars are written."),
    ("Translation without phrase tables", "Machine learning of neural machine translation (NMT)."),
    *(
        (f"A note {n} on neural machine translation (NMT)", "Attention without phrase tables.")
        for n in range(6)
    ),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("negation")
    with opened_library(folder, papers_of(TEXTS), dense=True) as opened:
        yield opened


WAYS: list[dict[str, Any]] = [
    {"mode": "sparse"},
    {"mode": "sparse", "engine": "feedback"},
    {"mode": "sparse", "engine": "fts5"},
    {"mode": "dense", "min_similarity": -1},
    {"mode": "hybrid", "min_similarity": -1},
]


def numbers(response: Any) -> list[int | None]:
    return [hit.paper.corpus_id for hit in response.results]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_excluded_is_left_out(small: Library, way: dict[str, Any]) -> None:
    found = small.search("machine translation but not neural machine translation", limit=100, **way)
    assert set(numbers(found)) == {1, 5}  # NMT is neural machine translation in these texts
    same = small.search(
        "machine translation", exclude=["neural machine translation", "NMT"], limit=100, **way
    )
    assert found.results == same.results
    assert found.total == same.total
    fewer = small.search(
        "machine translation but not neural machine translation", limit=100, exclude_ids=["CorpusId:1"], **way
    )
    assert numbers(fewer) == [5]
    assert found.to_dict()["understood"] == {
        "wanted": "machine translation",
        "excluded": ["neural machine translation", "NMT"],
        "avoided": [],
    }
    off = small.search(
        "machine translation but not neural machine translation", limit=100, negation="off", **way
    )
    assert len(off.results) == len(TEXTS)
    assert "understood" not in off.to_dict()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_avoided_comes_last(small: Library, way: dict[str, Any]) -> None:
    q = "machine translation without grammars or poems"
    pages = []
    offset: int | None = 0
    while offset is not None:
        page = small.search(q, limit=4, offset=offset, explain=True, **way)
        pages.append(page)
        offset = page.next_offset
    hits = [hit for page in pages for hit in page.results]
    order = [hit.paper.corpus_id for hit in hits]
    assert sorted(order) == list(range(1, len(TEXTS) + 1))
    assert set(order[-2:]) == {3, 5}
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    for hit in hits:
        assert hit.explain
        assert sum(leg.share for leg in hit.explain) == pytest.approx(hit.score)
        assert (hit.explain[-1].leg == "avoided") == (hit.paper.corpus_id in (3, 5))
    assert pages[-1].understood is not None
    assert pages[-1].understood.avoided == ("grammars", "poems")
    assert pages[-1].total == len(TEXTS)
    filtered = small.search(q, limit=100, within=["CorpusId:5", "CorpusId:1"], **way)
    assert numbers(filtered) == [1, 5]
    without = small.search(q, limit=100, exclude_ids=["CorpusId:5"], **way)
    assert set(numbers(without)) == set(order) - {5}


def test_a_term_and_a_title_of_the_library_are_kept(small: Library) -> None:
    # Seven of the eight papers with phrase tables have none.
    assert small.search("translation without phrase tables and notes").understood is None
    found = small.search("translation without phrase tables", fields=["corpus_id"])
    assert numbers(found)[0] == 6
    assert found.understood is None


def test_what_does_without_it_is_not_lowered(small: Library) -> None:
    # Papers 2 and 7 to 12 have attention, and paper 4 has neural networks without phrase tables.
    found = small.search("neural networks rather than phrase tables", mode="sparse", explain=True)
    last = [hit.paper.corpus_id for hit in found.results if hit.explain and hit.explain[-1].leg == "avoided"]
    assert 4 not in last


def test_a_quoted_exclusion_is_read(small: Library) -> None:
    for q in (
        'machine translation but not "neural machine translation"',
        "machine translation excluding \u201cNMT\u201d",
    ):
        assert set(numbers(small.search(q, mode="sparse"))) == {1, 5}
    assert small.search('"machine translation" NOT "neural" but not "rules"').understood is None


def test_query_syntax_is_not_read(small: Library) -> None:
    found = small.search('"machine translation" NOT poems but not rules', syntax="query")
    assert found.understood is None
    with pytest.raises(InvalidRequest, match="negation"):
        small.search("x", negation="on")  # type: ignore[arg-type]


def test_an_exclusion_that_leaves_nothing_says_so(small: Library) -> None:
    found = small.search("rules but not grammars or the poems, or translation", mode="sparse")
    assert found.total == 0
    assert found.warnings == ("What q excludes removes every result: 1 without it.",)


def test_facets_and_batches_read_it_alike(small: Library) -> None:
    q = "machine translation but not neural machine translation"
    facets = small.run_facets(FacetsParameters(q=q, mode="sparse"))
    assert facets.total == 2
    assert small.run_facets(FacetsParameters(q=q, mode="sparse", negation="off")).total == len(TEXTS)
    assert small.run_facets(FacetsParameters(q=q, exact=True)).total == 2
    with pytest.raises(InvalidRequest, match="negation 'off' has no effect without q"):
        FacetsParameters(negation="off")
    [one] = small.search_batch([{"q": q, "mode": "sparse"}])
    assert numbers(one) == numbers(small.search(q, mode="sparse"))


def test_a_question_without_a_negation_has_the_same_bytes(small: Library) -> None:
    for q in (
        "machine translation",
        "non-linear poems",
        "not all poems",
        "translation with and without rules",
    ):
        auto, off = (small.search(q, negation=one).to_dict() for one in ("auto", "off"))  # type: ignore[arg-type]
        assert auto == off


def test_text_shows_what_was_understood(small: Library) -> None:
    from scholarbase.responses.text import as_text

    found = small.search("machine translation but not poems, without grammars", limit=1)
    lines = as_text(found.to_dict()).splitlines()
    assert lines[1:4] == ["Searched for: machine translation", "Left out: poems", "Last: grammars"]
    assert re.match("1 of at least", lines[0])
