"""``eval compare``: the real command with the sample's 40 questions."""

import re
from pathlib import Path

import pytest

from tests.extensions.research.evaluation.test_runs_cli import evaluate, work

__all__ = ["work"]


@pytest.mark.slow
def test_compare_counts_gains_and_losses(work: Path) -> None:
    done = evaluate("compare", "runs/bm25", "runs/fts5", cwd=work)
    assert "engine: bm25 → fts5" in done.stdout
    gained, lost, same = map(int, re.findall(r"^R@100 .* (\d+) +(\d+) +(\d+) *$", done.stdout, re.M)[0])
    assert gained + lost + same == 40
