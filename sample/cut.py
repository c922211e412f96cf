"""Cut the sample snapshot of this folder from larger sources. The same sources give the same bytes.

    python sample/cut.py SOURCES

SOURCES is a folder with ``s2ag-citations/{papers,abstracts,citations}/*.gz`` and ``s2ag-samples/*/*.gz`` (a
Semantic Scholar release, and the publisher's samples of it), ``arxiv/*.xz`` (an arXiv metadata snapshot),
``autoscholar/queries.jsonl`` and ``minilm-vectors/{vectors.npy,ids.txt}``.

The sample has:

- *High-energy physics*: the hep-th and hep-ph papers that cite each other most, so that citations can be followed. The
  Semantic Scholar part lacks some abstracts, as releases do; the arXiv part has them.
- *Computer science*: the answers of the chosen questions, answers of other questions, and the nearest neighbours of the
  chosen answers, as plausible wrong results.

Lines are copied unchanged.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import lzma
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from scholarbase import identifiers

HERE: Final = Path(__file__).parent
TEST_DATA: Final = HERE.parent / "tests" / "ingest" / "sources" / "data"

PHYSICS_PAPERS: Final = 1840
WITHOUT_ABSTRACT: Final = 30
"""Physics papers whose abstract is only in the arXiv part."""
DANGLING_EDGES: Final = 400
"""Edges to papers outside the sample, as in every part of a real graph."""
COMPUTER_SCIENCE_PAPERS: Final = 600
"""With the physics papers, a small model encodes them on two cores in little more than a minute."""
QUESTIONS: Final = 40
NEIGHBOURS: Final = 6
SHARDS: Final = 2
RELEASE: Final = "20260714"

# Well-known papers.
FAMILIAR: Final = (
    "1301.3781", "1310.4546", "1312.6114", "1406.2661", "1409.0473", "1409.1556", "1409.3215",
    "1412.6980", "1502.03167", "1508.07909", "1511.06434", "1512.03385", "1606.05250", "1607.06450",
    "1611.09268", "1704.00051", "1706.03762", "1707.06347", "1802.05365", "1810.04805", "1901.08149",
    "1904.10509", "1906.08237", "1907.11692", "1908.10084", "1909.11942", "1910.10683", "1910.13461",
    "1910.14424", "2002.08909", "2004.04906", "2004.12832", "2005.11401", "2005.14165", "2103.00020",
    "2104.08663", "2106.09685", "2112.04426", "2201.11903", "2203.02155", "2210.03629", "2302.13971",
    "2309.06180", "2310.11511",
)  # fmt: skip


def lines_of(path: Path) -> Iterator[bytes]:
    with (lzma.open if path.suffix == ".xz" else gzip.open)(path, "rb") as file:
        yield from file


def shards(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob("*.gz")):
        yield from lines_of(path)


def write_gzip(path: Path, lines: Iterable[bytes]) -> None:
    """Write a gzip file without timestamp and name, so that the same lines give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        for line in lines:
            file.write(line.rstrip(b"\n") + b"\n")


def write_shards(dataset: str, lines: dict[int, bytes]) -> None:
    """Write lines by ascending key, distributed to the shards in turn."""
    ordered = [lines[key] for key in sorted(lines)]
    for shard in range(SHARDS):
        name = f"{RELEASE}_{shard:05d}_{dataset}.gz"
        write_gzip(HERE / "s2ag" / dataset / name, ordered[shard::SHARDS])


def dense_core(edges: list[tuple[int, int]], size: int) -> set[int]:
    """The ``size`` nodes of the densest part: repeatedly remove the node with fewest edges to the others, ties by the
    highest number (Matula and Beck, Smallest-last ordering, J. ACM 1983)."""
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    for citing, cited in edges:
        if citing != cited:
            neighbours[citing].add(cited)
            neighbours[cited].add(citing)
    degree = {node: len(others) for node, others in neighbours.items()}
    left = set(neighbours)
    heap = [(count, -node) for node, count in degree.items()]
    heapq.heapify(heap)
    while len(left) > size:
        count, negated = heapq.heappop(heap)
        node = -negated
        if node in left and degree[node] == count:
            left.discard(node)
            for other in neighbours[node] & left:
                degree[other] -= 1
                heapq.heappush(heap, (degree[other], -other))
    return left


