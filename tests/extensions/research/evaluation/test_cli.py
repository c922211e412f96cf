"""``eval compare``, ``oracle``, ``sweep``, ``import``, ``trajectory``: real commands with the sample's 40 questions."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.extensions.research.evaluation.test_runs_cli import QUERIES, evaluate, mean_by_trec_eval, work

__all__ = ["work"]


@pytest.mark.slow
def test_oracle_shows_ceilings_at_least_as_high_as_the_runs(work: Path, sample_library: Path) -> None:
    done = evaluate(
        "oracle", "runs/bm25", "runs/fts5", "--library", sample_library, "--hops", "1", "--json", cwd=work
    )
    *_, union, expansion = json.loads(done.stdout)
    rows = {row["name"]: row["recall"] for row in union["rows"]}
    assert rows["bm25"] == pytest.approx(mean_by_trec_eval(work / "runs" / "bm25", "recall.100"))
    assert rows["bm25 + fts5"] >= max(rows["bm25"], rows["fts5"])
    alone, *further = [row["recall"] for row in expansion["rows"]]
    assert alone == rows["bm25"]
    assert all(recall >= alone for recall in further)


@pytest.mark.slow
def test_a_sweep_reports_on_the_test_half(work: Path, sample_library: Path) -> None:
    shutil.copy(QUERIES, work / "queries.jsonl")
    (work / "sweep.toml").write_text(
        'queries = "queries.jsonl"\nmeasure = "R@25"\n[grid]\nmode = ["sparse"]\nengine = ["fts5"]\n'
        "fts5_title_weight = [1.0, 4.0]\n"
    )
    done = evaluate("sweep", "sweep.toml", "--library", sample_library, cwd=work)
    assert "SCHOLARBASE_FTS5_TITLE_WEIGHT=" in done.stdout
    result = json.loads((work / "sweep" / "sweep.json").read_text())
    assert not set(result["tune_queries"]) & set(result["test_queries"])
    assert len(result["tune_queries"]) + len(result["test_queries"]) == 40
    with (work / "sweep" / "grid.csv").open() as lines:
        rows = [line for line in csv.reader(lines) if line and not line[0].startswith("#")]
    assert len(rows) == 1 + 2


@pytest.mark.slow
def test_compare_counts_gains_and_losses(work: Path) -> None:
    done = evaluate("compare", "runs/bm25", "runs/fts5", cwd=work)
    assert "engine: bm25 → fts5" in done.stdout
    gained, lost, same = map(int, re.findall(r"^R@100 .* (\d+) +(\d+) +(\d+) *$", done.stdout, re.M)[0])
    assert gained + lost + same == 40
