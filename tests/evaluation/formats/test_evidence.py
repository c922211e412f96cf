"""Files whose answers are passages, by the descriptions of their papers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats import read_queries
from scholarbase.models.queries import PassageTarget, QuerySet

QUESTION = "Which optimizer is used?"
UUID = "0a1b2c3d-0000-4000-8000-000000000001"
AIRQA = {
    "uuid": "example-1",
    "question": QUESTION,
    "answer_format": "a text",
    "tags": ["single", "text", "objective"],
    "anchor_pdf": [UUID],
    "reference_pdf": [],
    "conference": [],
    "evaluator": {"eval_func": "eval_string_exact_match", "eval_kwargs": {"gold": "Adam"}},
}


def read(path: Path, *records: dict[str, Any], **options: Any) -> QuerySet:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read_queries(path, **options)


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


class TestAirQA:
    @pytest.mark.parametrize("shape", ["folder", "lines", "array", "object"])
    def test_papers_are_named_by_their_metadata(self, tmp_path: Path, shape: str) -> None:
        about = {"uuid": UUID, "title": "A paper", "year": 2024}
        metadata = tmp_path / "metadata"
        if shape == "folder":
            metadata.mkdir()
            (metadata / f"{UUID}.json").write_text(json.dumps(about))
        else:
            content = {"lines": about, "array": [about], "object": {UUID: {"title": "A paper"}}}[shape]
            metadata.write_text(json.dumps(content))
        asked = AIRQA | {
            "uuid": "example-2",
            "anchor_pdf": [],
            "evaluator": {
                "eval_func": "eval_paper_relevance_with_reference_answer",
                "eval_kwargs": {"reference_answer": "Another paper"},
            },
        }
        rest = AIRQA | {"uuid": "example-3", "anchor_pdf": []}
        found = read(tmp_path / "airqa.jsonl", AIRQA, asked, rest, metadata=metadata)
        assert [(query.id, query.category, query.answers) for query in found.queries] == [
            ("example-1", "single", (PassageTarget(None, "A paper"),)),
            ("example-2", "single", (PassageTarget(None, "Another paper"),)),
        ]
        assert any(note.startswith("Questions without anchor_pdf") for note in found.notes)

    def test_without_metadata_uuids_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(QueryFileError, match=r"names papers by UUIDs: give .* --metadata"):
            read(tmp_path / "airqa.jsonl", AIRQA)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([], "evidence is empty"),
        (["", None], "evidence is empty"),
        (3, "evidence contains 3"),
        ([{"text": "t", "place": 1}], "evidence contains"),
        ([{"text": "t", "start": 1, "end": 2}], "both text and start"),
        ({"start": 5, "end": 5}, "the end after the start"),
        ({"start": -1, "end": 5}, "the end after the start"),
        ({"start": True, "end": 5}, "the end after the start"),
        ({"start": 5}, "the end after the start"),
        ({"text": 5}, "must be the text of the evidence"),
        ({"passage": "arXiv:2301.00001"}, "must be the paper's id, # and the offsets"),
        ({"paper": "no id", "text": "t"}, "no id"),
    ],
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
