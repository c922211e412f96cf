"""The command of `make bench`: its parts, table and exit status, and the page of results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import machine, speed
from benchmarks.rows import Bound, Row, Setting
from tests.conftest import ROOT

SAMPLE = ROOT / "sample"


def row(part: str, ratio: float, bound: Bound | None = "at most", **notes: object) -> Row:
    target = None if bound is None else 1.3
    return Row(
        part, f"what {part} is", "its floor", 13.0 * ratio, 13.0, "ms", ratio, bound, target, dict(notes)
    )


def results(folder: Path, *rows: Row, papers: int = 50) -> None:
    for each in rows:
        written = [each.to_dict()]
        speed.write(speed.Result(each.part, papers, "2026-02-01", machine.facts(), written), folder)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The results of the part `ingest` on 400 papers of the sample, run as a command."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("memory is read from /proc")
    work = tmp_path_factory.mktemp("work")
    command = [sys.executable, "benchmarks/speed.py", "--data", str(SAMPLE), "--papers", "400"]
    command += ["--work", str(work), "--parts", "ingest"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return work / "results-400", process


@pytest.mark.slow
def test_a_part_writes_its_rows_and_the_table_shows_them(
    ingested: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, process = ingested
    written = json.loads((folder / "ingest.json").read_text())
    assert written["papers"] == 400
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", written["began"])
    assert {"cores", "cpu", "memory_gb", "system", "python", "versions"} == written["machine"].keys()
    short = [each for each in written["rows"] if not each["reached"]]
    assert process.returncode == (1 if short else 0), process.stderr
    assert "ingest of catalogue, FTS5, edges and BM25" in process.stdout
    assert f"{len(short)} of 2 rows short" in process.stdout


@pytest.mark.slow
def test_the_bare_sum_is_the_sum_of_its_parts(
    ingested: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    time_row, memory_row = json.loads((ingested[0] / "ingest.json").read_text())["rows"]
    notes = time_row["notes"]
    assert notes["floor_seconds"] == pytest.approx(sum(notes["floor_parts"].values()))
    assert time_row["ratio"] == pytest.approx(notes["seconds"] / notes["floor_seconds"])
    assert set(notes["floor_parts"]) == {
        "read and parse", "insert the rows", "index full text", "embed", "upsert", "optimize",
    }  # fmt: skip
    assert {"read records", "index full text", "index vectors"} <= {s["name"] for s in notes["stages"]}
    assert memory_row["ratio"] == pytest.approx(memory_row["here"] / memory_row["floor"])
    assert memory_row["floor"] > 20, "a process that ingests holds more than 20 MB"


@pytest.mark.slow
def test_a_part_alone_builds_the_library_that_it_reads(tmp_path: Path) -> None:
    """Without the part ``ingest``, ``--parts filters`` ended with a traceback."""
    data = tmp_path / "data"
    (data / "autoscholar").mkdir(parents=True)
    shutil.copyfile(SAMPLE / "queries.jsonl", data / "autoscholar" / "queries.jsonl")
    for name in ("arxiv", "s2ag"):
        (data / name).symlink_to(SAMPLE / name)
    speed.run("filters", Setting(data, 400, tmp_path / "work"), tmp_path / "results")
    written = json.loads((tmp_path / "results" / "filters.json").read_text())
    assert len(written["rows"]) == 3


def test_results_of_other_days_are_shown_with_their_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results(tmp_path, row("ingest", 1.2), row("dense", 2.0), row("hybrid", 1.0, None))
    results(tmp_path, row("sparse", 9.0), papers=70)
    monkeypatch.setattr(speed, "run_in_process", lambda part, setting, folder: True)
    arguments = ["--data", str(SAMPLE), "--papers", "50", "--work", str(tmp_path / "w")]
    status = speed.main([*arguments, "--results", str(tmp_path), "--parts", "ingest"])
    shown = capsys.readouterr().out
    assert status == speed.SHORT
    assert "dense (2026-02-01)" in shown
    assert "ingest (2026-02-01)" not in shown
    assert "what sparse is" not in shown, "it is of another size"
    assert "1 of 2 rows short of their targets, 0 parts failed." in shown


@pytest.mark.slow
def test_a_failed_part_is_named_and_its_earlier_rows_are_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    results(folder, row("ingest", 1.0), papers=10**9)
    arguments = ["--data", str(SAMPLE), "--papers", str(10**9), "--work", str(tmp_path)]
    assert speed.main([*arguments, "--results", str(folder), "--parts", "ingest"]) == speed.SHORT
    assert "1 parts failed" in capsys.readouterr().out
    assert not (folder / "ingest.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", str(SAMPLE), "--parts", "speed"], "There is no part speed: the parts are ingest,"),
        (["--data", str(SAMPLE), "--papers", "0"], "0 papers cannot be measured"),
        (["--data", str(ROOT / "docs")], "No arXiv snapshot"),
    ],
)
def test_invalid_arguments_have_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        speed.main(arguments)
    assert stopped.value.code == speed.BAD_USE
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_holds_the_table_and_every_plot(tmp_path: Path) -> None:
    from benchmarks import page  # matplotlib takes half a second

    stages = [{"name": "read records", "began": 0.1, "seconds": 2.0}]
    timeline = [{"minute": minute, "p50": 9.0, "p99": 30.0, "rss_mb": 500.0} for minute in (1, 2)]
    results(
        tmp_path,
        row("ingest", 1.2, seconds=2.2, stages=stages, floor_seconds=1.8, floor_parts={"embed": 1.8}),
        row("dense", 2.0),
        row("soak", 1.0, percentiles={"p50": 9.0, "p99": 30.0}, timeline=timeline),
    )
    text = tmp_path / "measurements.md"
    arguments = ["--results", str(tmp_path), "--page", str(text)]
    assert page.main(arguments) == 0
    written = text.read_text()
    assert "| what dense is | its floor | 26 ms | 13 ms | **2 (at most 1.3)** |" in written
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", written)
    assert links == [f"measurements/{name}.svg" for name in ("ratios", "ingest", "latency")]
    drawn = {link: (tmp_path / link).read_bytes() for link in links}
    assert page.main(arguments) == 0
    assert text.read_text() == written
    assert {link: (tmp_path / link).read_bytes() for link in links} == drawn
