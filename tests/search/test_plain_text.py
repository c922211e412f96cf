"""Texts and queries are read alike, however they are written; formulas stay as their authors wrote them."""

from collections.abc import Iterator
from typing import Any

import pytest

from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.writing import write_papers
from scholarbase.client import Client
from scholarbase.models.papers import PAPER_FIELDS, AsWritten
from scholarbase.search.library import Library
from tests.conftest import run_cli, serving_in_thread
from tests.libraries import opened_library

TEXTS = {
    1: (r"A B\"acklund transformation", "Solitons of a chain are related to each other."),
    2: ("The B&auml;cklund problem", "Surfaces of constant curvature are studied here."),
    3: ("Waves in plasma", "We use B\u00e4cklund's <i>method</i> for waves in a plasma."),
    4: ("CO$_2$ capture by porous solids", "Abstract: Solids that hold 50% of CO$_{2}$ and H$_2$O."),
    5: (r"${\cal N}=4$ super Yang-Mills theory", r"Amplitudes at $\lambda \to \infty$ in gauge theory."),
    6: (r"$\alpha$ decay of heavy nuclei", "Lifetimes of nuclei are measured. \u00a9 2001 The Authors."),
    7: ("Alpha particles in the Sun", "Their spectrum is computed."),
    8: ("Prices from $5 to $10", "If p<0.05 then List<T> has a &lt; b."),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("written")
    rows: list[dict[str, Any]] = [
        {
            "corpusid": number,
            "title": title,
            "abstract": abstract,
            "authors": [{"authorId": str(number), "name": rf"{'ABCDEFGH'[number - 1]}. G\"odel"}],
            "externalids": {"ArXiv": f"2001.0000{number}"},
            "year": 2000 + number,
        }
        for number, (title, abstract) in TEXTS.items()
    ]
    with opened_library(folder, rows, dense=True) as library:
        yield library


def numbers(library: Library, q: str, **options: Any) -> list[int]:
    return [hit.paper.corpus_id or 0 for hit in library.search(q, **options).results]


@pytest.mark.parametrize("q", ["Bäcklund", "Backlund", r"B\"acklund", "B&auml;cklund", r"B{\"a}cklund"])
@pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
def test_a_word_is_found_however_it_is_written(written: Library, q: str, mode: Any) -> None:
    assert set(numbers(written, q, mode=mode)[:3]) == {1, 2, 3}
    if mode == "sparse":
        assert set(numbers(written, q, mode=mode, engine="fts5")) == {1, 2, 3}


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("CO2", {4}),
        ("CO$_2$", {4}),
        ("CO<sub>2</sub>", {4}),
        ("H2O", {4}),
        ("alpha", {6, 7}),
        ("α", {6, 7}),
        (r"$\alpha$", {6, 7}),
        ("λ", {5}),
        ("lambda", {5}),
        ('"N 4 super"', {5}),
        ('"α particles"', {7}),
        ("title:α", {6, 7}),
        ("amp", set()),
        ("mathcal", set()),
    ],
)
def test_formulas_are_found_by_what_they_say(written: Library, q: str, expected: set[int]) -> None:
    assert set(numbers(written, q, mode="sparse")) == expected
    if '"' not in q:
        assert set(numbers(written, q, mode="sparse", engine="fts5")) == expected


def test_words_of_the_query_that_a_paper_has_in_another_form(written: Library) -> None:
    hits = written.search("alpha decay", mode="sparse", engine="bm25", explain=True).results
    assert hits[0].explain is not None
    assert hits[0].explain[0].terms == ("alpha", "decay")


@pytest.mark.parametrize(
    ("title", "number"),
    [
        ("α decay of heavy nuclei", 6),
        (r"$\alpha$-decay of heavy nuclei", 6),
        ("alpha decay of heavy nuclei", 6),
        ("CO2 capture by porous solids", 4),
        (r"$\mathcal{N}=4$ super {Yang}-{Mills} theory", 5),
        (r"A B{\"a}klund transformation", 1),
    ],
)
def test_titles_are_matched_however_they_are_written(written: Library, title: str, number: int) -> None:
    best = written.match_title(title).results[0]
    assert best.paper.corpus_id == number
    assert best.score == 1.0 or "klund" in title


def test_a_reference_in_tex_is_held(written: Library) -> None:
    entry = r"@misc{k, title={{$\alpha$} decay of heavy nuclei}, author={G{\"o}del, F.}, year=2006}"
    [checked] = written.check_references(entry).results
    assert checked.paper is not None
    assert checked.paper.corpus_id == 6


def test_authors_are_found_by_tex(written: Library) -> None:
    assert written.search_authors(r"G\"odel").total == written.search_authors("Gödel").total == 8


def test_texts_are_plain_and_formulas_as_they_were_written(written: Library) -> None:
    papers = [written.paper(f"CorpusId:{n}", fields=("title", "abstract", "as_written")) for n in TEXTS]
    assert [paper.title for paper in papers] == [
        "A Bäcklund transformation",
        "The Bäcklund problem",
        "Waves in plasma",
        "CO2 capture by porous solids",
        "N=4 super Yang-Mills theory",
        "α decay of heavy nuclei",
        "Alpha particles in the Sun",
        "Prices from $5 to $10",
    ]
    assert papers[2].abstract == "We use Bäcklund's method for waves in a plasma."
    assert papers[3].abstract == "Solids that hold 50% of CO2 and H2O."
    assert papers[5].abstract == "Lifetimes of nuclei are measured."
    assert papers[7].abstract == "If p<0.05 then List<T> has a < b."
    assert [paper.as_written for paper in papers] == [
        None,
        None,
        None,
        AsWritten("CO$_2$ capture by porous solids", "Solids that hold 50% of CO$_{2}$ and H$_2$O."),
        AsWritten(
            r"${\cal N}=4$ super Yang-Mills theory", r"Amplitudes at $\lambda \to \infty$ in gauge theory."
        ),
        AsWritten(r"$\alpha$ decay of heavy nuclei", None),
        None,
        None,
    ]


def test_as_written_is_sent_where_it_is_requested(written: Library) -> None:
    with serving_in_thread(written) as url, Client(url) as client:
        whole = client.paper("CorpusId:4").to_dict()
        assert [name for name in whole if name != "snapshot"] == list(PAPER_FIELDS)
        [hit] = client.search("porous", mode="sparse", fields=["title", "as_written"]).results
        assert hit.paper.as_written == written.paper("CorpusId:4", fields=["as_written"]).as_written
        assert client.paper("CorpusId:7", fields=["as_written"]).as_written is None


def test_bibtex_has_formulas_as_they_were_written(written: Library) -> None:
    paper = written.paper("CorpusId:4", fields=(*PAPER_FIELDS, "as_written"))
    text = write_papers([paper])
    assert " title = {CO$_2$ capture by porous solids}" in text
    assert r" abstract = {Solids that hold 50\% of CO$_{2}$ and H$_2$O.}" in text
    [entry], _ = read_bibtex(text)
    assert (entry.title, entry.written_title) == (paper.title, "CO$_2$ capture by porous solids")
    printed = run_cli("paper", "CorpusId:4", "--library", str(written.path), "--format", "bibtex").stdout
    assert "CO$_2$ capture" in printed
