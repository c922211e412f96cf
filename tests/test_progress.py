"""Progress: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import gzip
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scholarbase.progress import LogReporter
from tests.conftest import run_cli


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
    with LogReporter(seconds=0.0).stage("encode", "papers", 200, 100) as tracker:
        tracker.at(150)
        tracker.advance(50)
    first, last = (record.getMessage() for record in caplog.records)
    # It began at 100 of 200: half of what was left is done.
    assert re.fullmatch(r"encode: 50 papers, [\d,]+/s, 75%, about \d+ s left", first)
    assert re.fullmatch(r"encode: 50 papers in \d+\.\d s", last)
