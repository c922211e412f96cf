"""The example of docs/construct.md, and the command line."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_cli
from tests.extensions.research.construction.toy import toy_id


def example() -> list[str]:
    page = (ROOT / "docs" / "construct.md").read_text()
    found = re.search(r"^\$ scholarbase (construct answers examples/(?:.*\\\n)*.*)$", page, re.M)
    assert found is not None
    return shlex.split(found[1].replace("\\\n", " "))


@pytest.mark.slow
def test_the_example_runs_offline(
    sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my-library").symlink_to(sample_library)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    done = run_cli(*example())
    assert done.returncode == 0, done.stderr
    report = json.loads(Path("benchmark/report.json").read_text())
    # The figures of the page.
    replies = sum(model["replies"] for model in report["cost"]["models"])
    retried = sum(judge["retried"] for judge in report["judging"]["judges"])
    page = (ROOT / "docs" / "construct.md").read_text()
    said = (
        f"It judges {report['judging']['papers']} papers with {replies} replies, {retried} of them to a judge"
    )
    assert said in " ".join(page.split())
    assert report["cost"]["total"] > 0
    assert Path("benchmark/report.md").read_text() in done.stdout
    # A request that the cassette lacks is an error, and a paper more than it knows needs one.
    changed = [*example(), "--depth", "6", "--out", "other"]
    failed = run_cli(*changed)
    assert failed.returncode == 25
    assert "has no reply of" in failed.stderr


@pytest.mark.slow
def test_the_command_line(toy_path: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("alpha beta gamma\n")
    command = ["construct", "answers", questions, "--library", toy_path, "--out", tmp_path / "out"]
    options = ["--judge", "rule:words", "--rewrites", 0, "--depth", 2, "--hops", 1, "--json"]
    done = run_cli(*command, *map(str, options))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["questions"]["stops"] == {"no seed left": 1}
    query = json.loads((tmp_path / "out" / "queries.jsonl").read_text())
    assert {f"arXiv:{one}" for one in query["answer_arxiv_ids"]} == {toy_id("S1"), toy_id("P1")}
