"""``scholarbase-openenv`` and ``scholarbase-verifiers``, each in an environment of its own: their rewards are those of
an evaluation."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from scholarbase_research.episodes import Episodes
from scholarbase_research.evaluation.measures import evaluate
from scholarbase_research.evaluation.runs import read_run
from tests.conftest import ROOT, run_cli
from tests.examples.test_frameworks import ENVIRONMENT, interpreter

QUERIES = ROOT / "sample" / "queries.jsonl"
COSTS = {"openenv": 2 * 0.25, "verifiers": 0.25}
"""Of a search, and with openenv of a failed call."""


def script_of(package: str) -> Path:
    return Path(__file__).with_name(f"{package}_client.py")


@pytest.mark.slow
@pytest.mark.parametrize("package", COSTS)
def test_rewards_are_those_of_an_evaluation(package: str, sample_library: Path, tmp_path: Path) -> None:
    script = script_of(package)
    sessions, out = tmp_path / "sessions", tmp_path / "out.json"
    # A relative path, since verifiers runs the tools in another working directory.
    library = Path(os.path.relpath(sample_library, tmp_path))
    done = subprocess.run(
        [interpreter(script), script, library, QUERIES, "5", "sessions", out],
        capture_output=True,
        cwd=tmp_path,
        env={**ENVIRONMENT, "OPENAI_API_KEY": "none"},
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text("utf-8"))
    with Episodes(sample_library, QUERIES, sessions=sessions) as episodes:
        [path] = episodes.export([row["session"] for row in rows], tmp_path / "export")
    runs = tmp_path / "runs"
    options = ("--library", sample_library, "--ranking", "answer-only", "--out", runs, "--name", "run")
    run_cli("eval", "trajectory", path, QUERIES, *options)
    measured = evaluate(read_run(runs / "run"), ["R@5"]).values("R@5")
    rewards = {row["task"]: row["reward"] for row in rows}
    assert rewards == {task: measured[task] - COSTS[package] for task in rewards}
    assert len(set(rewards.values())) > 1
