"""The source files of a corpus of any size: real papers, as often as needed, each copy under ids of its own.

Copies keep what speed depends on: texts, their lengths, how often words occur, who cites whom. The first copy is the
data as it is, so that the questions' answers are found under their ids. Copies say nothing about quality.
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

MOST_COPIES: Final = 4
"""Beyond, the years of two copies' ids would be the same: the data's span 1991 to 2026."""
YEARS_A_COPY: Final = 20
CORPUS_IDS_A_COPY: Final = 10**8
FIRST_YEAR_OF_FIVE: Final = 15
"""arXiv ids have five digits after the point since 2015, four before."""
S2AG_DATASETS: Final = ("papers", "abstracts", "citations")
GZIP_LEVEL: Final = 6


def make(setting: Setting) -> None:
    """Write ``setting.corpus``, whole or not at all; where it is there already, do nothing.

    Below it: ``arxiv/`` with plain JSON lines, ``setting.papers`` records in as many files as there are copies, and
    ``s2ag/papers``, ``s2ag/abstracts`` and ``s2ag/citations`` with as many copies of the S2AG set.

    Raises:
        FileNotFoundError: the data folder lacks one of the two sources.
        ValueError: no papers were asked for, or more than the copies can hold.
    """
    if setting.corpus.is_dir():
        return
    arxiv, s2ag = arxiv_source(setting.data), s2ag_source(setting.data)
    if setting.papers < 1:
        raise ValueError(f"A corpus of {setting.papers} papers cannot be made: ask for one at least.")
    growing = setting.corpus.with_name(f"{setting.corpus.name}.new")
    shutil.rmtree(growing, ignore_errors=True)
    copies = _write_arxiv(arxiv, growing / "arxiv", setting.papers)
    for dataset in S2AG_DATASETS:
        _write_s2ag(s2ag / dataset, growing / "s2ag" / dataset, copies)
    growing.rename(setting.corpus)


def cut(whole: Path, target: Path, parts: int) -> None:
    """Write a corpus of the first of so many equal parts of each file of another."""
    for path in sorted(path for path in whole.rglob("*") if path.is_file()):
        short = target / path.relative_to(whole)
        short.parent.mkdir(parents=True, exist_ok=True)
        with open_lines(path) as lines:
            count = sum(1 for _ in lines)
        with open_lines(path) as lines, _create(short) as out:
            _write(out.write, islice(lines, -(-count // parts)))


def open_lines(path: Path) -> IO[bytes]:
    """A file of a corpus, to be read line by line."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _create(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "wb", GZIP_LEVEL)) if path.suffix == ".gz" else path.open("wb")


def arxiv_source(data: Path) -> Path:
    """The arXiv snapshot of a data folder. Raises FileNotFoundError."""
    return _only(sorted((data / "arxiv").glob("*.xz")), f"arXiv snapshot (arxiv/*.xz) in {data}")


def s2ag_source(data: Path) -> Path:
    """The folder of a data folder that holds S2AG datasets. Raises FileNotFoundError."""
    folders = [data / name for name in ("s2ag-citations", "s2ag")]
    whole = [folder for folder in folders if all((folder / name).is_dir() for name in S2AG_DATASETS)]
    return _only(whole, f"S2AG set (s2ag-citations/papers, abstracts and citations) in {data}")


def _only(found: list[Path], what: str) -> Path:
    if not found:
        raise FileNotFoundError(f"There is no {what}: give --data a folder with one.")
    return found[0]


def shifted_arxiv_id(name: str, copy: int) -> str | None:
    """The id of a paper's copy, itself a valid arXiv id: ``0704.0001`` gives ``2704.00001`` and then ``4704.00001``,
    ``hep-th/9901001`` gives ``hep-th/1901001``. None where the name is no arXiv id, even mended."""
    known = arxiv_id(name) or arxiv_id_from_number(name)
    if known is None:
        return None
    if copy == 0:
        return known
    archive, slash, rest = known.rpartition("/")
    year = (int(rest[:2]) + YEARS_A_COPY * copy) % 100
    if slash:
        return f"{archive}/{year:02}{rest[2:]}"
    month, _, serial = rest[2:].partition(".")
    if year < FIRST_YEAR_OF_FIVE:
        raise ValueError(f"The copy {copy} of arXiv:{known} has no year left for its id.")
    return f"{year:02}{month}.{serial:0>5}"


def _write_arxiv(source: Path, folder: Path, papers: int) -> int:
    """The files of copies until there are so many papers; how many copies that took."""
    folder.mkdir(parents=True)
    first = folder / "arxiv-metadata-0.json"
    with lzma.open(source) as lines, first.open("wb") as out:
        held = _write(out.write, islice(lines, papers))
    if not held:
        raise ValueError(f"{source.name} holds no records: give --data another folder.")
    if papers > held * MOST_COPIES:
        raise ValueError(
            f"{papers:,} papers are more than {MOST_COPIES} copies of the {held:,} in {source.name}: "
            f"ask for {held * MOST_COPIES:,} or fewer."
        )
    copies = -(-papers // held)
    for copy in range(1, copies):
        with first.open("rb") as lines, (folder / f"arxiv-metadata-{copy}.json").open("wb") as out:
            records = islice(lines, papers - copy * held)
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
    # An id past mending stays: the ingest rejects it in every copy, as it does in the first.
    record["id"] = shifted_arxiv_id(record["id"], copy) or record["id"]
    record["doi"] = _dois(record.get("doi"), copy)
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _dois(text: str | None, copy: int) -> str | None:
    """DOIs, of which a record may hold several, each with a suffix."""
    if not text:
        return text
    return " ".join(f"{doi.rstrip(',;')}.copy{copy}" for doi in text.split())


def _write_s2ag(source: Path, folder: Path, copies: int) -> None:
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
            # Numbers in some datasets, texts in others: each stays what it was.
            record[key] = type(record[key])(int(record[key]) + copy * CORPUS_IDS_A_COPY)
    for names in (record.get("externalids"), (record.get("openaccessinfo") or {}).get("externalids")):
        if names:
            names.update(_external_ids(names, copy))
    if "externalids" in record and record.get("url"):
        record["url"] = f"https://www.semanticscholar.org/p/{record['corpusid']}"
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _external_ids(names: dict[str, Any], copy: int) -> dict[str, Any]:
    """A copy's names. Those of schemes that leave no room for another are the first copy's alone."""
    shifted: dict[str, Any] = dict.fromkeys(names)
    if names.get("ArXiv"):
        shifted["ArXiv"] = shifted_arxiv_id(names["ArXiv"], copy)
    shifted["DOI"] = _dois(names.get("DOI"), copy)
    if names.get("CorpusId"):
        shifted["CorpusId"] = str(int(names["CorpusId"]) + copy * CORPUS_IDS_A_COPY)
    return shifted
