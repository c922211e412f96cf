"""A library that is named by the URL of its packed file."""

import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from scholarbase.errors import (
    InvalidRequest,
    LibraryCorrupt,
    SourceError,
    VectorIndexError,
    VerificationFailed,
)
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from scholarbase.settings import load_settings
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_download.fetching import fetch_library
from scholarbase_download.packing import pack
from tests.conftest import run_cli, succeeded
from tests.extensions.download.archives import files
from tests.extensions.download.servers import Reply, Request, Web
from tests.forks import CLI, Fork, fork
from tests.libraries import relist
from tests.qdrant.cluster import qdrant_cluster
from tests.qdrant.loading import fill

NAME = "sample.tar.zst"


@pytest.fixture(scope="module")
def whole(sample_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packed sample, and its hash beside it."""
    folder = tmp_path_factory.mktemp("whole")
    pack(sample_library, folder / NAME)
    return folder


@pytest.fixture
def published(light_file: Path) -> Path:
    """A folder with a packed library, which cannot be searched, and its hash beside it."""
    return light_file.parent


@contextmanager
def serving(folder: Path) -> Iterator[Web]:
    """Serves the files of a folder."""

    def answer(request: Request) -> Reply:
        file = folder / request.path[1:]
        return Reply(file.read_bytes()) if file.is_file() else Reply(status=404)

    with Web(answer).running() as web:
        yield web


def info(url: str, cache: Path) -> Fork:
    return fork(CLI, "info", "--json", "--library", url, SCHOLARBASE_CACHE_DIR=str(cache))


@pytest.mark.slow
def test_processes_that_start_at_once_fetch_a_library_once_also_after_a_kill(
    published: Path, light_library: Path, tmp_path: Path
) -> None:
    with serving(published) as server:
        url = f"{server.url}/{NAME}"
        released = threading.Event()
        server.stops = [1_000_000]
        server.stop = lambda: not released.wait(120)  # holds the archive, and cuts nothing off
        killed = info(url, tmp_path)
        end = time.monotonic() + 120
        while not list(tmp_path.glob("*/building/*.sqlite")):
            assert time.monotonic() < end
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert not list(tmp_path.glob("*/files.json"))
        released.set()
        processes = [info(url, tmp_path) for _ in range(3)]
        outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert {output.encode() for output, _ in outputs} == {(light_library / "manifest.json").read_bytes()}
    assert server.paths().count(f"/{NAME}") == 2  # of the killed process, and of one of the three
    [library] = tmp_path.glob("[0-9a-f]*")
    assert files(library) == files(light_library)


def test_a_library_in_the_cache_needs_no_server_where_the_url_has_the_hash(
    whole: Path, tmp_path: Path
) -> None:
    digest = (whole / f"{NAME}.sha256").read_text().split()[0]
    library = fetch_library(f"file://{whole / NAME}", tmp_path)
    assert library == tmp_path / digest[:32]
    assert fetch_library(f"http://127.0.0.1:9/{NAME}#sha256={digest.upper()}", tmp_path) == library
    succeeded(
        "search", "language models", "--limit", "1", "--mode", "sparse", SCHOLARBASE_CACHE_DIR=str(tmp_path),
        SCHOLARBASE_LIBRARY=f"https://nowhere.invalid/{NAME}#sha256={digest}",
    )  # fmt: skip


def test_a_file_with_another_hash_or_without_one_is_refused(published: Path, tmp_path: Path) -> None:
    other = tmp_path / "published" / NAME
    other.parent.mkdir()
    other.write_bytes((published / NAME).read_bytes())
    with pytest.raises(SourceError, match=r"has no known hash: put the file \.sha256"):
        fetch_library(f"file://{other}", tmp_path / "cache")
    with pytest.raises(LibraryCorrupt, match=f"instead of {'0' * 64}"):
        fetch_library(f"file://{other}#sha256={'0' * 64}", tmp_path / "cache")
    with pytest.raises(InvalidRequest, match="only #sha256= and 64 hexadecimal digits"):
        fetch_library(f"file://{other}#md5=00", tmp_path / "cache")
    with pytest.raises(InvalidRequest, match="is not the URL of a packed library"):
        fetch_library(f"ftp://host/{NAME}#sha256={'0' * 64}", tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/files.json"))


def test_a_library_that_is_written_has_no_url() -> None:
    done = run_cli("ingest", "sample", "--library", "s3://bucket/library.tar.zst")
    assert done.returncode == 2
    assert "is a URL, and the library is written" in done.stderr


@pytest.mark.slow
def test_a_library_in_a_public_bucket(
    published: Path, light_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 sends the objects of a public bucket as a web server does: with the bucket as the first folder."""
    pytest.importorskip("obstore")
    with serving(published.parent) as server:
        monkeypatch.delenv("SSL_CERT_DIR")  # obstore opens no client without certificates
        monkeypatch.setenv("AWS_ENDPOINT", server.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        library = fetch_library(f"s3://{published.name}/{NAME}", tmp_path / "cache")
        assert files(library) == files(light_library)
        with pytest.raises(SourceError, match=r"absent\.tar\.zst has no known hash"):
            fetch_library(f"s3://{published.name}/absent.tar.zst", tmp_path / "cache")
        with pytest.raises(
            SourceError, match=r"absent\.tar\.zst cannot be read .* credentials in the environment"
        ):
            fetch_library(f"s3://{published.name}/absent.tar.zst#sha256={'0' * 64}", tmp_path / "cache")


@pytest.mark.slow
def test_a_library_without_vectors_is_verified_but_for_them(sample_library: Path, tmp_path: Path) -> None:
    pack(sample_library, tmp_path / NAME, vectors=False)
    library = fetch_library(f"file://{tmp_path / NAME}", tmp_path / "cache")
    lines = list(verify(library))
    assert "vectors: not checked, since the library was packed without them" in lines
    assert "content: the hashes of 9 of 10 parts are those of the manifest" in lines
    with closing(sqlite3.connect(library / "catalog.sqlite")) as db, db:
        db.execute("UPDATE papers SET year = 1900 WHERE id = (SELECT min(id) FROM papers)")
    relist(library)
    with pytest.raises(VerificationFailed, match="papers changed"):
        list(verify(library))


@pytest.mark.slow
def test_a_node_with_a_qdrant_server_needs_no_vectors(
    whole: Path, sample_library: Path, tmp_path: Path
) -> None:
    small = pack(sample_library, tmp_path / NAME, vectors=False)
    assert small.packed_bytes < (whole / NAME).stat().st_size
    library = fetch_library(f"file://{tmp_path / NAME}", tmp_path / "cache")
    assert not (library / "vectors").exists()
    with pytest.raises(VectorIndexError, match="was packed without its vectors: set SCHOLARBASE_QDRANT_URL"):
        Library.open(library)
    manifest, snapshot = read_manifest(library)
    assert snapshot == small.snapshot == read_manifest(sample_library)[1]
    with qdrant_cluster() as cluster, closing(EdgeIndex.open(sample_library / "vectors")) as edge:
        with closing(Nodes(cluster.urls)) as nodes:
            fill(edge, nodes, "scholarbase", snapshot)
        settings = load_settings(qdrant_url=tuple(cluster.urls))
        with (
            Library.open(library, settings=settings) as remote,
            Library.open(sample_library) as local,
        ):
            for query in ("language models", "graph neural networks for molecules"):
                assert remote.search(query, limit=50).results == local.search(query, limit=50).results
    assert manifest.counts["papers"] == 2440
