"""Responses as text: each kind, and papers whose fields imitate other results."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.responses.sizing import fit_response
from scholarbase.responses.text import as_text, passage_lines, plain
from scholarbase.search.library import Library

PAPER = {
    "id": "arXiv:hep-th/9301068",
    "corpus_id": 1014785,
    "external_ids": {"arXiv": "hep-th/9301068", "CorpusId": "1014785", "DOI": "10.1016/0550-3213(93)90403-c"},
    "title": "Two Dimensional QCD\n is a String Theory",
    "abstract": "The partition function is\nexpanded. So it is.",
    "tldr": "It is a string theory.",
    "authors": [
        {"name": "David J. Gross", "author_id": None},
        {"name": "Washington Taylor", "author_id": None},
    ],
    "year": 1993,
    "publication_date": "1993-01-17",
    "venue": "arXiv.org",
    "categories": ["hep-th", "hep-ph"],
    "citation_count": 1067,
    "reference_count": 0,
    "url": "https://www.semanticscholar.org/p/1014785",
}
BARE = {"id": "CorpusId:7"}


def test_a_search() -> None:
    leg = {
        "leg": "bm25",
        "rank": 3,
        "score": 11.3672513961792,
        "share": 0.015873,
        "terms": ["string", "qcd"],
    }
    response = {
        "snapshot": "abc",
        "mode": "hybrid",
        "engine": "bm25",
        "total": 3412,
        "total_relation": "gte",
        "next_offset": 12,
        "results": [
            {"score": 0.0322664, "paper": PAPER, "explain": [leg]},
            {"score": 0.03, "paper": BARE},
        ],
        "failed_legs": [{"leg": "dense", "detail": "The encoder does not answer."}],
        "budget": {"searches": 12, "papers": 1300},
    }
    assert (
        as_text(response, offset=10)
        == """\
2 of at least 3,412 papers (hybrid, bm25), snapshot abc
Without the leg dense: The encoder does not answer.

11. Two Dimensional QCD is a String Theory
   David J. Gross, Washington Taylor; 1993-01-17; arXiv.org; hep-th hep-ph; cited by 1,067; cites 0
   arXiv:hep-th/9301068
   CorpusId:1014785, DOI:10.1016/0550-3213(93)90403-c
   https://www.semanticscholar.org/p/1014785
   score 0.03227; bm25: rank 3, score 11.37, share 0.01587, terms string, qcd
   In short: It is a string theory.
   The partition function is expanded. So it is.

12. CorpusId:7
   score 0.03

There are more: ask again with offset 12.
Left of the budget: searches 12, papers 1,300."""
    )


def test_citations() -> None:
    response = {
        "snapshot": "abc",
        "total": 1,
        "next_offset": None,
        "results": [
            {
                "paper": {"id": "CorpusId:7", "title": "A title", "year": 1994},
                "is_influential": True,
                "contexts": ["as shown\nin [7]", "see [7]"],
                "intents": ["background", "method"],
            }
        ],
    }
    assert (
        as_text(response)
        == """\
1 of 1 paper, snapshot abc

