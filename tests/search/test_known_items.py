"""Known items: a query that is a paper's id, link or title finds this paper first."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scholarbase.identifiers import parse
from scholarbase.indexes.titles import normalize_title
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.requests import SearchRequest
from scholarbase.search import known_items
from scholarbase.search.known_items import KnownItem, put_first
from scholarbase.search.library import Library
from tests.libraries import opened_library, papers_of
from tests.search.test_library import ids

SPARSE: list[dict[str, Any]] = [
    {"mode": "sparse", "engine": engine} for engine in (None, "bm25", "feedback", "fts5")
]
DENSE: list[dict[str, Any]] = [{"mode": "hybrid"}, {"mode": "dense"}, {"mode": "hybrid", "engine": "fts5"}]
TITLES = 80
QCD = "arXiv:hep-th/9301068"
QCD_TITLE = "Two Dimensional QCD is a String Theory"


def titles_of(library: Library, count: int) -> list[str]:
    """Titles of papers that the library holds, spread over it."""
    held = numbers_of(library)
    some = held[:: max(1, len(held) // count)][:count]
    return [str(paper.title) for paper in library._catalog.papers(some, ["title"])]


def numbers_of(library: Library) -> list[int]:
    """The catalogue ids of all papers."""
    with library.catalog.reading() as connection:
        return [row[0] for row in connection.execute("SELECT id FROM papers ORDER BY id")]


def not_first(library: Library, titles: Sequence[str], **way: Any) -> list[str]:
    """The titles of which no paper with an equal title comes first."""
    missed = []
    for title in titles:
        results = library.search(title, limit=1, fields=["title"], **way).results
        if not results or normalize_title(results[0].paper.title or "") != normalize_title(title):
            missed.append(title)
    return missed


def paged(library: Library, q: str, size: int, most: int, **way: Any) -> list[str]:
    """The ids of the pages of this size, up to ``most`` results."""
    found: list[str] = []
    offset: int | None = 0
    while offset is not None and len(found) < most:
        page = library.search(q, limit=size, offset=offset, fields=["id"], **way)
        found += ids(page)
        offset = page.next_offset
    return found


# -- titles -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", SPARSE, ids=str)
def test_pasted_titles_were_not_first(sample: Library, way: dict[str, Any]) -> None:
    titles = titles_of(sample, TITLES)
    assert len(titles) == TITLES
    assert len(not_first(sample, titles, **way)) <= 2


@pytest.mark.parametrize(
    "q", [QCD_TITLE, "two-dimensional qcd is a string theory.", "  TWO DIMENSIONAL QCD IS A STRING THEORY "]
)
def test_a_title_is_explained(sample: Library, q: str) -> None:
    response = sample.search(q, mode="sparse", limit=3, explain=True)
    first = response.results[0]
    assert normalize_title(first.paper.title or "") == normalize_title(QCD_TITLE)
    assert first.explain is not None
    title, bm25 = first.explain
    assert (title.leg, title.rank, title.score, title.terms) == ("title", 1, 1.0, ())
    assert bm25.leg == "bm25"
    assert title.share + bm25.share == pytest.approx(first.score)
    assert all(leg.leg != "title" for hit in response.results[2:] for leg in hit.explain or ())


def test_the_title_in_quotation_marks_is_strict_and_first(sample: Library) -> None:
    response = sample.search(f'"{QCD_TITLE}"', mode="sparse", explain=True)
    assert response.engine == "fts5"
    assert response.results[0].explain is not None
    assert response.results[0].explain[0].leg == "title"


def test_strict_syntax_has_no_known_items(sample: Library) -> None:
    response = sample.search(QCD_TITLE, mode="sparse", syntax="query", explain=True)
    assert all(leg.leg == "fts5" for hit in response.results for leg in hit.explain or ())
    assert sample.search(QCD, syntax="query", mode="sparse").total == 0


# -- phrases that are titles ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def phrases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Papers about machine translation and about BERT, and papers with these titles."""
    folder = tmp_path_factory.mktemp("phrases")
    topics = [f"Machine translation of languages, part {n}" for n in range(12)]
    names = [f"Experiments with BERT, part {n}" for n in range(12)]
    texts = [
        *((title, "We study machine translation. Machine translation is hard.") for title in topics),
        *((title, "We fine-tune BERT. BERT is a model.") for title in names),
        ("Machine Translation", "Something else entirely, with many more words about other matters."),
        (
            "BERT: Pre-training of Deep Bidirectional Transformers",
            "A language model of some size, and much more.",
        ),
        ("Attention Is All You Need", "Recurrence is not."),
        *((f"Attention is all you need for {n} tasks", "Attention.") for n in range(12)),
        *((f"Shared name: the {n}th part", "Something.") for n in ("one", "two", "three", "four")),
        *((f"Rare name: the {n}th part", "Something.") for n in ("one", "two", "three")),
    ]
    with opened_library(folder, papers_of(texts)) as opened:
        yield opened


