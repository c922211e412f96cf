"""BEIR's folders: ``queries.jsonl`` and tab-separated judgements of its own documents.

    queries.jsonl     {"_id": "1", "text": "0-dimensional biomaterials show inductive properties."}
    qrels/test.tsv    query-id <tab> corpus-id <tab> score, with that header; or qrels_test.tsv beside the queries

Documents have the collection's own ids: ``Doc:31715818``. Format: https://github.com/beir-cellar/beir/wiki.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats import fields
from scholarbase.evaluation.formats.judgements import Collection
from scholarbase.evaluation.formats.reading import Broken, Reading
from scholarbase.evaluation.formats.streams import json_lines
from scholarbase.files import opened
from scholarbase.models.queries import Answer

_PACKED: Final = ("", ".gz", ".xz")
_HEADER: Final = ["query-id", "corpus-id", "score"]
_OTHER: Final = "Files of judgements of other splits, not read"
_KNOWN: Final = frozenset(("_id", "text", "metadata", "title"))


def queries_file(folder: Path) -> Path | None:
    """The file of queries that makes a folder one of BEIR's, or None."""
    places = (folder / f"queries.jsonl{packed}" for packed in _PACKED)
    return next((place for place in places if place.is_file()), None)


def qrels_file(folder: Path) -> Path | None:
    """The judgements of the test split, those of the only split where there is no test split, or None."""
    for name in ("qrels/test.tsv", "qrels_test.tsv"):
        for packed in _PACKED:
            if (folder / (name + packed)).is_file():
                return folder / (name + packed)
    found = _splits(folder)
    return found[0] if len(found) == 1 else None


def _splits(folder: Path) -> list[Path]:
    return [*folder.glob("qrels/*.tsv*"), *folder.glob("qrels*.tsv*")]


def read(folder: Path, reading: Reading) -> None:
    """Read the folder into the reading.

    Raises:
        QueryFileError: its judgements are missing, or a file cannot be read.
    """
    queries, qrels = queries_file(folder), qrels_file(folder)
    if queries is None or qrels is None:
        raise QueryFileError(
            f"{folder} has queries and no judgements of them: put them in qrels/test.tsv or qrels_test.tsv, with "
            f"the columns {', '.join(_HEADER)} between tabs."
        )
    others = [path for path in _splits(folder) if path != qrels]
    if others:
        reading.count(_OTHER, len(others))
    collection = Collection(reading)
    for record in reading.readable(json_lines(queries)):
        where = f"{queries.name}, {record.where}"
        reading.unread(name for name in record.fields if name not in _KNOWN)
        try:
            query_id = fields.query_id(fields.required(record.fields, "_id"), "_id")
            collection.add_text(query_id, fields.query_text(record.fields, "text"), where)
        except Broken as problem:
            reading.broken(where, str(problem))
    for where, cells in _rows(qrels):
        reading.records += 1
        try:
            collection.add_judgement(*_judgement(cells), where)
        except Broken as problem:
            reading.broken(where, str(problem))
    collection.join()


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    with opened(path) as stream:
        header = stream.readline().decode(errors="replace").rstrip("\r\n").split("\t")
        if header != _HEADER:
            raise QueryFileError(
                f"{path} begins with {fields.shown(header)}: the judgements of a BEIR collection begin with the "
                f"columns {', '.join(_HEADER)}, between tabs."
            )
        for number, line in enumerate(stream, 2):
            if not line.isspace():
                cells = line.decode(errors="replace").rstrip("\r\n").split("\t")
                yield f"{path.name}, line {number}", cells


def _judgement(cells: list[str]) -> tuple[str, Answer]:
    if len(cells) != 3:
        raise Broken(f"it has {len(cells)} columns, and must have {', '.join(_HEADER)} between tabs.")
    query_id, document, score = (cell.strip() for cell in cells)
    if not query_id or not document:
        raise Broken("it lacks the id of a query or of a document.")
    return query_id, Answer(
        fields.paper_id(f"Doc:{document}", "corpus-id"), None, fields.grade(score, "score")
    )
