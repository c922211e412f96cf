"""How queries are read: as words, as query syntax, or as what they look like."""

from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.indexes import query_syntax
from scholarbase.indexes.vectors.bm25 import without_shortened
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from tests.conftest import arxiv_rows
from tests.search.test_library import ids

ENGINES: tuple[Any, ...] = (None, "bm25", "feedback", "fts5")
ABSTRACTS = 25


def abstracts(marked: bool) -> list[tuple[str, str]]:
    """Ids and abstracts of the sample, the same at every run: those with characters of query syntax, or all."""
    rows = [
        (f"arXiv:{row['id']}", " ".join(row["abstract"].split()))
        for row in arxiv_rows()
        if not marked or query_syntax.is_syntax(row["abstract"])
    ]
    return rows[:: max(1, len(rows) // ABSTRACTS)][:ABSTRACTS]


# -- abstracts as queries ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_abstracts_that_found_nothing_find_their_papers(sample: Library, engine: Any, marked: bool) -> None:
    queries = abstracts(marked)
    assert len(queries) >= 20
    for paper_id, text in queries:
        found = sample.search(text, mode="sparse", engine=engine, limit=1, fields=["id"])
        assert ids(found) == [paper_id], found.warnings


# -- auto -------------------------------------------------------------------------------------------------


def test_a_text_that_strict_syntax_would_leave_empty_is_ranked_by_its_words(sample: Library) -> None:
    for q, warning in (
        ('Which "brane" papers did nobody NOT write', "no paper matches it as query syntax"),
        ('is there a "two dimensional QCD" with solar neutrinos', "as query syntax: use syntax=query"),
        ('Does "string field theory" need tachyon zzyzx?', "no paper matches it"),
        ('alpha beta gamma delta epsilon zeta "eta"', "no paper matches it"),
        ('"string theory" AND', "its query syntax is invalid. Nothing to search for at character 20"),
        ('strings "and branes" )', "A closing parenthesis without an opening one at character 22"),
        ("au:Witten strings", "'au:' is not a field of the query"),
        (
            "a* OR " + " OR ".join(f"{c}{d}*" for c in "bcd" for d in "aeiou"),
            "more than 10 prefixes",
        ),
    ):
        auto = sample.search(q, mode="sparse")
        plain = sample.search(q, mode="sparse", syntax="plain")
        assert (auto.engine, auto.results, auto.total) == ("bm25", plain.results, plain.total)
        assert plain.warnings == ()
        [sentence] = auto.warnings
        assert warning in sentence
        assert sentence.startswith("q is ranked as plain text, because ")


def test_a_query_that_finds_few_papers_stays_strict(sample: Library) -> None:
    nothing = ("No paper matches q as query syntax: use syntax=plain to rank papers by its words.",)
    for q in (
        *('"string field theory tachyon"', "title:tachyon AND title:vacuum", "graviton NOT string"),
        *('"two dimensional QCD" NOT string', "tachy* AND gluin*"),
    ):
        auto, query = (sample.search(q, mode="sparse", syntax=syntax) for syntax in ("auto", "query"))  # type: ignore[arg-type]
        assert auto.engine == "fts5"
        assert (auto.total, auto.results) == (query.total, query.results)
        assert auto.warnings == (() if auto.total else nothing)


def test_prose_that_ten_papers_match_stays_strict(sample: Library) -> None:
    q = 'which paper is on "string theory"'
    strict = sample.search(q, mode="sparse", syntax="query", limit=1000)
    assert strict.total >= 10
    auto = sample.search(q, mode="sparse", limit=1000)
    assert (auto.engine, auto.total, auto.warnings, auto.results) == (
        "fts5",
        strict.total,
        (),
        strict.results,
    )
    # Filters count: nine of the papers are too few.
    nine = ids(strict)[:9]
    within = sample.search(q, mode="sparse", within=nine)
    assert within.engine == "bm25"
    assert "only 9 papers match" in within.warnings[0]
    assert sample.search(q, mode="sparse", within=ids(strict)[:10]).engine == "fts5"


@pytest.mark.parametrize(
    "way", [{"mode": "sparse"}, {"mode": "hybrid"}, {"mode": "sparse", "engine": "fts5"}]
)
def test_every_page_is_read_as_the_first(dense: Library, way: dict[str, Any]) -> None:
    for q in ('Which "string" theories are (not', 'which "theory" is it', 'which papers are not "gauge"'):
        whole = dense.search(q, limit=60, fields=["id"], **way)
        pages = [dense.search(q, limit=20, offset=at, fields=["id"], **way) for at in (0, 20, 40)]
        assert [i for page in pages for i in ids(page)] == ids(whole)
        assert {(page.engine, page.total, page.warnings) for page in pages} == {
            (whole.engine, whole.total, whole.warnings)
        }


def test_a_hybrid_search_of_prose_ranks_every_paper_again(dense: Library) -> None:
    q = 'Which paper says "nothing like this phrase" of strings?'
    auto = dense.search(q, mode="hybrid", limit=50)
    plain = dense.search(q, mode="hybrid", limit=50, syntax="plain")
    assert (auto.engine, auto.total) == ("feedback", plain.total)
    assert auto.results == plain.results
    assert dense.search(q, mode="hybrid", syntax="query").total == 0


@pytest.mark.parametrize(
    "way",
    [
        {"mode": "sparse"},
        {"mode": "sparse", "engine": "fts5"},
        {"mode": "sparse", "exact": True},
        {"mode": "hybrid"},
        {"mode": "hybrid", "from_": "1993"},
    ],
)
@pytest.mark.parametrize("q", ['which paper is on "gauge theory"', 'is it "in two dimensions"'])
def test_the_few_papers_that_match_a_sentence_strictly_were_not_first(
    dense: Library, q: str, way: dict[str, Any]
) -> None:
    within = {name: value for name, value in way.items() if name == "from_"}
    strict = dense.search(q, mode="sparse", syntax="query", limit=100, fields=["id"], **within)
    assert 1 <= strict.total < 10
    auto = dense.search(q, limit=1000, fields=["id"], explain=True, **way)
    plain = dense.search(q, limit=1000, fields=["id"], syntax="plain", **way)
    assert ids(auto)[: strict.total] == ids(strict)
    assert ids(auto)[strict.total :] == [one for one in ids(plain) if one not in ids(strict)]
    firsts = [hit.explain[0].leg for hit in auto.results if hit.explain]
    assert firsts[: strict.total] == ["syntax"] * strict.total
    assert "syntax" not in firsts[strict.total :]
    assert "first: use syntax=query for those alone." in auto.warnings[0]
    scores = [hit.score for hit in auto.results]
    assert scores == sorted(scores, reverse=True)
    pages = [dense.search(q, limit=4, offset=at, fields=["id"], **way) for at in (0, 4, 8)]
    assert [one for page in pages for one in ids(page)] == ids(auto)[:12]
    assert {(page.total, page.total_relation) for page in pages} == {(auto.total, auto.total_relation)}
    if auto.total_relation == "eq":
        assert auto.total == len({*ids(plain), *ids(strict)})


# -- plain and query --------------------------------------------------------------------------------------


def test_plain_reads_quotation_marks_and_operators_as_punctuation(sample: Library) -> None:
    for engine in ENGINES:
        marked = sample.search(
            '"string" AND (theory NOT brane*)', mode="sparse", engine=engine, syntax="plain"
        )
        words = sample.search("string theory brane", mode="sparse", engine=engine)
        assert marked.engine == words.engine
        if engine != "fts5":  # whose stop words are dropped alike, but whose terms keep their order
            assert marked.results == words.results
        assert ids(marked) == ids(words)


def test_query_reads_words_as_query_syntax(sample: Library) -> None:
    strict = sample.search("tachyon vacuum", mode="sparse", syntax="query", limit=1000)
    both = sample.search("tachyon AND vacuum", mode="sparse", limit=1000)
    assert strict.engine == "fts5"
    assert (strict.total, ids(strict)) == (both.total, ids(both))


def test_tools_read_plainly_unless_told_otherwise(sample: Library) -> None:
    tools = Tools(sample)
    q = '"tachyon vacuum" )'
    assert tools.call("search_papers", {"q": q})["engine"] == "bm25"
    assert "warnings" not in tools.call("search_papers", {"q": q})
    assert tools.call("search_papers", {"q": '"tachyon"', "syntax": "query"})["engine"] == "fts5"
    with pytest.raises(InvalidRequest, match="at character"):
        tools.call("search_papers", {"q": q, "syntax": "query"})


# -- single letters ---------------------------------------------------------------------------------------


def test_contractions_searched_for_single_letters(sample: Library) -> None:
    for q, words in (
        ("I'm looking for gauge theories", "gauge theories"),
        ("I’d like gauge theories, e.g. lattices", "gauge theories lattices"),
        ("gauge theories (i.e. bundles) don't", "gauge theories bundles"),
        ("gauge theories w.r.t. anomalies, a.k.a. obstructions", "gauge theories anomalies obstructions"),
        ("E.g. gauge theories", "gauge theories"),
    ):
        for engine in ENGINES:
            marked = sample.search(q, mode="sparse", engine=engine, explain=True)
            assert marked.results == sample.search(words, mode="sparse", engine=engine, explain=True).results
    for q in ("vitamin D", "p-value", "the E and G bands", "type I error", "C. elegans", "e.g."):
        assert without_shortened(q) == q
