"""Sources that change during an ingest are found, and never give a snapshot id with other content."""

import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.errors import SourceChanged
from scholarbase.ingest import job, reading
from scholarbase.ingest.job import ingest
from scholarbase.ingest.sources import open_lines
from scholarbase.ingest.sources.files import StoredBytes, sha256_of

PAPERS = 40


def release(author: str, count: int = PAPERS) -> bytes:
    """Papers of an arXiv snapshot, all by ``author``."""
    rows = (
        {
            "id": f"2001.{number:05d}",
            "title": f"Paper {number}",
            "abstract": f"On the number {number}.",
            "categories": "cs.CL",
            "authors_parsed": [[author, "A.", ""]],
        }
        for number in range(1, count + 1)
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


PACKED = {
    "jsonl": bytes,
    "jsonl.gz": lambda data: gzip.compress(data, mtime=0),
    "jsonl.xz": lzma.compress,
    "jsonl.zst": zstd,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix", [pytest.param(suffix, marks=[pytest.mark.slow] * (suffix != "jsonl.gz")) for suffix in PACKED]
)
def test_a_source_that_changes_between_fingerprint_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    source, pack = tmp_path / f"arxiv.{suffix}", PACKED[suffix]
    source.write_bytes(pack(release("Ada")))
    hashed = job.hash_files

    def changed(*arguments: Any) -> Any:
        facts = hashed(*arguments)
        source.write_bytes(pack(release("Bob")))
        return facts

    monkeypatch.setattr(job, "hash_files", changed)
    with pytest.raises(SourceChanged, match="changed while it was being read"):
        ingest([source], tmp_path / "library")
    monkeypatch.undo()
    assert not (tmp_path / "library").exists()
    source.write_bytes(pack(release("Ada")))
    assert ingest([source], tmp_path / "library") == ingest([source], tmp_path / "whole")


KILLED = """
import os, signal, sys
from scholarbase.cli import main
from scholarbase.ingest import reading
from scholarbase.ingest.writer import CatalogWriter
reading.LINES_PER_COMMIT = 10
batches, write = 0, CatalogWriter.write
def counted(self, *arguments):
    global batches
    batches += 1
    if batches == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, *arguments)
CatalogWriter.write = counted
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "during",
    [
        release("Bob"),
        release("Bob", PAPERS // 2) + release("Ada")[len(release("Ada", PAPERS // 2)) :],
        release("Bob", 2 * PAPERS),
    ],
    ids=["another", "another start", "a longer one"],
)
def test_a_source_half_read_then_restored_then_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: bytes
) -> None:
    """The killed run read other bytes than those of the fingerprint; the resumed run reads the right ones."""
    source, library = tmp_path / "arxiv.jsonl", tmp_path / "library"
    source.write_bytes(during)
    swap = f"""
from pathlib import Path
from typing import Any
from scholarbase.ingest import job
hashed = job.hash_files
right = Path({str(tmp_path / "right")!r}).read_bytes()
def swapped(files, reporter):
    there = Path({str(source)!r})
    before = there.read_bytes()
    there.write_bytes(right)
    facts = hashed([(*one[:3], len(right)) for one in files], reporter)
    there.write_bytes(before)
    return facts
job.hash_files = swapped
"""
    (tmp_path / "right").write_bytes(release("Ada"))
    command = [sys.executable, "-c", swap + KILLED, "ingest", str(source), "--library", str(library)]
    command += ["--encoder", "none"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9
    source.write_bytes(release("Ada"))
    monkeypatch.setattr(reading, "LINES_PER_COMMIT", 10)
    with pytest.raises(SourceChanged, match="changed while it was being read"):
        ingest([source], library)
    assert ingest([source], library) == ingest([source], tmp_path / "whole")


@pytest.mark.slow
def test_a_source_half_read_then_changed_is_not_resumed(tmp_path: Path) -> None:
    source, library = tmp_path / "arxiv.jsonl", tmp_path / "library"
    source.write_bytes(release("Ada"))
    command = [sys.executable, "-c", KILLED, "ingest", str(source), "--library", str(library)]
    command += ["--encoder", "none"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9
    source.write_bytes(release("Bob"))
    with pytest.raises(SourceChanged, match="differ in sources"):
        ingest([source], library)
    source.write_bytes(release("Ada"))
    assert ingest([source], library) == ingest([source], tmp_path / "whole")


@pytest.mark.parametrize("suffix", PACKED)
def test_bytes_behind_the_last_compressed_stream_are_hashed(tmp_path: Path, suffix: str) -> None:
    """gzip ignores zeros there, and xz anything."""
    behind = {"jsonl.gz": bytes(600_000), "jsonl.xz": b"no xz stream" * 50_000}.get(suffix, b"")
    source = tmp_path / f"arxiv.{suffix}"
    source.write_bytes(PACKED[suffix](release("Ada")) + behind)
    read = StoredBytes()
    assert len(list(open_lines(source, read))) == PAPERS
    assert read.state == (source.stat().st_size, sha256_of(source))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vectors.npy", "ids.txt"])
def test_vectors_that_change_between_fingerprint_and_read(
    tmp_path: Path,
    small_snapshot: Path,
    minilm: SentenceTransformersEncoder,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    source = tmp_path / "arxiv.jsonl"
    source.write_bytes(release("Ada"))
    ids = [f"2001.{number:05d}" for number in range(1, PAPERS + 1)]
    texts = [f"Paper {number}\nOn the number {number}." for number in range(1, PAPERS + 1)]
    vectors = minilm.encode_documents(texts).dense

    def write(rows: np.ndarray, names: list[str]) -> None:
        np.save(tmp_path / "vectors.npy", rows)
        (tmp_path / "ids.txt").write_text("\n".join(names))

    write(vectors, ids)
    load: Callable[..., object] = job.load_vectors

    def changed(*arguments: object) -> object:
        if name == "ids.txt":
            write(vectors, [*ids[:-2], ids[-1], ids[-2]])
        else:
            write(np.concatenate([vectors[:-1], vectors[:1]]), ids)
        return load(*arguments)

    monkeypatch.setattr(job, "load_vectors", changed)
    with pytest.raises(SourceChanged, match=r"vectors at .* changed while they were being read"):
        ingest([source], tmp_path / "library", encoder=minilm, vectors=tmp_path / "vectors.npy")
    monkeypatch.undo()
    write(vectors, ids)
    resumed = ingest([source], tmp_path / "library", encoder=minilm, vectors=tmp_path / "vectors.npy")
    assert resumed == ingest([source], tmp_path / "whole", encoder=minilm, vectors=tmp_path / "vectors.npy")
