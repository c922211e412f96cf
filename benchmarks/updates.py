"""An update beside full builds, on real data. Run by hand; docs/measurements.md has its figures.

    python -m benchmarks.updates --data DATA --work FOLDER

Changes 1% of the papers of the arXiv snapshot in DATA, and compares hash, time and processor time with a full
build. FOLDER needs 10 GB; libraries that are in it are not built again.
"""

from __future__ import annotations

import argparse
import lzma
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import orjson

from benchmarks.corpus import arxiv_source
from scholarbase.identifiers import stored_arxiv_id
from scholarbase.manifest import Manifest, read_manifest

SEED: Final = 20260105


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.updates")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--papers", type=int, help="read only the first records of the arXiv snapshot")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    arxiv(options.data, options.work, options.papers)


def arxiv(data: Path, work: Path, papers: int | None) -> None:
    """Change 1% of the records: 0.7% have a new text, 0.1% only new metadata, 0.1% come and 0.1% go.

    One paper in seven of the shared file has several records, which stay as they are: without its newest record a
    paper would go back to an older one, as no increment of arXiv does.
    """
    kinds = random.Random(SEED)
    files = {name: work / name / "arxiv.json" for name in ("before", "after")}
    updates, deletes = (work / "changes" / "arxiv" / name / "0.json" for name in ("updates", "deletes"))
    for path in (*files.values(), updates, deletes):
        path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(arxiv_source(data)) as lines:
        records = Counter(map(_key, _first(lines, papers)))
    with (
        lzma.open(arxiv_source(data)) as lines,
        files["before"].open("wb") as before,
        files["after"].open("wb") as after,
        updates.open("wb") as updated,
        deletes.open("wb") as deleted,
    ):
        for line in _first(lines, papers):
            kind = kinds.random()
            if kind >= 0.01 or records[_key(line)] > 1:
                before.write(line)
                after.write(line)
                continue
            record = orjson.loads(line)
            if kind >= 0.001:
                before.write(line)
            if 0.001 <= kind < 0.002:
                deleted.write(orjson.dumps({"id": _key(line)}) + b"\n")
                continue
            if kind >= 0.002:
                field, text = "abstract", " A revised version."
                if kind < 0.003:
                    field, text = "comments", "Revised."
                record |= {field: f"{record.get(field) or ''}{text}"}
            for file in (after, updated):
                file.write(orjson.dumps(record) + b"\n")
    figures = [
        _build(files["before"], work / "full-before"),
        _update(work / "full-before", work / "changes", work / "updated"),
        _build(files["after"], work / "full-after"),
    ]
    _compare(work / "updated", work / "full-after")
    if all(figures):
        (_, _), (wall, cpu), (full_wall, full_cpu) = [figure for figure in figures if figure]
        print(
            f"update / full build: {wall / full_wall:.1%} of the time, {cpu / full_cpu:.1%} of the CPU time"
        )


def _key(line: bytes) -> str | None:
    return stored_arxiv_id(orjson.loads(line)["id"])[0]


def _first(lines: Iterable[bytes], count: int | None) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number == count:
            return
        yield line if line.endswith(b"\n") else line + b"\n"


# -- commands -------------------------------------------------------------------------------------------


def _build(source: Path, library: Path, *options: str) -> tuple[float, float] | None:
    return _run(library, "ingest", source, "--library", library, *options)


def _update(old: Path, changes: Path, library: Path) -> tuple[float, float] | None:
    figures = _run(library, "update", old, changes, "--library", library)
    counts = _manifest(library).counts
    print({name: counts[name] for name in counts if name.split("_")[0] in ("papers", "records", "vectors")})
    return figures


def _run(library: Path, *arguments: str | Path) -> tuple[float, float] | None:
    """Run a command of ScholarBase. Returns its seconds and processor seconds, None if its library was there."""
    if (library / "manifest.json").exists():
        print(f"{library.name} is there")
        return None
    began, cpu = time.perf_counter(), _cpu()
    subprocess.run([sys.executable, "-m", "scholarbase.cli", *map(str, arguments)], check=True)
    wall, used = time.perf_counter() - began, _cpu() - cpu
    load = "/".join(f"{average:.1f}" for average in os.getloadavg())
    print(
        f"{library.name}: {wall:.1f} s, {used:.1f} s of CPU time; load averages after it {load}", flush=True
    )
    return wall, used


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _manifest(library: Path) -> Manifest:
    return read_manifest(library)[0]


def _compare(updated: Path, built: Path) -> None:
    """Raises AssertionError: the content hashes differ."""
    incremental, full = _manifest(updated), _manifest(built)
    differing = sorted(part for part in full.content if incremental.content[part] != full.content[part])
    for name, manifest in (("updated", incremental), ("full", full)):
        counts = manifest.counts
        print(f"{name}: {counts['papers']:,} papers, {counts['edges']:,} edges, {manifest.content_hash[:16]}")
    assert incremental.content_hash == full.content_hash, differing


if __name__ == "__main__":
    main()