def first_titles(library: Library, q: str, count: int = 1) -> list[str | None]:
    return [hit.paper.title for hit in library.search(q, mode="sparse", limit=count).results]


def test_a_common_phrase_that_is_a_title_changes_nothing(phrases: Library) -> None:
    settings = phrases.settings.model_copy(update={"known_items": False})
    with Library.open(phrases.path, settings=settings) as without:
        expected = without.search("machine translation", mode="sparse")
    assert phrases.search("machine translation", mode="sparse").results == expected.results
    assert expected.results[0].paper.title != "Machine Translation"


def test_a_name_that_many_titles_contain_is_first(phrases: Library) -> None:
    for q in ("BERT", "bert"):
        assert first_titles(phrases, q) == ["BERT: Pre-training of Deep Bidirectional Transformers"]


def test_three_papers_may_share_what_is_before_the_colon(phrases: Library) -> None:
    response = phrases.search("Rare name", mode="sparse", limit=4, explain=True)
    legs = [[leg.leg for leg in hit.explain or ()] for hit in response.results]
    assert [names[0] for names in legs[:3]] == ["title"] * 3
    assert [hit.score for hit in response.results] == sorted(
        (hit.score for hit in response.results), reverse=True
    )
    shared = phrases.search("Shared name", mode="sparse", limit=4, explain=True)
    assert all(leg.leg != "title" for hit in shared.results for leg in hit.explain or ())


# -- words that are titles --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """120 papers on the IoT before a paper with this title, and 120 on BERT after one with this title."""
    folder = tmp_path_factory.mktemp("dated")
    texts = [
        *((f"Sensors of kind {n}", "The IoT has many IoT devices.", "2015-03-02") for n in range(120)),
        ("IOT: Instance-wise Layer Reordering", "Layers of a network are reordered.", "2021-03-05"),
        ("BERT: Pre-training of Deep Bidirectional Transformers", "A model of language.", "2018-10-11"),
        *((f"Tuning models of kind {n}", "We tune BERT. BERT is large.", "2020-05-07") for n in range(120)),
        ("BERT: A Review", "What is known.", "2021-03-22"),
        ("C# - Connecting a Mobile Application", "A database.", "2009-03-04"),
        ("X*: Anytime Path Finding", "Agents find paths.", "2018-11-29"),
        ("Big-Bird: Longer Sequences", "Attention is sparse.", "2020-07-28"),
        *((f"A U-Net of kind {n}", "The unet or UNet is deep.", "2019-01-01") for n in range(120)),
        ("U-Net: Machine Reading Comprehension", "Unanswerable questions.", "2018-10-12"),
        *((f"Radios of kind {n}", "LoRA is a radio.", "2016-02-01") for n in range(10)),
        ("LoRA: Low-Rank Adaptation", "Adapters are small.", "2021-06-17"),
        *((f"Adapters of kind {n}", "We use LoRA.", "2022-05-01") for n in range(110)),
        *((f"Descent of kind {n}", "SGD converges.", "2015-02-01") for n in range(45)),
        ("SGD: Improved Rates", "Steps are small.", "2019-01-27"),
        *((f"Steps of kind {n}", "We use SGD.", "2020-05-01") for n in range(75)),
    ]
    rows = [
        row | {"publicationdate": day, "year": int(day[:4])}
        for row, (_, _, day) in zip(papers_of(text[:2] for text in texts), texts, strict=True)
    ]
    with opened_library(folder, rows) as opened:
        yield opened


def named(library: Library, q: str, **filters: Any) -> list[str | None]:
    """The titles of the papers that come first because they are named."""
    found = library.search(q, mode="sparse", limit=5, explain=True, **filters)
    return [hit.paper.title for hit in found.results if hit.explain and hit.explain[0].leg == "title"]


