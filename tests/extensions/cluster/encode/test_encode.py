"""Vectors of a snapshot, encoded outside an ingest and taken by one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.errors import EncoderMismatch, LibraryExists, SourceError
from scholarbase.extras import is_installed
from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_cluster.encode.job import EncodeOptions, encode
from tests.conftest import SAMPLE, arxiv_rows, json_lines, run_cli, succeeded
from tests.encoders.embeddings import Service, embeddings_service, vector_of
from tests.forks import CLI, COMMANDS, fork
from tests.sessions.agents import wait_until

SMALL = EncodeOptions(papers=128)
PAPERS = 640


@pytest.fixture
def service() -> Iterator[Service]:
    with embeddings_service() as service:
        yield service


@pytest.fixture(scope="module")
def packaged() -> Iterator[Encoder]:
    encoder = open_encoder(PACKAGED)
    yield encoder
    encoder.close()


def papers(path: Path, count: int) -> Path:
    return json_lines(path, islice(arxiv_rows(), count))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Papers for five partitions."""
    return papers(tmp_path_factory.mktemp("source") / "papers.jsonl", PAPERS)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory, packaged: Encoder, source: Path) -> Path:
    """The vectors of the papers, in five partitions."""
    out = tmp_path_factory.mktemp("encoded") / "vectors"
    done = encode([source], out, packaged, SMALL)
    assert done.counts == {"partitions": 5, "papers": PAPERS, "vectors": PAPERS}
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_a_library_of_these_vectors_is_the_one_that_an_ingest_encodes(
    vectors: Path, source: Path, packaged: Encoder, tmp_path: Path
) -> None:
    assert sorted(path.name for path in vectors.iterdir()) == [
        *(f"{number:06d}.parquet" for number in range(5)),
        "encoding.json",
    ]
    sources = [source]
    ingest(sources, tmp_path / "library", encoder=packaged, encoder_location=PACKAGED, vectors=vectors)
    ingest(sources, tmp_path / "other", encoder=packaged, encoder_location=PACKAGED)
    ours, theirs = (read_manifest(tmp_path / name)[0] for name in ("library", "other"))
    assert ours.content_hash == theirs.content_hash
    assert ours.encoder == theirs.encoder
    lines = (SAMPLE / "queries.jsonl").read_text().splitlines()[:10]
    queries = [json.loads(line)["final_query"] for line in lines]
    settings = load_settings(similarity_floor=False)
    with (
        Library.open(tmp_path / "library", settings=settings) as one,
        Library.open(tmp_path / "other", settings=settings) as other,
    ):
        for query in queries:
            for mode in ("dense", "hybrid"):
                found = [library.search(query, mode=mode, limit=50, exact=True) for library in (one, other)]
                assert found[0].results == found[1].results
                assert found[0].results


def test_a_second_call_with_other_sources_or_another_encoder_is_refused(
    vectors: Path, source: Path, packaged: Encoder, service: Service
) -> None:
    before, sources = files(vectors), [source]
    with pytest.raises(LibraryExists, match="has vectors of other sources: give another --out, or --restart"):
        encode([SAMPLE / "arxiv"], vectors, packaged, SMALL)
    with (
        closing(HttpEncoder(service.url)) as other,
        pytest.raises(LibraryExists, match="other encoder and weight of titles:"),
    ):
        encode(sources, vectors, other, SMALL)
    with pytest.raises(LibraryExists, match="other papers_per_partition:"):
        encode(sources, vectors, packaged)
    assert encode(sources, vectors, packaged, SMALL).is_complete
    assert files(vectors) == before


