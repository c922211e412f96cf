import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scholarbase.errors import StorageError
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.space import check_space, required_bytes
from tests.indexes.vectors.conftest import CONFIG, Corpus


def blocks(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_too_little_space_is_an_error_with_both_sizes(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(StorageError, match=r"needs about [\d,]+ MB, but the disk has [\d,]+ MB free"):
        check_space(tmp_path / "not" / "yet" / "vectors", free * 2)
    with pytest.raises(StorageError, match=r"67 MB of it are a reserve"):  # 12 MB of papers "need 79 MB"
        check_space(tmp_path / "vectors", free * 2)
    check_space(tmp_path / "vectors", 1)


def test_the_estimate_is_an_upper_bound(corpus: Corpus) -> None:
    """On a disk: in a file system in memory, holes of files take space when they are read."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        writer = EdgeWriter.open(folder / "vectors", CONFIG)
        writer.upsert(corpus.points)
        writer.flush()
        unfinished = blocks(folder)
        writer.finish()
        writer.close()
        assert unfinished + blocks(folder) < required_bytes(CONFIG, len(corpus.points))


def test_more_needs_more() -> None:
    base = required_bytes(VectorConfig(), 1000)
    assert required_bytes(VectorConfig(), 2000) > base
    assert required_bytes(VectorConfig(learned=True), 1000) > base
    # A float16 vector of 1024 dimensions is 2,048 bytes, in two segments, and a code of two bits each 256.
    assert required_bytes(VectorConfig(dimensions=1024), 1000) - base >= 4_352_000


FILL = """
import sys
from pathlib import Path
import numpy as np
from scholarbase.errors import StorageError
from scholarbase.indexes.vectors.base import Payload, SparseVector, VectorConfig, VectorPoint
from scholarbase.indexes.vectors.edge import EdgeWriter

random = np.random.default_rng(0)
try:
    writer = EdgeWriter.open(Path(sys.argv[1]), VectorConfig(dimensions=256))
    for start in range(0, 300_000, 1000):
        vectors = random.standard_normal((1000, 256)).astype(np.float32)
        writer.upsert([
            VectorPoint(start + i, Payload(), vectors[i], {"bm25": SparseVector(range(i, i + 50), [1.0] * 50)})
            for i in range(1000)
        ])
except StorageError as error:
    print(error)
    sys.exit(7)
"""


@pytest.mark.slow
@pytest.mark.parametrize("small_disk", [120], indirect=True)
def test_a_full_disk_is_an_error_and_does_not_kill_the_process(small_disk: Path) -> None:
    """Qdrant writes to memory maps: without space the kernel kills the process with SIGBUS."""
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(small_disk / "vectors")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 7, done
    assert "MB free" in done.stdout