def test_a_topic_found_a_paper_whose_title_begins_like_it(dated: Library) -> None:
    for q in ("iot", "IoT", "c", "C++", "f#", "unet", "UNet"):
        assert named(dated, q) == [], q


def test_a_word_that_a_paper_introduced_is_its_name(dated: Library) -> None:
    bert = "BERT: Pre-training of Deep Bidirectional Transformers"
    for q, title in (
        *((form, bert) for form in ("BERT", "bert", '"BERT".')),
        ("C#", "C# - Connecting a Mobile Application"),
        ("x*", "X*: Anytime Path Finding"),
        ("bigbird", "Big-Bird: Longer Sequences"),
    ):
        assert named(dated, q, syntax="plain") == [title], q


def test_a_word_with_many_earlier_papers_is_no_name(dated: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_items, "NEW_SHARE_OF_ALL", 1.0)  # as in a library where these papers are few
    assert named(dated, "lora") == ["LoRA: Low-Rank Adaptation"]  # 8% are earlier
    assert named(dated, "sgd") == []  # 37%


def test_a_word_is_common_from_the_day_on_which_many_papers_have_it(dated: Library) -> None:
    assert named(dated, "iot", as_of="2021-12") == []
    assert named(dated, "bert", as_of="2018-12") == ["BERT: Pre-training of Deep Bidirectional Transformers"]


# -- ids and links ----------------------------------------------------------------------------------------


def test_ids_as_texts_write_them_found_other_papers(sample: Library) -> None:
    for q in (
        *(f"({QCD})", "hep-th/9301068.", "<https://arxiv.org/abs/hep-th/9301068>", "CorpusId:1014785"),
        *("10.1016/0550-3213(93)90403-C", "https://doi.org/10.1016/0550-3213(93)90403-c"),
        "arXiv:hep-th/9301068v1 [hep-th] 18 Jan 1993",
        *("arxiv hep-th/9301068", "arXiv preprint arXiv:hep-th/9301068"),
        *("huggingface.co/papers/hep-th/9301068", "https://www.semanticscholar.org/arxiv/hep-th/9301068"),
        *("alphaxiv.org/abs/hep-th/9301068", "ar5iv.org/abs/hep-th/9301068"),
        "[Two Dimensional QCD](https://arxiv.org/abs/hep-th/9301068)",
        "[[hep-th/9301068] Two Dimensional QCD (1993)](<https://arxiv.org/abs/hep-th/9301068>)",
    ):
        [first] = sample.search(q, limit=1, explain=True).results
        assert (first.paper.id, (first.explain or ())[0].leg) == (QCD, "id"), q


def test_a_text_that_may_be_words_is_searched_for_as_words(sample: Library) -> None:
    for q in ("https://example.org/", "doc:quantum", "doc: quantum", "PMC5", "arxiv.org", "13756489"):
        found = sample.search(q, mode="sparse", explain=True)
        assert {leg.leg for hit in found.results for leg in hit.explain or ()} <= {"bm25"}, q
        assert found.warnings == ()


def test_an_id_of_no_paper_found_two_thousand_others(dense: Library) -> None:
    cases = [("2001.99999", way) for way in (*SPARSE, *DENSE)]
    forms = ("(arXiv:2001.99999v2).", "arXiv 2001.99999", "https://arxiv.org/pdf/2001.99999",
             "[a string](https://arxiv.org/abs/2001.99999)")  # fmt: skip
    for q, way in (*cases, *((form, {}) for form in forms)):
        found = dense.search(q, **way)
        assert (found.total, found.total_relation, found.results, found.next_offset) == (0, "eq", (), None)
        assert found.warnings == (
            f"q is the id arXiv:2001.99999, which is not in this library (snapshot {dense.snapshot_id}): search for "
            "the paper's title or topic.",
        )
    for q in ("10.1000/strings", "CorpusId:1", "0" * 40):
        assert dense.search(q).total == 0


# -- filters, pages and totals ----------------------------------------------------------------------------


