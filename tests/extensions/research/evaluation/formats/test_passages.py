"""Files whose answers are passages, by the descriptions of their papers."""

from pathlib import Path

import pytest

from scholarbase_research.evaluation.queries import PassageTarget
from tests.extensions.research.evaluation.formats.test_evidence import QUESTION, read


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
