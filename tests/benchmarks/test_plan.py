"""The samples that plans are measured with."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from benchmarks.parts import plan


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A hundred papers, of which every tenth has a second record far behind the first."""
    records = [{"id": f"0704.{number:04}", "version": 1} for number in range(1, 101)]
    records += [{"id": f"0704.{number:04}", "version": 2} for number in range(10, 101, 10)]
    path = tmp_path / "arxiv.json.xz"
    with lzma.open(path, "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_a_sample_has_all_records_of_its_papers_and_those_of_smaller_samples(
    source: Path, tmp_path: Path
) -> None:
    found = {}
    for size in (20, 40, None):
        plan.sample(source, size, tmp_path / "sample.json")
        found[size] = ids(tmp_path / "sample.json")
        assert len(set(found[size])) == (size or 100)
        for name in set(found[size]):
            assert found[size].count(name) == (2 if name.endswith("0") else 1)
    assert set(found[20]) < set(found[40])
    # Papers of the beginning and of the end.
    assert min(found[20]) < "0704.0030"
    assert max(found[20]) > "0704.0070"
