"""An ingest that is killed at random times and restarted ends with the same library."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.manifest import FILE_NAME
from scholarbase.search.verification import verify
from tests.conftest import SAMPLE, run_cli
from tests.encoders.tiny_bge_m3 import make_tiny_bge_m3
from tests.ingest.contents import same
from tests.libraries import copied
from tests.packages import need

pytestmark = pytest.mark.slow

SMALL_BATCHES = """
import sys
from scholarbase.cli import main
from scholarbase.indexes.vectors import edge
from scholarbase import workers
from scholarbase.ingest import encoding, reading, text, vectors
reading.LINES_PER_COMMIT, vectors.POINTS_PER_UPSERT, vectors.UPSERTS_PER_FLUSH = 100, 50, 2
text.ROWS_PER_COMMIT, workers.SUBPROCESS_PAPERS = 100, 1
edge.SEGMENT_POINTS, edge.DENSE_SEGMENT_POINTS = 330, 770
encoding.DOCUMENTS_PER_PART = 64
main(sys.argv[1:])
"""
"""The command line with small batches, so that kills occur between and during many commits."""

SOURCES = (SAMPLE / "s2ag", SAMPLE / "arxiv")


def start(sources: Sequence[Path], library: Path, *options: str | Path) -> subprocess.Popen[bytes]:
    arguments = ["ingest", *map(str, sources), "--library", str(library), *map(str, options)]
    return subprocess.Popen([sys.executable, "-c", SMALL_BATCHES, *arguments], stderr=subprocess.DEVNULL)


def wait_until_started(process: subprocess.Popen[bytes], library: Path) -> None:
    while process.poll() is None and not (library / "building" / "catalog.sqlite").exists():
        time.sleep(0.005)


def test_killed_while_encoding_the_library_is_the_same(small_snapshot: Path, tmp_path: Path) -> None:
    need("FlagEmbedding")
    model = make_tiny_bge_m3(tmp_path / "tiny-bge-m3")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with closing(open_encoder(str(model))) as encoder:
        ingest([small_snapshot], whole, encoder=encoder, encoder_location=str(model))
    process = start([small_snapshot], broken, "--encoder", model)
    while process.poll() is None and not list(broken.glob("building/dense/*.ids.npy")):
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (broken / FILE_NAME).exists()
    assert start([small_snapshot], broken, "--encoder", model).wait(timeout=300) == 0
    same(whole, broken)


def test_a_killed_replacement_continues(default_library: Path, dense_library: Path, tmp_path: Path) -> None:
    """After a kill, an ingest with --restart is continued without --restart."""
    library = copied(dense_library, tmp_path / "library")
    process = start(SOURCES, library, "--restart")
    wait_until_started(process, library)
    catalog = library / "building" / "catalog.sqlite"
    while process.poll() is None and catalog.stat().st_size < 500_000:
        time.sleep(0.005)
    process.kill()
    process.wait()
    begun = (library / "building" / "catalog.sqlite").stat().st_ino
    # Until the new library is complete, the old one is valid.
    assert list(verify(library))
    process = start(SOURCES, library)
    wait_until_started(process, library)
    assert (library / "building" / "catalog.sqlite").stat().st_ino == begun
    assert process.wait(timeout=300) == 0
    same(default_library, library)


def test_a_library_sealed_by_another_command_is_published_as_that_one(tmp_path: Path) -> None:
    library = tmp_path / "library"
    stop = """
import sys
from scholarbase.ingest import folder
from scholarbase.cli import main
def killed(self):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
folder.BuildFolder.publish = killed
main(sys.argv[1:])
"""
    arguments = ["ingest", str(SAMPLE / "arxiv"), "--library", str(library)]
    assert subprocess.run([sys.executable, "-c", stop, *arguments], check=False).returncode == -9
    other = run_cli("ingest", SAMPLE / "s2ag", "--library", library)
    assert other.returncode == 3
    assert "from other sources" in other.stderr
    assert "scholarbase update" in other.stderr
    # The sealed library is complete and published.
    assert run_cli(*arguments).returncode == 0
