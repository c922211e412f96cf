"""Readers of query files; the format is detected from the content. docs/query-sets.md shows each format."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Final

from scholarbase.errors import QueryFileError
from scholarbase.extensions import added_list
from scholarbase.models.checks import shown
from scholarbase_research.evaluation.formats import beir, columns, streams, trec
from scholarbase_research.evaluation.formats.columns import COLUMNS
from scholarbase_research.evaluation.formats.evidence import EVIDENCE
from scholarbase_research.evaluation.formats.evidence_formats import AIM_SCIQA, ELAIPBENCH, SCIDQA
from scholarbase_research.evaluation.formats.litsearch import LITSEARCH
from scholarbase_research.evaluation.formats.pasa import PASA
from scholarbase_research.evaluation.formats.reading import Format, Reading
from scholarbase_research.evaluation.formats.scholargym import SCHOLARGYM
from scholarbase_research.evaluation.formats.scholarquest import SCHOLARQUEST
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import QuerySet

__all__ = ["read_queries"]

_SAMPLED: Final = 1000
"""Records searched for the first readable one, whose fields determine the format."""
_GENERIC_NAMES: Final = ("queries", "query", "topics", "test", "dev", "train", "data")
"""File names that need the folder's name to identify a query set."""


def _formats() -> Iterator[Format]:
    """The formats of records with named fields, in the order they are tried: the generic ones come last."""
    yield from (SCHOLARQUEST, ELAIPBENCH, SCIDQA, AIM_SCIQA, PASA, LITSEARCH, SCHOLARGYM)
    yield from added_list("query_formats")
    yield EVIDENCE
    yield COLUMNS


def _hint() -> str:
    """The known formats, for messages."""
    known = ", ".join(f"{form.name} ({form.hint})" for form in _formats() if form is not COLUMNS)
    return f"Known formats: {known}, a BEIR folder, TREC topics with qrels, or plain {COLUMNS.hint}."


def _described() -> list[str]:
    """The names of the formats that have metadata."""
    return [form.name for form in _formats() if form.describe is not None]


def read_queries(path: Path, *, metadata: Path | None = None, skip_broken: bool = False) -> QuerySet:
    """Read a query file or folder of any known format, plain, gzip or xz.

    Args:
        metadata: a file that describes the queries, for formats that have one: ScholarQuest's intents and categories
            (None: ``query_metadata.jsonl`` in the same folder).
        skip_broken: skip broken lines and report them in a note, instead of raising.

    Raises:
        QueryFileError: the file is missing, unreadable or of an unknown format, or one of its lines is broken.
        EvaluationError: the file is Parquet, and pyarrow is missing.
    """
    if not path.exists():
        raise QueryFileError(f"No query file at {path}: give a file or a folder. {_hint()}")
    if metadata is not None and not metadata.exists():
        raise QueryFileError(
            f"No metadata file at {metadata}: give the metadata of {' or '.join(_described())}."
        )
    reading = Reading(path, skip_broken)
    form = _read_folder(path, reading) if path.is_dir() else _read_file(path, reading, metadata)
    if metadata is not None and form not in _described():
        raise QueryFileError(
            f"{path} is in the format {form}, which has no metadata file: leave out {metadata}."
        )
    return reading.result(_name(path), form)


def _read_folder(folder: Path, reading: Reading) -> str:
    if _is_beir(folder):
        beir.read(folder, reading)
        return "BEIR"
    pair = trec.pair_in(folder)
    if pair is None:
        raise QueryFileError(
            f"The folder {folder} has neither BEIR's queries.jsonl and qrels nor TREC topics and qrels: give the "
            f"query file itself. {_hint()}"
        )
    trec.read(*pair, reading)
    return "TREC"


def _is_beir(folder: Path) -> bool:
    queries = beir.queries_file(folder)
    if queries is None:
        return False
    first = next((record for record in streams.json_lines(queries) if record.problem is None), None)
    return first is None or "_id" in first.fields


def _read_file(path: Path, reading: Reading, metadata: Path | None) -> str:
    start = streams.start_of(path)
    shape = streams.shape_of(start)
    if shape == "empty":
        raise QueryFileError(f"{path} is empty: a query file has at least one query. {_hint()}")
    if shape == "markup" or (shape == "table" and not _has_columns(start) and trec.kind_of(path) == "topics"):
        if trec.kind_of(path) != "topics":
            raise QueryFileError(f"{path} is markup without TREC topics. {_hint()}")
        trec.read(path, trec.qrels_file(path), reading)
        return "TREC"
    if shape == "table" and trec.kind_of(path) == "qrels":
        raise QueryFileError(f"{path} contains TREC qrels: give the topics file, or the folder of both.")
    if shape == "table" and not _has_columns(start):
        begin = shown(start.decode(errors="replace").lstrip().partition("\n")[0].strip())
        raise QueryFileError(f"{path} has an unknown format: it begins with {begin}. {_hint()}")
    return _read_records(path, _records(path, shape), reading, metadata)


def _has_columns(start: bytes) -> bool:
    """Whether the first line is a header with a known column, or one with a similar name."""
    header = start.decode(errors="replace").lstrip().partition("\n")[0]
    cells = [cell.strip().strip('"').lower() for cell in header.split(streams.delimiter_of(header))]
    return any(get_close_matches(cell, columns.NAMES, 1) for cell in cells)


def _records(path: Path, shape: streams.Shape) -> Iterator[Record]:
    if shape == "lines":
        return streams.json_lines(path)
    if shape == "array":
        return streams.json_array(path)
    if shape == "parquet":
        return streams.parquet_rows(path)
    return columns.table(path)


def _read_records(path: Path, records: Iterator[Record], reading: Reading, metadata: Path | None) -> str:
    sampled = list(islice(records, _SAMPLED))
    first = next((record for record in sampled if record.problem is None), None)
    if first is None:
        if not sampled:
            raise QueryFileError(f"{path} contains no queries: a query file has at least one.")
        where, problem = sampled[0].where, sampled[0].problem
        raise QueryFileError(
            f"{path} has no readable line; the first, {where}: {problem} Write one JSON object per line, or one "
            "JSON array."
        )
    names = first.fields.keys()
    if "_id" in names and path == beir.queries_file(path.parent):
        beir.read(path.parent, reading)
        return "BEIR"
    if "final_query" in names and "topic_seed" in names and "answer_arxiv_ids" not in names:
        raise QueryFileError(f"{path} is ScholarQuest's metadata, which has no answers: give the query file.")
    form = next((form for form in _formats() if form.recognises(names)), None)
    if form is None:
        raise QueryFileError(
            f"{path} has an unknown format: its {first.where} has {', '.join(names) or 'no fields'}. {_hint()}"
        )
    form.read(reading, chain(sampled, records))
    if form.describe is not None:
        form.describe(reading, metadata)
    return form.name


def _name(path: Path) -> str:
    resolved = path.resolve()
    if resolved.is_dir():
        return resolved.name
    stem = resolved.name.partition(".")[0] or resolved.name
    if stem not in _GENERIC_NAMES:
        return stem
    return resolved.parent.name if stem in _GENERIC_NAMES[:3] else f"{resolved.parent.name}-{stem}"
