"""The sample snapshot has the counts in its README, made with zcat, xzcat, grep and wc."""

from collections import Counter
from pathlib import Path

import orjson
import pytest

from scholarbase.ingest.records import AbstractRecord, CitationRecord, PaperRecord, Record, Reject
from scholarbase.ingest.sources import PARSERS, Dataset, SourceFile, discover, open_lines

SAMPLE = Path(__file__).parents[3] / "sample"
pytestmark = pytest.mark.skipif(not SAMPLE.is_dir(), reason="the sample is not part of this copy")


def records(sources: list[SourceFile], dataset: Dataset) -> list[Record | Reject]:
    return [
        PARSERS[dataset](line)
        for source in sources
        if source.dataset is dataset
        for _, line in open_lines(source.path)
    ]


@pytest.fixture(scope="module")
def sources() -> list[SourceFile]:
    return discover([SAMPLE / "s2ag", SAMPLE / "arxiv"])


def test_the_files(sources: list[SourceFile]) -> None:
    shards = Counter(source.dataset.value for source in sources)
    assert shards == {"papers": 2, "abstracts": 2, "citations": 2, "arxiv": 1}
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 8_000_000


def test_papers_abstracts_and_edges(sources: list[SourceFile]) -> None:
    papers = [r for r in records(sources, Dataset.PAPERS) if isinstance(r, PaperRecord) and r.arxiv_id]
    abstracts = {r.corpus_id for r in records(sources, Dataset.ABSTRACTS) if isinstance(r, AbstractRecord)}
    edges = [r for r in records(sources, Dataset.CITATIONS) if isinstance(r, CitationRecord)]
    ids = {paper.corpus_id for paper in papers}
    assert (len(papers), len(ids), len(abstracts), len(edges)) == (1840, 1840, 1810, 7920)
    assert sum(edge.citing in ids and edge.cited in ids for edge in edges) == 7520
    assert sum(edge.citing in abstracts and edge.cited in abstracts for edge in edges) == 7263
    assert sum(edge.citing == edge.cited for edge in edges) == 2


def test_the_arxiv_part_completes_the_other_and_has_the_answers(sources: list[SourceFile]) -> None:
    arxiv = {
        r.arxiv_id: r for r in records(sources, Dataset.ARXIV) if isinstance(r, PaperRecord) and r.abstract
    }
    papers = {r.arxiv_id for r in records(sources, Dataset.PAPERS) if isinstance(r, PaperRecord)}
    assert len(arxiv) == 2440
    assert papers <= arxiv.keys()
    assert all(record.categories for record in arxiv.values())
    assert arxiv["1706.03762"].title == "Attention Is All You Need"
    questions = [orjson.loads(line) for line in (SAMPLE / "queries.jsonl").read_bytes().splitlines()]
    assert len(questions) == 40
    answers = {answer for question in questions for answer in question["answer_arxiv_ids"]}
    assert len(answers) == 194
    assert answers <= arxiv.keys() - papers
