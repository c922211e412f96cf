import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.errors import StorageError, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, INTEGER_FIELDS, KEYWORD_FIELDS
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.indexes.vectors.shard_view import ShardView
from tests.indexes.vectors.conftest import Corpus
from tests.libraries import copied

SERVE = """
import json, sys
from pathlib import Path
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.bm25 import Bm25Text
from scholarbase.indexes.vectors.index import EdgeIndex

index = EdgeIndex.open(Path(sys.argv[1]))
found = index.search_sparse("bm25", Bm25Text().query("neural networks for images"), 20, NO_FILTERS)
print(json.dumps([index.count(NO_FILTERS), found]), flush=True)
sys.stdin.readline()
index.close()
"""


OPEN_AND_CLOSE = """
import sys
from pathlib import Path
from scholarbase.indexes.vectors.shard_view import ShardView

for _ in range(200):
    view = ShardView.open(Path(sys.argv[1]))
    assert (view.path / "matrix.dat").is_file()
    view.close()
"""


@pytest.fixture
def library(shard: Path, tmp_path: Path) -> Path:
    """A library folder of its own, with a shard in it."""
    copied(shard, tmp_path / "library" / "vectors")
    return tmp_path / "library"


def fingerprint(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file's inode, time of change and content."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_ino,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def views_of(library: Path) -> Path:
    return library.with_name(f".{library.name}-views")


def serve(shard: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, str(shard)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def results(process: subprocess.Popen[str]) -> list:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=120)
    assert process.returncode == 0


@pytest.mark.slow
def test_serving_does_not_change_a_library(library: Path, corpus: Corpus) -> None:
    before = fingerprint(library)
    index = EdgeIndex.open(library / "vectors")
    assert [path.name for path in library.iterdir()] == ["vectors"]
    assert index.search_sparse(BM25, corpus.bm25.query("neural networks"), 10, NO_FILTERS)
    assert index.search_dense(corpus.project("neural networks"), 10, NO_FILTERS)
    assert sum(1 for _ in index.ids()) == len(corpus.points)
    index.close()
    index.close()
    assert fingerprint(library) == before
    assert [path.name for path in library.iterdir()] == ["vectors"]
    assert [path.name for path in library.parent.iterdir()] == ["library"]


@pytest.mark.slow
def test_killing_the_server_does_not_change_a_library(library: Path, corpus: Corpus) -> None:
    before = fingerprint(library / "vectors")
    process = serve(library / "vectors")
    results(process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    assert len(list(views_of(library).iterdir())) == 1
    assert fingerprint(library / "vectors") == before
    # The next process removes its view.
    index = EdgeIndex.open(library / "vectors")
    (view,) = views_of(library).iterdir()
    assert view.name.startswith(f"{os.getpid()}-")
    index.close()
    assert fingerprint(library / "vectors") == before
    assert [path.name for path in library.iterdir()] == ["vectors"]


@pytest.mark.slow
def test_views_opened_while_others_close_find_their_folder(tmp_path: Path) -> None:
    """Closing a view removed the folder of all views while another view was created in it."""
    shard = tmp_path / "vectors"
    shard.mkdir()
    (shard / "matrix.dat").write_bytes(b"a tiny one")
    command = [sys.executable, "-c", OPEN_AND_CLOSE, str(shard)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert errors == [""] * 4
    assert [process.returncode for process in processes] == [0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]
    assert not views_of(tmp_path).exists()


def test_a_view_takes_little_space(library: Path) -> None:
    view = ShardView.open(library / "vectors")
    own = sum(
        path.stat().st_blocks * 512
        for path in view.path.rglob("*")
        if path.is_file() and path.stat().st_nlink == 1
    )
    shared = [path.name for path in view.path.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    view.close()
    assert {"matrix.dat", "quantized.data", "page_0.dat", "inverted_index.dat"} <= set(shared)
    # Each index of a field of the payload has a page of 128 KiB of its own, and the shard has another.
    assert own <= 2**17 * (len(INTEGER_FIELDS) + len(KEYWORD_FIELDS) + 1)


@pytest.fixture
def mounted(library: Path) -> Iterator[Path]:
    """The library as a mount point, as in a container: no hard link leads out of it."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting needs root")
    command = ["mount", "--bind", str(library), str(library)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted")
    try:
        yield library
    finally:
        subprocess.run(["umount", str(library)], check=True)


@pytest.fixture
def read_only(mounted: Path) -> Path:
    """The library on a read-only mount."""
    if subprocess.run(["mount", "-o", "remount,ro,bind", str(mounted)], check=False).returncode:
        pytest.skip("mounting read-only is not permitted")
    return mounted


@pytest.mark.slow
def test_a_read_only_library_is_served(read_only: Path, tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(OSError, match="Read-only"):
        (read_only / "new").touch()
    before = fingerprint(read_only)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    processes = [serve(read_only / "vectors", TMPDIR=str(temporary)) for _ in range(2)]
    first, second = [results(process) for process in processes]
    assert first == second
    assert first[0] == len(corpus.points)
    assert len(first[1]) == 20
    assert len(list(temporary.glob("scholarbase-views-*/*/*"))) == 2
    for process in processes:
        end(process)
    assert fingerprint(read_only) == before
    assert list(temporary.glob("scholarbase-views-*/*")) == []


def test_a_view_of_a_mount_point_copies_no_pages(mounted: Path, tmp_path: Path) -> None:
    """A view beside it or in the temporary folder would copy the pages: 2 GB for 3 million papers."""
    before = fingerprint(mounted)
    view = ShardView.open(mounted / "vectors", temporary=tmp_path / "temporary")
    pages = [path for path in view.path.rglob("page_*.dat") if path.is_file()]
    assert pages
    assert all(path.stat().st_nlink > 1 for path in pages)
    view.close()
    assert fingerprint(mounted) == before
    assert [path.name for path in mounted.iterdir()] == ["vectors"]
    assert not views_of(mounted).exists()


def test_a_folder_beside_the_library_of_another_user_is_not_used(library: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("changing owners needs root")
    views_of(library).mkdir()
    os.chown(views_of(library), 12345, 12345)
    view = ShardView.open(library / "vectors", temporary=tmp_path / "temporary")
    assert view.path.is_relative_to(tmp_path / "temporary")
    view.close()


def test_no_writable_folder_is_an_error(read_only: Path) -> None:
    with pytest.raises(StorageError, match="TMPDIR"):
        ShardView.open(read_only / "vectors", temporary=read_only / "temporary")


def test_a_folder_of_another_user_is_not_used(read_only: Path, tmp_path: Path) -> None:
    planted = tmp_path / f"scholarbase-views-{os.getuid()}"
    planted.mkdir()
    os.chown(planted, 12345, 12345)
    with pytest.raises(StorageError, match="belongs to another user"):
        ShardView.open(read_only / "vectors", temporary=tmp_path)


def test_a_link_to_a_folder_was_copied_with_all_below_it(library: Path) -> None:
    (library / "vectors" / "again").symlink_to(library)
    with pytest.raises(VectorIndexError, match="again is a link to a folder"):
        ShardView.open(library / "vectors")
    assert not views_of(library).exists()


def test_a_missing_index_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VectorIndexError, match="No vector index at"):
        EdgeIndex.open(tmp_path / "vectors")
    with pytest.raises(VectorIndexError, match="No vector index at"):
        ShardView.open(tmp_path / "vectors")
    assert list(tmp_path.iterdir()) == []
