"""The example of docs/construct.md, and the command line."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_cli, succeeded


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
    done = succeeded(*example())
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
