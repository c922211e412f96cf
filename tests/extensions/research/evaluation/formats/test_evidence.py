"""Files whose answers are passages, in the formats of published benchmarks too."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import PassageTarget, QuerySet
from tests import tables
from tests.conftest import json_lines

QUESTION = "Which optimizer is used?"


def read(path: Path, *records: dict[str, Any], **options: Any) -> QuerySet:
    json_lines(path, records)
    return read_queries(path, **options)


@pytest.mark.parametrize(
    ("evidence", "message"),
    tables.rows("evidence-broken"),
)
def test_broken_evidence_is_an_error(tmp_path: Path, evidence: object, message: str) -> None:
    with pytest.raises(QueryFileError, match=message):
        read(
            tmp_path / "q.jsonl",
            {"id": 1, "query": QUESTION, "paper": "arXiv:2301.00001", "evidence": evidence},
        )


def test_evidence_of_no_paper_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match="its evidence names no paper"):
        read(tmp_path / "q.jsonl", {"id": 1, "query": QUESTION, "evidence": "We use Adam."})


def test_query_sets_of_papers_are_read_and_hashed_as_before(tmp_path: Path) -> None:
    found = read(tmp_path / "q.jsonl", {"id": 1, "query": QUESTION, "answers": ["arXiv:2301.00001"]})
    assert not found.has_passages
    line = (
        b'{"id":"1","text":"Which optimizer is used?","answers":[{"id":"arXiv:2301.00001","title":null,"grade":1}],'
        b'"intent":null,"category":null,"date":null,"pool":null}\n'
    )
    assert found.sha256 == hashlib.sha256(line).hexdigest()


def test_scidqa(tmp_path: Path) -> None:
    found = read(
        tmp_path / "scidqa.jsonl",
        {
            "question": QUESTION,
            "answer": "Adam",
            "title": "A paper",
            "version": "final",
            "evidence": ["We use Adam."],
        },
        {"question": "Why?", "answer": "So.", "title": "A paper", "version": "initial", "evidence": None},
    )
    assert (found.format, found.has_passages) == ("SciDQA", True)
    [query] = found.queries
    assert (query.text, query.category) == (QUESTION, "final")
    assert query.answers == (PassageTarget(None, "A paper", text="We use Adam."),)
    assert "Questions without evidence, which were skipped: 1" in found.notes
    first = read(
        tmp_path / "scidqa.jsonl",
        {"question": QUESTION, "title": "A paper", "version": "initial", "evidence": ["We use Adam."]},
    )
    assert first.queries[0].answers == (PassageTarget(None, "A paper", text="We use Adam.", version=1),)

    seventh = read(
        tmp_path / "scidqa.jsonl",
        {"question": QUESTION, "title": "A paper", "version": 7, "evidence": ["We use Adam."]},
    )
    assert seventh.queries[0].answers == (PassageTarget(None, "A paper", text="We use Adam.", version=7),)


def test_elaipbench(tmp_path: Path) -> None:
    found = read(
        tmp_path / "elaipbench.jsonl",
        {
            "paper_title": "A paper",
            "question": QUESTION,
            "options": {"A": "Adam", "B": "SGD", "C": "none"},
            "answer": "AB",
            "evidence": {"A": "We use Adam.", "B": ["Then SGD.", "With momentum."], "C": ""},
        },
    )
    assert found.format == "ElaipBench"
    texts = [answer.text for answer in found.queries[0].answers if isinstance(answer, PassageTarget)]
    assert texts == ["We use Adam.", "Then SGD.", "With momentum."]


@pytest.mark.parametrize("number", ["PMC10021650", "10021650", 10021650])
def test_aim_sciqa(tmp_path: Path, number: str | int) -> None:
    found = read(
        tmp_path / "aim.jsonl",
        {"question": QUESTION, "evidence": "We use Adam.", "answer": "Adam.", "pmcid": number},
    )
    assert found.format == "AIM-SciQA"
    assert found.queries[0].answers == (PassageTarget("PMCID:10021650", text="We use Adam."),)
