"""Files whose answers are passages."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import QuerySet
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
