"""BEIR collections as a source, with lines in the form of the published collections."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import SourceError
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources import Dataset, discover
from scholarbase.ingest.sources.beir import first_sentence, parse_beir
from scholarbase.search.library import Library

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "MED-10", "title": "Statin use and survival", "text": "Recent studies suggest a benefit of statins.",
     "metadata": {"url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299"}},
    {"_id": "med-10", "title": "Another case", "text": "Case tells these two apart."},
    {"_id": "<dbpedia:Animalia_(book)>", "title": "Animalia", "text": ""},
    {"_id": "18850", "title": "", "text": "I don't want to be sued. Is insurance enough for that?", "metadata": {}},
    {"_id": "x1", "title": "A paper of PubMed", "text": "Words.", "metadata": {"pubmed_id": "10204067", "year": 1999}},
]  # fmt: skip


def collection(folder: Path, documents: list[dict[str, Any]]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    with gzip.open(folder / "corpus.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(document) + "\n" for document in documents)
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "statins", "metadata": {}}) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tMED-10\t1\n")
    return folder


def parsed(document: dict[str, Any]) -> PaperRecord | Reject:
    return parse_beir(json.dumps(document).encode())


def test_the_files_of_a_collection_are_detected_by_their_content(tmp_path: Path) -> None:
    found = discover([collection(tmp_path / "c", DOCUMENTS)])
    assert {source.name: source.dataset for source in found} == {
        "corpus.jsonl.gz": Dataset.BEIR,
        "queries.jsonl": Dataset.BEIR_QUERIES,
        "qrels/test.tsv": Dataset.BEIR_QRELS,
    }


def test_queries_with_a_title_are_not_documents(tmp_path: Path) -> None:
    """Some collections' queries have an empty title, and some collections' documents none."""
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "title": "", "text": "statins"}\n')
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "Statins. They help."}\n')
    (tmp_path / "more.jsonl").write_text('{"_id": "d2", "title": "T", "text": "Words."}\n')
    found = {source.name: source.dataset for source in discover([tmp_path])}
    assert found == {
        "queries.jsonl": Dataset.BEIR_QUERIES,
        "corpus.jsonl": Dataset.BEIR,
        "more.jsonl": Dataset.BEIR,
    }


def test_a_collection_becomes_a_library(tmp_path: Path) -> None:
    folder = collection(
        tmp_path / "c", [*DOCUMENTS, DOCUMENTS[0], {"_id": "empty", "title": "", "text": " "}]
    )
    manifest = ingest([folder], tmp_path / "library", rules=IngestRules(keep="title"))
    counts = {
        name: manifest.counts[name] for name in ("papers", "abstracts", "papers_repeated", "rejects_beir")
    }
    assert counts == {"papers": 5, "abstracts": 4, "papers_repeated": 1, "rejects_beir": 1}
    with Library.open(tmp_path / "library") as library:
        names = [f"Doc:{document['_id']}" for document in DOCUMENTS]
        papers = library.papers(names)
        assert [paper and paper.id for paper in papers] == names
        assert [paper and paper.abstract for paper in papers] == [d["text"] or None for d in DOCUMENTS]
        assert papers[3] is not None
        assert papers[3].title == "I don't want to be sued."
        assert papers[0] is not None
        assert papers[0].url == DOCUMENTS[0]["metadata"]["url"]
        assert papers[0].external_ids == {"Doc": "MED-10"}
        pubmed = library.paper("PMID:10204067")
        assert (pubmed.id, pubmed.year) == ("Doc:x1", 1999)
        for fields in (None, ["title"]):
            found = library.search("statins", fields=fields, within=["Doc:MED-10", "Doc:med-10"])
            assert [hit.paper.id for hit in found.results] == ["Doc:MED-10"]


def test_the_default_keep_rule_keeps_every_document(tmp_path: Path) -> None:
    """The rule of arXiv, the default before, kept none; that of texts left out documents with a title only."""
    counts = ingest([collection(tmp_path / "c", DOCUMENTS)], tmp_path / "library").counts
    assert counts["papers"] == len(DOCUMENTS)


def test_a_rule_that_keeps_nothing_names_the_one_that_does(tmp_path: Path) -> None:
    folder = collection(tmp_path / "c", DOCUMENTS)
    with pytest.raises(SourceError, match=r"keep rule 'arxiv' keeps: .* with --keep title, which keeps all"):
        ingest([folder], tmp_path / "library", rules=IngestRules(keep="arxiv"))


def test_queries_without_a_corpus_are_an_error(tmp_path: Path) -> None:
    folder = collection(tmp_path / "c", DOCUMENTS)
    with pytest.raises(SourceError, match="only beir-queries, which are not used"):
        discover([folder / "queries.jsonl"])


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"title": "t", "text": "x"}, "no-id"),
        ({"_id": "", "title": "t", "text": "x"}, "no-id"),
        ({"_id": "a b", "title": "t", "text": "x"}, "bad-id"),
        ({"_id": "a\u00a0b", "title": "t", "text": "x"}, "bad-id"),
        ({"_id": True, "title": "t", "text": "x"}, "bad-id"),
        ({"_id": 1.5, "title": "t", "text": "x"}, "bad-id"),
        ({"_id": "1" * 1001, "title": "t", "text": "x"}, "bad-id"),
        ({"_id": "1", "title": None, "text": ""}, "no-text"),
        ({"_id": "1", "title": 7, "text": "x"}, "bad-type"),
        ({"_id": "1", "title": "t", "text": ["x"]}, "bad-type"),
        ({"_id": "1", "title": "t", "text": "x", "metadata": "m"}, "bad-type"),
        ({"_id": "1", "title": "t" * 5001, "text": "x"}, "title-too-long"),
    ],
)
def test_an_invalid_line_is_rejected_with_a_reason(document: dict[str, Any], reason: str) -> None:
    found = parsed(document)
    assert isinstance(found, Reject)
    assert found.reason == reason


def test_a_number_is_an_id_too() -> None:
    found = parsed({"_id": 4983, "title": "t", "text": "x"})
    assert isinstance(found, PaperRecord)
    assert found.external_ids == {"Doc": "4983"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("One. Two.", "One."),
        ("Version 3.5 is out! Now", "Version 3.5 is out!"),
        ("no end at all", "no end at all"),
        ("word " * 24 + "and more words. Next.", "word " * 23 + "word…"),
        ("x" * 500, "x" * 119 + "…"),
    ],
)
def test_the_first_sentence_replaces_a_missing_title(text: str, title: str) -> None:
    assert first_sentence(text) == title


def test_authors_venue_and_doi_of_the_metadata() -> None:
    metadata: dict[str, Any] = {"authors": ["Ada Lovelace", {"name": "Babbage, Charles"}], "venue": "Notes"}
    found = parsed({"_id": "d", "title": "T", "text": "", "metadata": metadata | {"doi": "10.1000/X"}})
    assert isinstance(found, PaperRecord)
    assert found.authors == [("Ada Lovelace", None), ("Charles Babbage", None)]
    assert (found.venue, found.external_ids) == ("Notes", {"Doc": "d", "DOI": "10.1000/x"})
    other = parsed(
        {"_id": "d", "title": "T", "text": "", "metadata": {"authors": "A B; C D", "venue": 7, "doi": "-"}}
    )
    assert isinstance(other, PaperRecord)
    assert (other.authors, other.venue, other.external_ids) == (
        [("A B", None), ("C D", None)],
        None,
        {"Doc": "d"},
    )
