"""Files whose answers are passages, by the descriptions of their papers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scholarbase.errors import QueryFileError
from scholarbase.models.queries import PassageTarget
from tests.evaluation.formats.test_evidence import QUESTION, read

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
