"""Source files of a corpus of any size: real papers, copied as often as needed, each copy with its own ids.

Copies keep what speed depends on: texts, their lengths, word frequencies, citations. The first copy is unchanged, so
that the answers of the questions keep their ids. Retrieval quality cannot be measured on copies.
"""

from __future__ import annotations

import gzip
import lzma
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, cast

import orjson

from benchmarks.rows import Setting
from scholarbase.identifiers import arxiv_id, arxiv_id_from_number

MAX_COPIES: Final = 4
"""With more, the years of two copies' ids would be equal: the data's span 1991 to 2026."""
YEARS_PER_COPY: Final = 20
CORPUS_IDS_PER_COPY: Final = 10**8
FIRST_FIVE_DIGIT_YEAR: Final = 15
"""arXiv ids have five digits after the point since 2015, four before."""
S2AG_DATASETS: Final = ("papers", "abstracts", "citations")
GZIP_LEVEL: Final = 6


def make(setting: Setting) -> None:
    """Write ``setting.corpus`` atomically, unless it exists.

    It has ``arxiv/``, ``setting.papers`` records as plain JSON lines, one file per copy, and ``s2ag/papers``,
    ``s2ag/abstracts`` and ``s2ag/citations`` with as many copies of the S2AG set.

    Raises:
        FileNotFoundError: the data folder lacks one of the two sources.
        ValueError: the number of papers is below 1 or above ``MAX_COPIES`` copies.
    """
    if setting.corpus.is_dir():
        return
    arxiv, s2ag = arxiv_source(setting.data), s2ag_source(setting.data)
    if setting.papers < 1:
        raise ValueError(f"A corpus of {setting.papers} papers cannot be made: give 1 or more.")
    growing = setting.corpus.with_name(f"{setting.corpus.name}.new")
    shutil.rmtree(growing, ignore_errors=True)
    copies = _write_arxiv(arxiv, growing / "arxiv", setting.papers)
    write_s2ag(s2ag, growing / "s2ag", copies)
    growing.rename(setting.corpus)


