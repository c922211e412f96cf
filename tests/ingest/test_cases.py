"""Files of kinds that were read wrongly, each ingested whole and compared with the values beside them."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.search.library import Library
from tests.conftest import ROOT

CASES = ROOT.parent / "shared" / "cases"
EXPECTED: dict[str, Any] = json.loads((CASES / "expected.json").read_bytes()) if CASES.exists() else {}
QUOTES = str.maketrans("“”«»", '""""')


@dataclass
class Built:
    """The library of a file."""

    library: Library
    expected: dict[str, Any]

    @cached_property
    def papers(self) -> dict[str, dict[str, Any]]:
        """The papers by their titles."""
        names = (
            "id",
            "title",
            "authors",
            "year",
            "venue",
            "arxiv_id",
            "categories",
            "external_ids",
            "abstract",
        )
        with closing(sqlite3.connect(self.library.path / "catalog.sqlite")) as db:
            rows = db.execute(
                "SELECT id, title, authors, year, venue, arxiv_id, categories, external_ids, abstracts.abstract "
                "FROM papers LEFT JOIN abstracts ON paper_id = id ORDER BY year, title"
            ).fetchall()
        found = [dict(zip(names, row, strict=True)) for row in rows]
        for one in found:
            one["authors"] = [author[0] for author in json.loads(one["authors"] or "[]")]
            one["external_ids"] = json.loads(one["external_ids"] or "{}")
        return {one["title"]: one for one in found}

    @property
    def only(self) -> dict[str, Any]:
        [paper] = self.papers.values()
        return paper

    def keyed(self, key: str) -> dict[str, Any]:
        """The paper of an entry of ``latex.bib``."""
        return self.papers[self.library.paper(key).title or ""]

    def counts(self, name: str) -> int:
        return sum(count for key, count in self.library.manifest.counts.items() if key.startswith(name))


def spelled(text: str) -> str:
    """A text without what may be written in two ways."""
    return "".join(text.translate(QUOTES).split())


def titles(built: Built) -> list[str]:
    return sorted(map(spelled, built.papers))


