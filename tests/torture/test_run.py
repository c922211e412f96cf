"""The command of `make torture`: its parts, table, exit status and page, and what it does with a damaged library."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.conftest import ROOT
from torture import run
from torture.judge import Judge
from torture.libraries import copy
from torture.parts import PARTS
from torture.parts.flips import _flipped
from torture.rows import Row, shown


def result(*rows: Row) -> dict[str, object]:
    return {"part": "flips", "began": "2026-02-01", "rows": [row.to_dict() for row in rows]}


KEPT = Row("flips", "Every bit is found", "300 flips", "300 of 300", True)
BROKEN = Row("flips", "Every row is found", "7 rewrites", "2 of 7 | <none>", False)
UNTESTED = Row("flips", "A full disk", "a tmpfs", "this user cannot mount one", None)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_module(part: str) -> None:
    assert importlib.util.find_spec(f"torture.parts.{part}") is not None


def test_broken_promises_and_failed_parts_are_counted() -> None:
    console = Console(record=True, width=200)
    assert run.show([result(KEPT, UNTESTED)], [], console) == 0
    assert run.show([result(KEPT, BROKEN, UNTESTED)], ["kills"], console) == 2
    assert "1 promises kept, 1 broken, 1 not tested, 1 parts failed." in console.export_text()


def test_the_page_has_one_line_for_each_promise(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")
    run.rewrite(page, run.section([result(KEPT, BROKEN, UNTESTED)]))
    lines = page.read_text().splitlines()
    assert "| flips | Every bit is found | 300 flips | 300 of 300 | kept |" in lines
    assert "| flips | Every row is found | 7 rewrites | 2 of 7 / &lt;none> | **broken** |" in lines
    assert "| flips | A full disk | a tmpfs | this user cannot mount one | not tested |" in lines
    assert "old" not in lines
    assert (lines[0], lines[-1]) == ("before", "after")


def test_the_documentation_has_the_markers() -> None:
    text = run.PAGE.read_text()
    assert text.index(run.BEGIN) < text.index(run.END)


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--parts", "nonsense"])
    assert "There is no part nonsense" in capsys.readouterr().err


def test_the_first_failures_are_shown() -> None:
    assert shown([]) == ""
    assert shown(["a", "b\nc"]) == "2: a; b c"
    assert shown("abcde") == "5: a; b; c; ..."


def test_a_flipped_bit_is_flipped_back(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\x00\x07")
    with _flipped(file, 1, 3):
        assert file.read_bytes() == b"\x00\x0f"
    assert file.read_bytes() == b"\x00\x07"


@pytest.mark.slow
def test_a_judge_tells_what_came_out(sample_library: Path, tmp_path: Path) -> None:
    library = copy(sample_library, tmp_path / "library")
    with Judge() as judge:
        assert judge("verify", library) == "ok"
        digest = judge("open", library)
        assert digest == judge("open", sample_library)
        assert judge("open", tmp_path).startswith("LibraryNotFound: ")
        assert judge._process is not None
        judge._process.kill()
        assert judge("verify", library) == "aborted with status -9"
        assert judge("verify", library) == "ok"


@pytest.mark.slow
def test_a_part_that_fails_leaves_no_results(tmp_path: Path) -> None:
    (tmp_path / "flips.json").write_text("{}")
    (tmp_path / "work").write_text("a file where a folder must be")
    command = [sys.executable, str(ROOT / "torture" / "run.py"), "--alone", "--slice", "--parts", "flips"]
    command += ["--work", str(tmp_path / "work"), "--results", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode != 0
    assert json.loads((tmp_path / "flips.json").read_text()) == {}
    assert not run.run_in_process("flips", ["--slice", *command[5:]], tmp_path)
    assert not (tmp_path / "flips.json").exists()
