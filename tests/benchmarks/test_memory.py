"""The size of a folder while it is filled."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.memory import Peak


def test_a_deleted_file_that_is_open_counts(tmp_path: Path) -> None:
    def size() -> int:
        peak = Peak()
        peak.sample_disk(os.getpid(), tmp_path)
        return peak.disk_bytes

    before = size()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").write_bytes(bytes(range(256)) * 4096)
    with (tmp_path / "deleted").open("wb") as file:
        file.write(bytes(range(256)) * 8192)
        file.flush()
        Path(file.name).unlink()
        assert 3 << 20 <= size() - before < (3 << 20) + 65_536
    assert 1 << 20 <= size() - before < (1 << 20) + 65_536