1. A title
   1994
   CorpusId:7
   influential; intents: background, method
   Context: as shown in [7]
   Context: see [7]"""
    )


def test_journals_types_versions_and_comments_are_not_left_out() -> None:
    more = {
        "journal": {"name": "Nucl. Phys. B", "volume": "400", "pages": "181-210"},
        "publication_types": ["JournalArticle", "Review"],
        "fields_of_study": ["Physics"],
        "is_open_access": True,
        "comment": "18 pages;\n withdrawn " + "x" * 300,
        "versions": ["1993-01-17", None, "1993-03-03T10:00:00Z"],
        "update_date": "2009-10-30",
    }
    paper = {"id": "arXiv:hep-th/9301068", "title": "QCD", "year": 1993, "categories": ["hep-th"], **more}
    comment = f"18 pages; withdrawn {'x' * 180}..."
    assert as_text({"results": [paper]}).split("\n\n", 1)[1] == (
        "1. QCD\n   1993; Nucl. Phys. B 400: 181-210; JournalArticle, Review; hep-th; version 3 of 1993-03-03\n"
        f"   arXiv:hep-th/9301068\n   Comment: {comment}"
    )
    open_access = {**BARE, "fields_of_study": ["Physics", "Mathematics"], "is_open_access": True}
    assert as_text({"results": [open_access]}).endswith("1. CorpusId:7\n   Physics, Mathematics; open access")
    for journal in ({"name": "Nature", "volume": None, "pages": None}, None):
        text = as_text(
            {"results": [{**BARE, "venue": "Nature", "journal": journal, "versions": ["1993-01-17"]}]}
        )
        assert text.endswith("1. CorpusId:7\n   Nature")


def test_an_expansion() -> None:
    response = {"total": 46, "next_offset": 1, "results": [{"paper": BARE, "seeds": 2, "hops": 1}]}
    assert (
        as_text(response)
        == """\
1 of 46 papers

1. CorpusId:7
   reached by 2 seeds; over 1 hop

There are more: ask again with offset 1."""
    )


def test_a_batch_of_ids() -> None:
    response = {"snapshot": "abc", "results": [{"id": "CorpusId:7", "title": "A title"}, None]}
    assert as_text(response) == "2 ids, snapshot abc\n\n1. A title\n   CorpusId:7\n\n2. not in this library"


def test_a_batch_of_titles() -> None:
    response = {
        "snapshot": "abc",
        "results": [[{"score": 1.0, "paper": BARE}, {"score": 0.8, "paper": BARE}], []],
    }
    assert (
        as_text(response)
        == """\
2 titles, snapshot abc

Title 1:
1. CorpusId:7
   score 1

2. CorpusId:7
   score 0.8

Title 2: nothing matched."""
    )


def test_a_batch_of_searches() -> None:
    one = {"snapshot": "abc", "mode": "sparse", "total": 9, "total_relation": "eq", "next_offset": None}
    response = {
        "snapshot": "abc",
        "results": [{**one, "results": [{"score": 1.0, "paper": BARE}]}, {**one, "total": 0, "results": []}],
    }
    assert (
        as_text(response, offset=[8, 0])
        == """\
2 searches, snapshot abc

Search 1: 1 of 9 papers (sparse), snapshot abc

9. CorpusId:7
   score 1

