"""Query files of every known format to a ``QuerySet``, told apart by what is in them; docs/query-sets.md shows each."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Final

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats import beir, columns, fields, scholarquest, streams, trec
from scholarbase.evaluation.formats.columns import COLUMNS
from scholarbase.evaluation.formats.litsearch import LITSEARCH
from scholarbase.evaluation.formats.pasa import PASA
from scholarbase.evaluation.formats.reading import Format, Reading
from scholarbase.evaluation.formats.scholargym import SCHOLARGYM
from scholarbase.evaluation.formats.scholarquest import SCHOLARQUEST
from scholarbase.evaluation.formats.streams import Record
from scholarbase.models.queries import QuerySet

__all__ = ["FORMATS", "read_queries"]

FORMATS: Final[tuple[Format, ...]] = (SCHOLARQUEST, PASA, LITSEARCH, SCHOLARGYM, COLUMNS)
"""Formats of records with named fields, in the order they are tried: our own, which is the plainest, comes last."""
_KNOWN: Final = (
    "ScholarQuest (final_query, answer_arxiv_ids), PaSa and SPARBench (question, answer, answer_arxiv_id), LitSearch "
    "(query, corpusids), ScholarGym (query, cited_paper or gt_arxiv_ids), a BEIR folder, TREC topics with qrels, or "
    "plain CSV, TSV or JSON with query_id, query and answers"
)
_LOOKED_AT: Final = 1000
"""Records among which one must be readable, for its fields to tell the format."""
_NO_NAMES: Final = ("queries", "query", "topics", "test", "dev", "train", "data")
"""File names that don't tell a query set from another: the folder's stands before them."""


def read_queries(path: Path, *, metadata: Path | None = None, skip_broken: bool = False) -> QuerySet:
    """Read a query file or folder of any known format, plain, gzip or xz.

    Args:
        metadata: ScholarQuest's file of intents and categories; None takes ``query_metadata.jsonl`` beside the file.
        skip_broken: leave broken lines out and say so in a note, instead of raising.

    Raises:
        QueryFileError: there is no such file, it is of no known format or cannot be read, or a line of it is
            broken; the sentence names the line.
        EvaluationError: it is Parquet, and pyarrow is missing.
    """
    if not path.exists():
        raise QueryFileError(f"No query file at {path}: give a file or a folder. Known are {_KNOWN}.")
    if metadata is not None and not metadata.is_file():
        raise QueryFileError(f"No metadata file at {metadata}: give ScholarQuest's query_metadata.jsonl.")
    reading = Reading(path, skip_broken)
    form = _read_folder(path, reading) if path.is_dir() else _read_file(path, reading, metadata)
    if metadata is not None and form != SCHOLARQUEST.name:
        raise QueryFileError(
            f"{path} is of the format {form}, which has no metadata file: leave out {metadata}."
        )
    return reading.result(_name(path), form)


def _read_folder(folder: Path, reading: Reading) -> str:
    if beir.queries_file(folder) is not None and _is_beir(folder):
        beir.read(folder, reading)
        return "BEIR"
    pair = trec.pair_in(folder)
    if pair is None:
        raise QueryFileError(
            f"{folder} is a folder with neither queries.jsonl and qrels, as BEIR has them, nor TREC topics and qrels: "
            f"give the query file itself. Known are {_KNOWN}."
        )
    trec.read(*pair, reading)
    return "TREC"


def _is_beir(folder: Path) -> bool:
    queries = beir.queries_file(folder)
    assert queries is not None
    first = next((record for record in streams.json_lines(queries) if record.problem is None), None)
    return first is None or "_id" in first.fields


def _read_file(path: Path, reading: Reading, metadata: Path | None) -> str:
    start = streams.start_of(path)
    shape = streams.shape_of(start)
    if shape == "empty":
        raise QueryFileError(f"{path} is empty: a query file has at least one query. Known are {_KNOWN}.")
    if shape == "markup" or (shape == "table" and _is_topics(path, start)):
        if trec.kind_of(path) != "topics":
            raise QueryFileError(f"{path} is markup without TREC topics. Known are {_KNOWN}.")
        trec.read(path, trec.qrels_beside(path), reading)
        return "TREC"
    if shape == "table" and trec.kind_of(path) == "qrels":
        raise QueryFileError(f"{path} holds TREC qrels: give the file of topics beside it, or their folder.")
    if shape == "table" and not _has_columns(start):
        begin = fields.shown(start.decode(errors="replace").lstrip().partition("\n")[0].strip())
        raise QueryFileError(f"{path} is of no known format: it begins with {begin}. Known are {_KNOWN}.")
    return _read_records(path, _records(path, shape), reading, metadata)


def _has_columns(start: bytes) -> bool:
    """Whether the first line is a header with a column that is known, or nearly so."""
    header = start.decode(errors="replace").lstrip().partition("\n")[0]
    cells = [cell.strip().strip('"').lower() for cell in header.split(streams.delimiter_of(header))]
    return any(get_close_matches(cell, columns.NAMES, 1) for cell in cells)


def _is_topics(path: Path, start: bytes) -> bool:
    return not _has_columns(start) and trec.kind_of(path) == "topics"


def _records(path: Path, shape: streams.Shape) -> Iterator[Record]:
    if shape == "lines":
        return streams.json_lines(path)
    if shape == "array":
        return streams.json_array(path)
    if shape == "parquet":
        return streams.parquet_rows(path)
    return columns.table(path)


def _read_records(path: Path, records: Iterator[Record], reading: Reading, metadata: Path | None) -> str:
    looked_at = list(islice(records, _LOOKED_AT))
    first = next((record for record in looked_at if record.problem is None), None)
    if first is None:
        if not looked_at:
            raise QueryFileError(f"{path} holds no query: a query file has at least one.")
        where, problem = looked_at[0].where, looked_at[0].problem
        raise QueryFileError(
            f"{path} has no line that can be read; the first, {where}: {problem} Give one JSON object a line, or one "
            "JSON array of all."
        )
    names = first.fields.keys()
    if "_id" in names and path == beir.queries_file(path.parent):
        beir.read(path.parent, reading)
        return "BEIR"
    if "final_query" in names and "topic_seed" in names and "answer_arxiv_ids" not in names:
        raise QueryFileError(
            f"{path} is ScholarQuest's metadata, which has no answers: give the file beside it."
        )
    form = next((form for form in FORMATS if form.recognises(names)), None)
    if form is None:
        raise QueryFileError(
            f"{path} is of no known format: its {first.where} has {', '.join(names) or 'no fields'}. "
            f"Known are {_KNOWN}."
        )
    form.read(reading, chain(looked_at, records))
    if form is SCHOLARQUEST:
        facts = metadata or scholarquest.metadata_beside(path)
        scholarquest.with_facts(
            reading, None if facts is None else scholarquest.read_metadata(facts, reading)
        )
    return form.name


def _name(path: Path) -> str:
    whole = path.resolve()
    if whole.is_dir():
        return whole.name
    stem = whole.name.partition(".")[0] or whole.name
    if stem not in _NO_NAMES:
        return stem
    return whole.parent.name if stem in _NO_NAMES[:3] else f"{whole.parent.name}-{stem}"
