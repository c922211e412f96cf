"""Progress: a live display on a terminal, plain lines elsewhere."""

import gzip
import logging
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scholarbase.progress import LogReporter, TerminalReporter
from tests.conftest import run_cli


@pytest.mark.slow
def test_on_a_terminal_each_stage_has_a_bar_with_its_rate(small_snapshot: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "scholarbase.cli",
        "ingest",
        str(small_snapshot),
        "--library",
        str(tmp_path / "l"),
    ]
    process = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=os.environ | {"COLUMNS": "150", "TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed: the process is done
            break
    os.close(ours)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    for stage in ("fingerprint", "read records", "read citations", "index full text", "index vectors"):
        assert re.search(rf"✓ {stage} .* 100% .*\d+ \w+ · [\d,]+/s", text), stage


@pytest.mark.slow
def test_without_a_terminal_each_stage_logs_a_line(small_snapshot: Path, tmp_path: Path) -> None:
    done = run_cli("ingest", small_snapshot, "--library", tmp_path / "l")
    assert "\x1b" not in done.stderr + done.stdout
    lines, kept = (
        sum(gzip.decompress((small_snapshot / name / "00000.gz").read_bytes()).count(b"\n") for name in names)
        for names in (("papers", "abstracts"), ("abstracts",))
    )
    assert re.search(rf"read records: {lines} lines in \d+\.\d s", done.stderr)
    assert re.search(rf"index full text: {kept} papers in", done.stderr)


def test_a_long_stage_logs_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "scholarbase.progress")
    with LogReporter(seconds=0.01).stage("encode", "papers", 200, 100) as tracker:
        wait_for(lambda: len(caplog.records) >= 1)  # before there is progress
        tracker.at(150)
        tracker.advance(50)
        wait_for(lambda: "75%" in caplog.text)
    first, *_, last = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(r"encode: 0 papers in \d+ s, 0/s", first)
    # It began at 100 of 200: half of what was left is done.
    assert re.search(r"encode: 50 papers in \d+ s, [\d,]+/s, 75%, about \d+ s left", caplog.text)
    assert re.fullmatch(r"encode: 50 papers in \d+\.\d s", last)


def test_a_stage_that_ends_slowly_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """It showed "99%, 0:04 left" for minutes, and a stage that counts nothing showed 0."""
    caplog.set_level(logging.INFO, "scholarbase.progress")
    with LogReporter(seconds=0.01).stage("index full text", "papers", 200) as tracker:
        tracker.advance(200)
        wait_for(lambda: "100%, finishing" in caplog.text)
    with LogReporter(seconds=0.01).stage("build vector graph", None, None):
        wait_for(lambda: bool(re.search(r"graph: running for \d+ s, time left unknown", caplog.text)))
    assert re.fullmatch(r"build vector graph: done in \d+\.\d s", caplog.records[-1].getMessage())


@pytest.mark.parametrize("total", [None, 100])
def test_a_bar_is_not_full_before_its_stage_ends(total: int | None) -> None:
    """A full bar counts as finished: it had a tick and a clock that stood still."""
    reporter = TerminalReporter()
    with reporter.stage("index full text", "papers", total) as tracker:
        tracker.advance(100)
        assert reporter._bars is not None
        [task] = reporter._bars.tasks
        assert not task.finished
    assert task.finished


def test_the_terminal_shows_the_time_left_once_it_is_known() -> None:
    from scholarbase.progress import _clock

    assert [_clock(seconds) for seconds in (0, 5.4, 65, 3665)] == ["0:00", "0:05", "1:05", "1:01:05"]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