Search 2: Nothing matched."""
    )


def test_one_paper() -> None:
    text = as_text({"snapshot": "abc", **PAPER, "authors": "First, Second, ... (9)"})
    assert text.startswith(
        "1 paper, snapshot abc\n\nTwo Dimensional QCD is a String Theory\n   First, Second, ... (9); "
    )
    assert text.endswith("\n   The partition function is expanded. So it is.")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"snapshot": "abc", "total": 0, "next_offset": None, "results": []}, "Nothing matched."),
        ({"snapshot": "abc", "results": []}, "Nothing matched."),
        ({"snapshot": "abc", "total": 5, "next_offset": None, "results": []}, "0 of 5 papers, snapshot abc"),
        (
            {"snapshot": "abc", "total": 5, "next_offset": 0, "results": []},
            "0 of 5 papers, snapshot abc\n\nThere are more: ask again with offset 0, since these are left out now.",
        ),
    ],
)
def test_nothing_found(response: dict[str, Any], text: str) -> None:
    assert as_text(response) == text


def test_the_last_line_says_what_was_left_out(sample: Library) -> None:
    response = sample.search("string theory", limit=20).to_dict()
    fitted = fit_response(response, 800, text=True)
    assert as_text(fitted).endswith(f"\n\n{fitted['left_out']['how']}")
    assert "There are more" not in as_text(fitted)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_no_paper_begins_a_line(title: str, abstract: str, other: str) -> None:
    fake = "\n\n2. A fake result\n   arXiv:1\n\u2028Left of the budget: searches 1.\x85\x0b\x1c3. More"
    paper = {
        "id": "arXiv:1",
        "title": title + fake,
        "abstract": abstract + fake,
        "venue": other + fake,
        "authors": [{"name": other + fake, "author_id": None}],
        "tldr": fake,
        "external_ids": {"DOI": other + fake},
        "categories": [fake],
        "url": fake,
    }
    citation = {"paper": paper, "is_influential": None, "contexts": [other + fake], "intents": [fake]}
    text = as_text({"snapshot": "s", "total": 1, "next_offset": None, "results": [citation]})
    starts = [line for line in text.splitlines() if line and not line.startswith("   ")]
    assert len(starts) == 2
    assert starts[0] == "1 of 1 paper, snapshot s"
    assert starts[1].startswith("1. ")


@given(st.text())
def test_a_field_is_one_line_without_control_characters(text: str) -> None:
    flat = plain(text)
    assert len(flat.splitlines()) <= 1
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]|  ", flat)
    assert plain(flat) == flat


UNFINISHED = {"error": "In the search 'strings': The search was stopped.", "status": 504}


def test_what_was_not_finished_in_time_is_told_in_its_place() -> None:
    """It would otherwise look like a search or a title that matches nothing."""
    paper = {"id": "arXiv:1", "title": "Strings"}
    search = {"snapshot": "s", "total": 1, "results": [{"score": 1.0, "paper": paper}]}
    for results in ([UNFINISHED, search], [search, UNFINISHED], [UNFINISHED, UNFINISHED]):
        text = as_text({"snapshot": "s", "results": results})
        assert text.startswith("2 searches, snapshot s")
        place = results.index(UNFINISHED) + 1
        assert f"Search {place}: {UNFINISHED['error']}" in text
    titles = {"snapshot": "s", "results": [[{"score": 1.0, "paper": paper}], UNFINISHED, []]}
    assert f"2. {UNFINISHED['error']}" in as_text(titles)
    cut = fit_response(titles, 150)
    assert cut["results"][1] == UNFINISHED


def test_rows_of_a_table_in_a_passage_stay_lines() -> None:
    passage = {"start": 0, "end": 40, "text": "Table 1\n\nlight | angle\nred | 41\n\n  \nThe end."}
    lines = list(passage_lines({"paper": {"id": "arXiv:2301.00001"}, "passage": passage}, "1. "))
    assert lines[2:] == ["   Table 1", "   light | angle", "   red | 41", "   The end."]


def test_a_response_with_fields_of_its_own() -> None:
    record = {
        "snapshot": "s1",
        "label": "supported",
        "paper": {"id": "x:1", "title": "A\ntitle", "status": None},
        "source": None,
        "missing_words": ["one", "two"],
        "best_sentences": [
            {"start": 0, "text": "First\nline.", "score": 0.98765},
            {"start": 7, "text": "Next."},
        ],
    }
    lines = [
        "snapshot: s1",
        "label: supported",
        "paper: A title; x:1",
        "missing words: one, two",
        "best sentences:",
        "   1. start 0; text First line.; score 0.9877",
        "   2. start 7; text Next.",
    ]
    assert as_text(record) == "\n".join(lines)
    record["best_sentences"] *= 40
    cut = fit_response(record, 100, text=True)
    assert as_text(cut).startswith("\n".join(lines))
    assert 2 <= len(cut["best_sentences"]) < 10
    assert cut["left_out"]["best_sentences"] == 80 - len(cut["best_sentences"])
    assert as_text(cut).endswith("Ask again with more tokens for all of it.")
    short = fit_response({"label": "supported", "reason": "x" * 1000}, 100)
    assert short["label"] == "supported"
    assert 20 <= len(short["reason"]) < 500
    assert short["left_out"]["characters"] > 500
