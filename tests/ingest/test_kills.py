"""An ingest that is stopped or killed and restarted ends with the same library."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders import Encodings, LearnedSparse
from scholarbase.ingest import encoding
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import EncoderSpec
from scholarbase.search.verification import verify
from tests.conftest import SAMPLE, run_cli
from tests.ingest.contents import same
from tests.libraries import copied

pytestmark = pytest.mark.slow

SMALL_BATCHES = """
import sys
from scholarbase.cli import main
from scholarbase.indexes.vectors import edge
from scholarbase import workers
from scholarbase.ingest import reading, text, vectors
reading.LINES_PER_COMMIT, vectors.POINTS_PER_UPSERT, vectors.UPSERTS_PER_FLUSH = 100, 50, 2
text.ROWS_PER_COMMIT, workers.SUBPROCESS_PAPERS = 100, 1
edge.SEGMENT_POINTS, edge.DENSE_SEGMENT_POINTS = 330, 770
main(sys.argv[1:])
"""
"""The command line with small batches, so that kills occur between and during many commits."""


def start(source: Path, library: Path, *options: str) -> subprocess.Popen[bytes]:
    arguments = ["ingest", str(source), "--library", str(library), *options]
    return subprocess.Popen([sys.executable, "-c", SMALL_BATCHES, *arguments], stderr=subprocess.DEVNULL)


class Letters:
    """Counts letters, in dense vectors and as term weights. It may stop before the second part."""

    spec = EncoderSpec("letters", "a-to-z", 26, learned_sparse=True)
    vocabulary_size = 26

    def __init__(self, *, stops: bool = False) -> None:
        self.documents, self.stops = 0, stops

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        if self.stops and self.documents:
            raise KeyboardInterrupt
        self.documents += len(texts)
        return self.encode_queries(texts)

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        letters = range(ord("a"), ord("z") + 1)
        counts = np.array([[1 + text.count(chr(one)) for one in letters] for text in texts], np.float32)
        sparse = [LearnedSparse(np.arange(26, dtype=np.uint32), row) for row in counts]
        return Encodings(counts / np.linalg.norm(counts, axis=1, keepdims=True), sparse)

    def close(self) -> None:
        pass


def test_stopped_while_encoding_the_library_is_the_same(
    small_snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "DOCUMENTS_PER_PART", 64)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    every, first, rest = Letters(), Letters(stops=True), Letters()
    ingest([small_snapshot], whole, encoder=every, encoder_location="letters")
    with pytest.raises(KeyboardInterrupt):
        ingest([small_snapshot], broken, encoder=first, encoder_location="letters")
    assert len(list(broken.glob("building/dense/*.ids.npy"))) == 1
    ingest([small_snapshot], broken, encoder=rest, encoder_location="letters")
    assert first.documents == every.documents - rest.documents == 64
    same(whole, broken)


def test_a_killed_replacement_continues(
    small_snapshot: Path, dense_library: Path, sharded_library: Path, tmp_path: Path
) -> None:
    """After a kill, an ingest with --restart is continued without --restart."""
    library = copied(sharded_library, tmp_path / "library")
    process = start(small_snapshot, library, "--restart")
    catalog = library / "building" / "catalog.sqlite"
    while process.poll() is None and not (catalog.exists() and catalog.stat().st_size > 20_000):
        time.sleep(0.005)
    process.kill()
    process.wait()
    begun = catalog.stat().st_ino
    # Until the new library is complete, the old one is valid.
    assert list(verify(library))
    process = start(small_snapshot, library)
    while process.poll() is None and not catalog.exists():
        time.sleep(0.005)
    assert catalog.stat().st_ino == begun
    assert process.wait(timeout=300) == 0
    same(dense_library, library)


STOPPED = """
import os, signal, sys
from scholarbase.ingest import folder
from scholarbase.cli import main
folder.BuildFolder.{} = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def kill_at(method: str, arguments: list[str]) -> None:
    """Run a command that is killed when it calls this method of its building folder."""
    killed = subprocess.run([sys.executable, "-c", STOPPED.format(method), *arguments], check=False)
    assert killed.returncode == -9


def test_a_library_sealed_by_another_command_is_published_as_that_one(
    small_snapshot: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    arguments = ["ingest", str(small_snapshot), "--library", str(library)]
    kill_at("publish", arguments)
    other = run_cli("ingest", SAMPLE / "own" / "zotero.bib", "--library", library)
    assert other.returncode == 3
    assert "from other sources" in other.stderr
    assert "scholarbase update" in other.stderr
    # The sealed library is complete and published.
    assert run_cli(*arguments).returncode == 0


def test_files_that_a_killed_build_had_not_renamed_are_not_listed(
    small_snapshot: Path, tmp_path: Path
) -> None:
    """Qdrant leaves them. The list of files had them, and the same command again was refused."""
    library = tmp_path / "library"
    arguments = ["ingest", str(small_snapshot), "--library", str(library)]
    kill_at("list_files", arguments)
    segment = next((library / "building" / "vectors" / "segments").iterdir())
    (segment / ".atomicwriteZe9Xnx").mkdir()
    (segment / ".atomicwriteZe9Xnx" / "tmpfile.tmp").write_bytes(b"half")
    assert run_cli(*arguments).returncode == 0
    assert not list(library.rglob(".atomicwrite*"))
    verify(library)
