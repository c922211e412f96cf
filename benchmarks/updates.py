"""Updates beside full builds, on real data. Run by hand; docs/updates.md has its figures.

    python -m benchmarks.updates s2ag  --data DATA --work FOLDER
    python -m benchmarks.updates arxiv --data DATA --work FOLDER

``s2ag`` cuts three releases from the shared citation set, so that papers go and come back, and compares the first one
updated by two differences with a full build of the third one: content hash, and searches in all modes. ``arxiv``
changes 1% of the papers of the shared arXiv snapshot, and compares hash, time and processor time with a full build.
DATA is the folder that has ``s2ag-citations`` and ``arxiv``. FOLDER needs 10 GB for ``arxiv``; libraries that are in it
are not built again.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import orjson

from benchmarks.corpus import S2AG_DATASETS, arxiv_source, open_lines, s2ag_source
from scholarbase.identifiers import stored_arxiv_id
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models.limits import Mode
from scholarbase.search.library import Library

SEED: Final = 20260105
QUERIES: Final = 500
KEYS: Final = dict(zip(S2AG_DATASETS, ("corpusid", "corpusid", "citationid"), strict=True))
RELEASES: Final = ("2026-01-05", "2026-01-12", "2026-01-19")
RENUMBERED: Final = 5 * 10**9
DOUBLED: Final = 10**10

Records = dict[int, dict[str, Any]]
Release = dict[str, Records]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.updates")
    parser.add_argument("part", choices=["s2ag", "arxiv"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--papers", type=int, help="read only the first records of the arXiv snapshot")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.part == "s2ag":
        s2ag(options.data, options.work)
    else:
        arxiv(options.data, options.work, options.papers)


# -- Semantic Scholar -----------------------------------------------------------------------------------


def s2ag(data: Path, work: Path) -> None:
    """Compare a chain of two updates with a full build of the last release."""
    rng = random.Random(SEED)
    whole: Release = {name: _read(s2ag_source(data) / name, KEYS[name]) for name in S2AG_DATASETS}
    ids = sorted(whole["papers"])
    away, late, gone = rng.sample(ids, 2_000), rng.sample(ids, 2_000), rng.sample(ids, 2_000)
    first = _without(whole, set(late))
    second = _changed(rng, _without(whole, set(away) | set(late[:1_000])))
    third = _changed(rng, _without(_doubled(rng, _renumbered(second, rng.sample(ids, 1_500))), set(gone)))
    for name in S2AG_DATASETS:  # the papers that were away come back as they were
        mine = set(away) - set(gone)
        third[name].update({k: r for k, r in whole[name].items() if _is_of(name, r, mine)})
    releases = dict(zip(RELEASES, (first, second, third), strict=True))
    for name in (RELEASES[0], RELEASES[2]):
        _write_release(work / name, releases[name])
        _build(work / name, work / f"full-{name}", "--keep", "title")
    for before, after in pairwise(RELEASES):
        counts = _write_differences(work / "diffs" / f"{before}..{after}", releases[before], releases[after])
        print(f"{before}..{after}: {counts}")
    _update(work / f"full-{RELEASES[0]}", work / "diffs", work / "updated")
    _compare(work / "updated", work / f"full-{RELEASES[2]}")
    _search(work / "updated", work / f"full-{RELEASES[2]}", rng)


def _read(folder: Path, key: str) -> Records:
    found: Records = {}
    for path in sorted(folder.glob("*.gz")):
        with open_lines(path) as lines:
            for line in lines:
                record = orjson.loads(line)
                found[int(record[key])] = record
    return found


def _is_of(dataset: str, record: Mapping[str, Any], papers: set[int]) -> bool:
    names = ("citingcorpusid", "citedcorpusid") if dataset == "citations" else ("corpusid",)
    return any(int(record[name]) in papers for name in names if record[name] is not None)


def _without(release: Release, papers: set[int]) -> Release:
    """A release without some papers, with their abstracts and citations."""
    return {
        name: {key: one for key, one in records.items() if not _is_of(name, one, papers)}
        for name, records in release.items()
    }


def _changed(rng: random.Random, release: Release) -> Release:
    """A release with 2,000 new titles, 2,000 new counts and 2,000 new abstracts; 500 abstracts go."""
    papers, abstracts = ({**release[name]} for name in ("papers", "abstracts"))
    for key in rng.sample(sorted(papers), 2_000):
        papers[key] = papers[key] | {"title": f"{papers[key]['title']}, revised {rng.randint(2, 9)}"}
    for key in rng.sample(sorted(papers), 2_000):
        papers[key] = papers[key] | {"citationcount": (papers[key]["citationcount"] or 0) + 1}
    for key in rng.sample(sorted(abstracts), 2_500):
        abstracts[key] = abstracts[key] | {"abstract": f"{abstracts[key]['abstract']} We add a figure."}
    for key in rng.sample(sorted(abstracts), 500):
        del abstracts[key]
    return release | {"papers": papers, "abstracts": abstracts}


def _renumbered(release: Release, ids: Iterable[int]) -> Release:
    """A release in which papers have other corpus ids, in all datasets."""
    new = {number: number + RENUMBERED for number in ids}

    def renamed(record: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in record if name.endswith("corpusid") and record[name] is not None]
        ends = {name: type(record[name])(new.get(int(record[name]), record[name])) for name in names}
        return record if all(record[name] == end for name, end in ends.items()) else record | ends

    return {
        name: {int(one[KEYS[name]]): one for one in map(renamed, records.values())}
        for name, records in release.items()
    }


def _doubled(rng: random.Random, release: Release) -> Release:
    """A release in which 3,000 citations have a second record, with other details."""
    citations = {**release["citations"]}
    for number, key in enumerate(rng.sample(sorted(citations), 3_000)):
        again = {"citationid": str(DOUBLED + number), "isinfluential": True, "intents": [["background"]]}
        citations[DOUBLED + number] = citations[key] | again
    return release | {"citations": citations}


def _write_release(folder: Path, release: Release) -> None:
    for name, records in release.items():
        _write_lines(folder / name / "0.gz", records.values())


def _write_differences(folder: Path, before: Release, after: Release) -> str:
    counts = []
    for name, key in KEYS.items():
        old, new = before[name], after[name]
        updates = [one for number, one in new.items() if old.get(number) != one]
        deletes = [{key: old[number][key]} for number in old.keys() - new.keys()]
        _write_lines(folder / name / "updates" / "0.gz", updates)
        _write_lines(folder / name / "deletes" / "0.gz", deletes)
        counts.append(f"{name} {len(updates):,} updates, {len(deletes):,} deletes")
    return "; ".join(counts)


def _write_lines(path: Path, records: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.writelines(orjson.dumps(one) + b"\n" for one in records)


def _search(updated: Path, built: Path, rng: random.Random) -> None:
    """Run the same searches in all modes on both libraries. Raises AssertionError: results differ."""
    papers = _read(updated.parent / RELEASES[2] / "papers", "corpusid")
    texts = [papers[number]["title"] for number in rng.sample(sorted(papers), QUERIES)]
    with Library.open(updated) as one, Library.open(built) as other:
        for mode in get_args(Mode):
            equal = sum(_results(one, text, mode) == _results(other, text, mode) for text in texts)
            print(f"{mode}: {equal} of {QUERIES} searches have equal results", flush=True)
            assert equal == QUERIES, mode


def _results(library: Library, text: str, mode: Mode) -> bytes:
    return msgspec.json.encode(library.search(text, mode=mode, exact=True, limit=20).results)


# -- arXiv ----------------------------------------------------------------------------------------------


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
        (_, _), (wall, cpu), (full_wall, full_cpu) = [one for one in figures if one]
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
    load = "/".join(f"{one:.1f}" for one in os.getloadavg())
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
    one, other = _manifest(updated), _manifest(built)
    differing = sorted(part for part in other.content if one.content[part] != other.content[part])
    for name, manifest in (("updated", one), ("full", other)):
        counts = manifest.counts
        print(f"{name}: {counts['papers']:,} papers, {counts['edges']:,} edges, {manifest.content_hash[:16]}")
    assert one.content_hash == other.content_hash, differing


if __name__ == "__main__":
    main()