def cut(whole: Path, target: Path, parts: int) -> None:
    """Write the first of ``parts`` equal parts of each file of a corpus to another folder."""
    for path in sorted(path for path in whole.rglob("*") if path.is_file()):
        short = target / path.relative_to(whole)
        short.parent.mkdir(parents=True, exist_ok=True)
        with open_lines(path) as lines:
            count = sum(1 for _ in lines)
        with open_lines(path) as lines, _create(short) as out:
            _write(out.write, islice(lines, -(-count // parts)))


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of a corpus, gzip or not."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _create(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "wb", GZIP_LEVEL)) if path.suffix == ".gz" else path.open("wb")


def arxiv_source(data: Path) -> Path:
    """The arXiv snapshot of a data folder. Raises FileNotFoundError."""
    return _only(sorted((data / "arxiv").glob("*.xz")), f"arXiv snapshot (arxiv/*.xz) in {data}")


def s2ag_source(data: Path) -> Path:
    """The folder of S2AG datasets in a data folder. Raises FileNotFoundError."""
    folders = [data / name for name in ("s2ag-citations", "s2ag")]
    whole = [folder for folder in folders if all((folder / name).is_dir() for name in S2AG_DATASETS)]
    return _only(whole, f"S2AG set (s2ag-citations/papers, abstracts and citations) in {data}")


def _only(paths: list[Path], what: str) -> Path:
    if not paths:
        raise FileNotFoundError(f"No {what}: give --data a folder with one.")
    return paths[0]


def shifted_arxiv_id(name: str, copy: int) -> str | None:
    """The id of a paper's copy, also a valid arXiv id: ``0704.0001`` gives ``2704.00001`` and then ``4704.00001``,
    ``hep-th/9901001`` gives ``hep-th/1901001``. None if the name is not an arXiv id."""
    known = arxiv_id(name) or arxiv_id_from_number(name)
    if known is None:
        return None
    if copy == 0:
        return known
    archive, slash, rest = known.rpartition("/")
    year = (int(rest[:2]) + YEARS_PER_COPY * copy) % 100
    if slash:
        return f"{archive}/{year:02}{rest[2:]}"
    month, _, serial = rest[2:].partition(".")
    if year < FIRST_FIVE_DIGIT_YEAR:
        raise ValueError(f"No year is left for the id of copy {copy} of arXiv:{known}: make fewer copies.")
    return f"{year:02}{month}.{serial:0>5}"


def _write_arxiv(source: Path, folder: Path, papers: int) -> int:
    """Write one file per copy until there are ``papers`` records. Returns the number of copies."""
    folder.mkdir(parents=True)
    first = folder / "arxiv-metadata-0.json"
    with lzma.open(source) as lines, first.open("wb") as out:
        count = _write(out.write, islice(lines, papers))
    if not count:
        raise ValueError(f"{source.name} has no records: give --data another folder.")
    if papers > count * MAX_COPIES:
        raise ValueError(
            f"{papers:,} papers are more than {MAX_COPIES} copies of the {count:,} in {source.name}: "
            f"give {count * MAX_COPIES:,} or fewer."
        )
    copies = -(-papers // count)
    for copy in range(1, copies):
        with first.open("rb") as lines, (folder / f"arxiv-metadata-{copy}.json").open("wb") as out:
            records = islice(lines, papers - copy * count)
            _write(out.write, (_arxiv_line(line, copy) for line in records))
    return copies


def _write(write: Callable[[bytes], object], lines: Iterator[bytes]) -> int:
    count = 0
    for line in lines:
        write(line)
        count += 1
    return count


def _arxiv_line(line: bytes, copy: int) -> bytes:
    record = orjson.loads(line)
    # An invalid id stays: the ingest rejects it in every copy.
    record["id"] = shifted_arxiv_id(record["id"], copy) or record["id"]
    record["doi"] = _dois(record.get("doi"), copy)
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _dois(text: str | None, copy: int) -> str | None:
    """The DOIs of a record, each with a suffix."""
    if not text:
        return text
    return " ".join(f"{doi.rstrip(',;')}.copy{copy}" for doi in text.split())


def write_s2ag(source: Path, folder: Path, copies: int) -> None:
    """Write so many copies of the S2AG set."""
    for dataset in S2AG_DATASETS:
        _write_dataset(source / dataset, folder / dataset, copies)


def _write_dataset(source: Path, folder: Path, copies: int) -> None:
    folder.mkdir(parents=True)
    for shard, path in enumerate(sorted(source.glob("*.gz"))):
        for copy in range(copies):
            target = folder / f"{copy}_{shard:05}_{source.name}.gz"
            if copy == 0:
                shutil.copyfile(path, target)
                continue
            with open_lines(path) as lines, _create(target) as out:
                _write(out.write, (_s2ag_line(line, copy) for line in lines))


def _s2ag_line(line: bytes, copy: int) -> bytes:
    record = orjson.loads(line)
    for key in ("corpusid", "citingcorpusid", "citedcorpusid", "citationid"):
        if record.get(key) is not None:
            # Numbers in some datasets, strings in others.
            record[key] = type(record[key])(int(record[key]) + copy * CORPUS_IDS_PER_COPY)
    for names in (record.get("externalids"), (record.get("openaccessinfo") or {}).get("externalids")):
        if names:
            names.update(_external_ids(names, copy))
    if "externalids" in record and record.get("url"):
        record["url"] = f"https://www.semanticscholar.org/p/{record['corpusid']}"
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _external_ids(names: dict[str, Any], copy: int) -> dict[str, Any]:
    """The external ids of a copy. Schemes without room for copies stay only in the first."""
    shifted: dict[str, Any] = dict.fromkeys(names)
    if names.get("ArXiv"):
        shifted["ArXiv"] = shifted_arxiv_id(names["ArXiv"], copy)
    shifted["DOI"] = _dois(names.get("DOI"), copy)
    if names.get("CorpusId"):
        shifted["CorpusId"] = str(int(names["CorpusId"]) + copy * CORPUS_IDS_PER_COPY)
    return shifted
