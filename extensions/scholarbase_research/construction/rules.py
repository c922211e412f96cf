"""Rules as judges: for baselines and trials, not in place of models or people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scholarbase_research.construction.terms import overlap, stems
from scholarbase_research.llm.judges import FunctionJudge
from scholarbase_research.llm.rubrics import Rubric

STRICT_SHARE: Final = 0.75
PARTIAL_SHARE: Final = 0.4


def words_judge(rubric: Rubric) -> FunctionJudge:
    """Strict where title and abstract have three quarters of the question's words, partial from two fifths on."""
    labels = _labels(rubric)

    def rule(item: Mapping[str, str]) -> tuple[float, str]:
        share = overlap(stems(item["question"]), stems(f"{item['title']} {item['abstract']}"))
        label = labels[2] if share >= STRICT_SHARE else labels[1] if share >= PARTIAL_SHARE else labels[0]
        return label, f"{share:.0%} of the question's words"

    return FunctionJudge("rule:words", rule)


def known_judge(rubric: Rubric, known: Mapping[str, frozenset[str]]) -> FunctionJudge:
    """Strict for the answers that the query file has, a mismatch for all others."""
    labels = _labels(rubric)

    def rule(item: Mapping[str, str]) -> tuple[float, str]:
        is_known = item["paper"] in known.get(item["query_id"], ())
        return (labels[2], "a known answer") if is_known else (labels[0], "not a known answer")

    return FunctionJudge("rule:known", rule)


def _labels(rubric: Rubric) -> tuple[float, float, float]:
    """The lowest label, one below the threshold, and the highest."""
    values = rubric.values
    below = [value for value in values if value < rubric.threshold]
    return values[0], below[-1], values[-1]