@pytest.mark.parametrize("q", [QCD, QCD_TITLE])
def test_filters_apply_to_known_items(sample: Library, q: str) -> None:
    for filters in (
        {"from_": "2015"},
        {"to": "1992"},
        {"as_of": "1992-12-01"},
        {"category": "cs"},
        {"exclude_ids": [QCD, "hep-th/9408140"]},
        {"within": ["hep-th/9303046", "hep-th/9309145"]},
        {"exclude": ["string theory", "string"]},
    ):
        response = sample.search(q, mode="sparse", limit=100, explain=True, **filters)  # type: ignore[arg-type]
        assert QCD not in ids(response)
        if q == QCD:
            assert (response.total, response.total_relation, response.results) == (0, "eq", ())
            assert response.warnings == (f"q is the id {QCD}, of a paper that the filters exclude.",)
        assert all(leg.leg == "bm25" for hit in response.results for leg in hit.explain or ())
    assert ids(sample.search(q, mode="sparse", limit=1, as_of="1994-12-01", category="hep-th")) == [QCD]


@pytest.mark.parametrize("way", [*SPARSE, *DENSE, {"mode": "sparse", "exact": True}], ids=str)
def test_a_known_item_is_once_on_the_pages(dense: Library, way: dict[str, Any]) -> None:
    [paper] = dense._catalog.papers([numbers_of(dense)[40]], ["id", "title"])
    for q in (paper.id, str(paper.title)):
        whole = dense.search(q, limit=1000, fields=["id"], **way)
        assert ids(whole)[0] == paper.id
        assert len(set(ids(whole))) == len(whole.results)
        if whole.total_relation == "eq":
            assert len(whole.results) == whole.total
            assert whole.next_offset is None
        scores = [hit.score for hit in whole.results]
        assert scores == sorted(scores, reverse=True)
        for size in (1, 7):
            most = min(3 * size, len(whole.results))
            assert paged(dense, q, size, most, **way)[:most] == ids(whole)[:most]


@pytest.mark.parametrize("engine", ["bm25", "fts5", "feedback"])
def test_the_total_counts_a_paper_that_no_leg_found(sample: Library, engine: Any) -> None:
    settings = sample.settings.model_copy(update={"known_items": False})
    with Library.open(sample.path, settings=settings) as without:
        way: dict[str, Any] = {
            "mode": "sparse",
            "engine": engine,
            "exact": True,
            "limit": 1000,
            "fields": ["id"],
        }
        for q in ("hep-th/9301068", "1706.03762", "CorpusId:1014785"):
            with_item, legs = sample.search(q, **way), without.search(q, **way)
            name = ids(with_item)[0]
            assert with_item.total == legs.total + (name not in ids(legs))
            assert sorted(ids(with_item)) == sorted({*ids(legs), name})


def test_the_total_counts_a_paper_beyond_the_ranking_once(sample: Library) -> None:
    """FTS5 counts all matches; the paper is among them, but not among the first hundred."""
    settings = sample.settings.model_copy(update={"known_items": False})
    q = "The QCD of a string in a theory of two strings and the quantum"
    with Library.open(sample.path, settings=settings) as without:
        total = without.search(q, mode="sparse", engine="fts5", limit=1).total
        assert total > 100
        last = without.search(q, mode="sparse", engine="fts5", limit=1000).results[-1].paper.id
        number = without._catalog.resolve([parse(last)])[0]
    assert number is not None
    plan, _ = sample._plan(SearchRequest(q=q, mode="sparse", engine="fts5"))
    known = (KnownItem(number, "title"),)
    ranking = sample._ranker.rank(replace(plan, known=known))
    assert (ranking.hits[0].id, ranking.total) == (number, total)


# -- the order --------------------------------------------------------------------------------------------


def test_scores_stay_in_order() -> None:
    hits = [ScoredId(5, 2.0), ScoredId(3, 1.5), ScoredId(4, 1.0)]
    one, two = KnownItem(4, "title"), KnownItem(9, "title")
    ranked = put_first((one, two), hits)
    assert [hit.id for hit in ranked] == [4, 9, 5, 3]
    assert ranked[0].score > ranked[1].score > ranked[2].score == 2.0
    assert put_first((KnownItem(5, "id"),), hits) == hits
    tied = put_first((two,), [ScoredId(1, 0.5), ScoredId(9, 0.5)])
    assert [hit.id for hit in tied] == [9, 1]
    assert tied[0].score > tied[1].score
    assert put_first((two,), []) == [ScoredId(9, 1.0)]
    assert put_first((one,), [ScoredId(4, -0.5)]) == [ScoredId(4, -0.5)]
    assert math.isfinite(put_first((two,), [ScoredId(1, 0.0)])[0].score)