@pytest.mark.slow
def test_an_ingest_refuses_vectors_that_are_incomplete_or_from_another_encoder(
    vectors: Path, source: Path, packaged: Encoder, service: Service, tmp_path: Path
) -> None:
    sources = [source]
    mismatch = r"are from arxiv-static-v1 .* and --encoder is hashes"
    with closing(HttpEncoder(service.url)) as other, pytest.raises(EncoderMismatch, match=mismatch):
        ingest(sources, tmp_path / "library", encoder=other, vectors=vectors)
    (tmp_path / "vectors").mkdir()
    for path in vectors.iterdir():
        (tmp_path / "vectors" / path.name).write_bytes(path.read_bytes())
    lost = tmp_path / "vectors" / "000003.parquet"
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(SourceError, match="are not complete:"):
        ingest(sources, tmp_path / "library", encoder=packaged, vectors=tmp_path / "vectors")
    encode(sources, tmp_path / "vectors", packaged, SMALL)
    assert lost.read_bytes() == content
    record = tmp_path / "vectors" / "encoding.json"
    record.write_text(record.read_text().partition('"counts"')[0] + '"counts": {}}')
    with pytest.raises(SourceError, match='are not complete: run the same "scholarbase encode" again'):
        ingest(sources, tmp_path / "library", encoder=packaged, vectors=tmp_path / "vectors")
    assert not (tmp_path / "library").exists()


def command(source: Path, out: Path, service: Service, *options: str) -> list[str]:
    return ["encode", str(source), "--out", str(out), "--encoder", service.url, "--papers", "128", *options]


@pytest.mark.slow
def test_a_killed_job_encodes_no_finished_partition_again(
    service: Service, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "vectors"
    service.allowed = 1 + 2 * 4 + 2  # one to open it, two partitions, and a half of the third
    process = fork(CLI, *command(source, out, service), imports=["scholarbase_cluster.encode.job", *COMMANDS])
    wait_until(lambda: service.requests > service.allowed)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert {path.name for path in out.glob("*.parquet")} == {"000000.parquet", "000001.parquet"}
    service.allowed = 1 << 30
    done = succeeded(*command(source, out, service))
    assert "640 vectors of 640 papers in 5 files" in done.stdout
    del service.texts["scholarly search"]  # of opening it
    assert len(service.texts) == PAPERS
    assert 2 * 32 <= sum(count == 2 for count in service.texts.values()) <= 128
    assert max(service.texts.values()) == 2
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    check_vectors(out, service)


def check_vectors(out: Path, service: Service) -> None:
    """Each file has the vectors of the service, scaled to unit length."""
    wanted = np.array(sorted(vector_of(text) for text in service.texts))
    found = np.concatenate(
        [np.stack(pq.read_table(path)["vector"].to_numpy()) for path in out.glob("*.parquet")]
    )
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    order = [np.lexsort(rows.T.round(5)) for rows in (wanted, found)]
    np.testing.assert_allclose(found[order[1]], wanted[order[0]], atol=1e-6)


@pytest.mark.slow
def test_a_killed_worker_of_ray_is_replaced_and_the_vectors_are_those_of_one_process(
    service: Service, tmp_path: Path
) -> None:
    if not is_installed("ray"):  # importing it here would take seconds
        pytest.skip("needs the extra ray")
    source = papers(tmp_path / "papers.jsonl", 2 * PAPERS)
    out, mark = tmp_path / "vectors", f"mark-{tmp_path.name}-{os.getpid()}"
    service.allowed = 1 + 2 + 5 * 4  # one for each process that opens it, and about five of ten partitions
    options = command(source, out, service, "--ray", "local", "--workers", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "scholarbase.cli", *options],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "RAY_TEST_MARK": mark,
        },
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: service.requests >= service.allowed + 2 and len(workers(mark)) == 2)
    finished = files_of(out)
    assert 2 <= len(finished) <= 8
    before = service.texts.copy()
    os.kill(workers(mark)[0], signal.SIGKILL)
    service.allowed = 1 << 30
    _, logged = process.communicate(timeout=300)
    assert process.returncode == 0, logged.decode()
    assert files_of(out).items() >= finished.items()
    wait_until(lambda: not processes(mark))
    del service.texts["scholarly search"]
    assert len(service.texts) == 2 * PAPERS
    again = sum(service.texts[text] > 1 for text in before)
    assert again <= 128  # the partition of the worker, at most; nothing if it had just begun another
    assert run_cli(*command(source, tmp_path / "here", service)).returncode == 0
    assert files(tmp_path / "here") == files(out)


def files_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("*.parquet")}


def processes(mark: str) -> list[int]:
    """The processes with this mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def workers(mark: str) -> list[int]:
    """Those of Ray's workers."""
    return [
        one for one in processes(mark) if b"MapWorker" in (Path("/proc") / str(one) / "cmdline").read_bytes()
    ]