VALUES: list[tuple[str, str, Callable[[Built], Any]]] = [
    ("openalex-array.json", "papers", lambda built: len(built.papers)),
    ("openalex-array.json", "titles", titles),
    (
        "openalex-array.json",
        "authors",
        lambda built: {t: built.papers[t]["authors"] for t in built.expected["authors"]},
    ),
    ("openalex-array.json", "years", lambda built: [paper["year"] for paper in built.papers.values()]),
    ("openalex-array.json", "edges", lambda built: built.counts("edges")),
    ("openalex-array.json", "abstract", lambda built: next(iter(built.papers.values()))["abstract"]),
    ("semantic-scholar-array.json", "papers", lambda built: len(built.papers)),
    ("semantic-scholar-array.json", "title", lambda built: built.only["title"]),
    ("semantic-scholar-array.json", "authors", lambda built: built.only["authors"]),
    ("semantic-scholar-array.json", "year", lambda built: built.only["year"]),
    ("semantic-scholar-array.json", "doi", lambda built: built.only["external_ids"]["DOI"]),
    ("semantic-scholar-array.json", "abstract", lambda built: built.only["abstract"]),
    ("arxiv-array.json", "papers", lambda built: len(built.papers)),
    ("arxiv-array.json", "id", lambda built: f"arXiv:{built.only['arxiv_id']}"),
    ("arxiv-array.json", "authors", lambda built: built.only["authors"]),
    ("arxiv-array.json", "category", lambda built: built.only["categories"]),
    ("arxiv-array.json", "year", lambda built: built.only["year"]),
    ("papers-array.json", "papers", lambda built: len(built.papers)),
    ("papers-array.json", "authors", lambda built: built.only["authors"]),
    ("papers-array.json", "year", lambda built: built.only["year"]),
    ("papers-array.json", "doi", lambda built: built.only["external_ids"]["DOI"]),
    ("html.csl.json", "titles", titles),
    ("html.csl.json", "abstract", lambda built: {"a": next(iter(built.papers.values()))["abstract"]}),
    ("html.csv", "titles", titles),
    ("latex.bib", "papers", lambda built: len(built.papers)),
    (
        "latex.bib",
        "titles",
        lambda built: {k: spelled(built.keyed(k)["title"]) for k in built.expected["titles"]},
    ),
    (
        "latex.bib",
        "authors",
        lambda built: {key: built.keyed(key)["authors"] for key in built.expected["authors"]},
    ),
    (
        "latex.bib",
        "inherited",
        lambda built: {"h": {name: built.keyed("h")[name] for name in ("year", "venue")}},
    ),
    ("latex.bib", "rejects", lambda built: built.counts("rejects_")),
    ("ovid.ris", "papers", lambda built: len(built.papers)),
    ("ovid.ris", "rejects", lambda built: built.counts("rejects_")),
    ("ovid.ris", "years", lambda built: [paper["year"] for paper in built.papers.values()]),
    ("ebsco.ris", "papers", lambda built: len(built.papers)),
    ("ebsco.ris", "venue", lambda built: next(iter(built.papers.values()))["venue"]),
    ("ebsco.ris", "authors", lambda built: next(iter(built.papers.values()))["authors"]),
    ("ebsco.ris", "doi", lambda built: list(built.papers.values())[1]["external_ids"]["DOI"]),
    ("junk-ids.bib", "papers", lambda built: len(built.papers)),
    ("junk-ids.bib", "titles_found", titles),
    ("junk-ids.bib", "conflicts_named", lambda built: built.counts("conflicts")),
    ("sici.ris", "papers", lambda built: len(built.papers)),
    (
        "sici.ris",
        "dois",
        lambda built: [doi for doi in built.expected["dois"] if built.library.paper(f"DOI:{doi}").title],
    ),
    ("s2-tex", "titles", titles),
    (
        "s2-tex",
        "found",
        lambda built: {
            q: len(built.library.search(q, mode="sparse").results) for q in built.expected["found"]
        },
    ),
    (
        "arxiv-dois.jsonl",
        "dois",
        lambda built: {
            paper: [doi for doi in dois if built.library.paper(f"DOI:{doi}").id == paper]
            for paper, dois in built.expected["dois"].items()
        },
    ),
]
"""A file, the name of its expected value, and what the library has."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Built]]:
    """Builds the library of a file once."""
    if not CASES.exists():
        pytest.skip("needs the shared cases beside the checkout")
    built: dict[str, Built] = {}

    def of(name: str) -> Built:
        if name not in built:
            out = tmp_path_factory.mktemp("case") / "library"
            is_text = EXPECTED[name].get("ingest") == "--documents"
            ingest(
                [] if is_text else [CASES / name],
                out,
                documents=[CASES / name] if is_text else (),
                rules=IngestRules(keep="title"),
            )
            built[name] = Built(Library.open(out), EXPECTED[name])
        return built[name]

    yield of
    for one in built.values():
        one.library.close()


@pytest.mark.parametrize(
    ("name", "value", "found"), VALUES, ids=[f"{name}-{value}" for name, value, _ in VALUES]
)
def test_a_file_is_read_as_its_author_meant_it(
    name: str, value: str, found: Callable[[Built], Any], build: Callable[[str], Built]
) -> None:
    built = build(name)
    expected = EXPECTED[name][value]
    if value.startswith("titles"):
        expected = (
            {key: spelled(title) for key, title in expected.items()}
            if isinstance(expected, dict)
            else sorted(map(spelled, expected))
        )
    assert found(built) == expected


FOUND = [
    (name, query)
    for name, case in EXPECTED.items()
    for query in case.get("found", {})
    if name == "html.csl.json"
]


def test_the_keys_of_a_bibliography_are_ids_of_its_papers(build: Callable[[str], Built]) -> None:
    built = build("latex.bib")
    named = [built.library.paper(key) for key in "abcdefghijklp"]
    assert len({paper.id for paper in named}) == len(built.papers) == 13
    assert named == [built.library.paper(f"Key:latex.bib/{key}") for key in "abcdefghijklp"]
    assert [paper.external_ids["Key"] for paper in named] == list("abcdefghijklp")


@pytest.mark.parametrize(("name", "query"), FOUND)
def test_a_word_finds_its_papers(name: str, query: str, build: Callable[[str], Built]) -> None:
    hits = build(name).library.search(query, mode="sparse").results
    assert len(hits) == len(EXPECTED[name]["found"][query])


@pytest.mark.whole
def test_articles_of_one_file_are_papers_with_their_texts(build: Callable[[str], Built]) -> None:
    built, expected = build("jats-set.xml"), EXPECTED["jats-set.xml"]
    counts = len(built.papers), built.library.manifest.counts["documents"]
    assert counts == (expected["papers"], expected["texts"])