def cut_physics(release: Path, arxiv_ids: set[str]) -> set[str]:
    """Write the Semantic Scholar part. Returns the arXiv ids of its papers."""
    papers = {
        (record := orjson.loads(line))["corpusid"]: (record, line) for line in shards(release / "papers")
    }
    abstracts = {orjson.loads(line)["corpusid"]: line for line in shards(release / "abstracts")}
    edges: dict[int, tuple[int, int, bytes]] = {}
    for line in shards(release / "citations"):
        edge = orjson.loads(line)
        edges[int(edge["citationid"])] = (int(edge["citingcorpusid"]), int(edge["citedcorpusid"]), line)

    def arxiv_of(corpus_id: int) -> str:
        return papers[corpus_id][0]["externalids"]["ArXiv"] or ""

    wanted = {
        corpus_id
        for corpus_id in abstracts.keys() & papers.keys()
        if arxiv_of(corpus_id).startswith(("hep-th/", "hep-ph/")) and arxiv_of(corpus_id) in arxiv_ids
    }
    among = [(a, b) for a, b, _ in edges.values() if a in wanted and b in wanted]
    core = dense_core(among, PHYSICS_PAPERS)
    left_out = set(sorted(core)[:: len(core) // WITHOUT_ABSTRACT][:WITHOUT_ABSTRACT])
    inner = {key: line for key, (a, b, line) in edges.items() if a in core and b in core}
    outer = sorted(key for key, (a, b, _) in edges.items() if a in core and b not in core)
    outer = outer[:: max(1, len(outer) // DANGLING_EDGES)][:DANGLING_EDGES]
    write_shards("papers", {key: papers[key][1] for key in core})
    write_shards("abstracts", {key: abstracts[key] for key in core - left_out})
    write_shards("citations", inner | {key: edges[key][2] for key in outer})
    return {arxiv_of(key) for key in core}


def read_questions(path: Path, arxiv_ids: set[str]) -> list[dict[str, Any]]:
    """The questions whose answers are all available, most answers first."""
    questions = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    answerable = [q for q in questions if set(q["answer_arxiv_ids"]) <= arxiv_ids]
    return sorted(answerable, key=lambda q: (-len(q["answer_arxiv_ids"]), q["query_id"]))


def nearest(seeds: list[str], folder: Path, arxiv_ids: set[str], count: int) -> list[str]:
    """The papers nearest to the seeds by cosine: the nearest of each, then the second of each, up to ``count``."""
    ids = folder.joinpath("ids.txt").read_text().split()
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    rows = {paper: row for row, paper in enumerate(ids)}
    everything = np.asarray(vectors, dtype=np.float32)
    near: list[list[str]] = []
    for seed in seeds:
        if seed in rows:
            cosines = everything @ everything[rows[seed]]
            best = np.argsort(-cosines, kind="stable")[1 : 4 * count]
            near.append([ids[row] for row in best if ids[row] in arxiv_ids][:count])
    return list(dict.fromkeys(paper for rank in zip_longest(*near) for paper in rank if paper is not None))


def cut_computer_science(sources: Path, arxiv_ids: set[str]) -> set[str]:
    """Write the questions. Returns the arXiv ids of their papers."""
    questions = read_questions(sources / "autoscholar" / "queries.jsonl", arxiv_ids)
    chosen = sorted(questions[:QUESTIONS], key=lambda q: q["query_id"])
    with (HERE / "queries.jsonl").open("wb") as file:
        for question in chosen:
            file.write(orjson.dumps(question) + b"\n")
    answers = list(dict.fromkeys(a for question in chosen for a in question["answer_arxiv_ids"]))
    near = nearest(answers, sources / "minilm-vectors", arxiv_ids, NEIGHBOURS)
    others = [a for question in questions[QUESTIONS:] for a in question["answer_arxiv_ids"]]
    wanted = dict.fromkeys([*answers, *(p for p in FAMILIAR if p in arxiv_ids), *near, *others])
    return set(list(wanted)[:COMPUTER_SCIENCE_PAPERS])


def cut_arxiv(snapshot: Path, wanted: set[str]) -> None:
    with lzma.open(HERE / "arxiv" / "arxiv-metadata-sample.jsonl.xz", "wb", preset=9) as file:
        for line in lines_of(snapshot):
            if orjson.loads(line)["id"] in wanted:
                file.write(line.rstrip(b"\n") + b"\n")


def cut_test_data(samples: Path) -> None:
    """Write a few records of every dataset in the publisher's samples, for the tests of the sources."""
    for folder in sorted(path for path in samples.iterdir() if path.is_dir()):
        lines = [line for path in sorted(folder.glob("*.gz")) for line in lines_of(path)]
        chosen = lines[:12] if folder.name not in ("embeddings", "s2orc") else lines[:1]
        if folder.name == "citations":
            chosen += [line for line in lines[12:] if b'"intents":["' in line][:4]  # rare
        write_gzip(TEST_DATA / "s2ag" / folder.name / f"{folder.name}-sample.jsonl.gz", chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path, help="the folder of the larger sources")
    sources: Path = parser.parse_args().sources
    (snapshot,) = (sources / "arxiv").glob("*.xz")
    (HERE / "arxiv").mkdir(exist_ok=True)
    # Only complete records: a valid id, an abstract, categories.
    arxiv_ids = {
        record["id"]
        for record in map(orjson.loads, lines_of(snapshot))
        if identifiers.arxiv_id(record["id"]) and record["abstract"] and record["categories"]
    }
    wanted = cut_physics(sources / "s2ag-citations", arxiv_ids)
    wanted |= cut_computer_science(sources, arxiv_ids)
    cut_arxiv(snapshot, wanted)
    cut_test_data(sources / "s2ag-samples")


if __name__ == "__main__":
    main()
