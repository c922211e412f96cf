"""BEIR folders: ``queries.jsonl`` and tab-separated judgements of the collection's documents.

    queries.jsonl     {"_id": "1", "text": "0-dimensional biomaterials show inductive properties."}
    qrels/test.tsv    query-id <tab> corpus-id <tab> score, with that header; or qrels_test.tsv in the same folder

Documents have ids of the collection: ``Doc:31715818``. Format: https://github.com/beir-cellar/beir/wiki.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scholarbase.errors import QueryFileError
from scholarbase.files import opened
from scholarbase.models.checks import shown
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Reading, join
from scholarbase_research.evaluation.formats.streams import Record, json_lines, plain_or_packed
from scholarbase_research.evaluation.queries import Answer

_HEADER: Final = ["query-id", "corpus-id", "score"]
_OTHER: Final = "Files of judgements of other splits, not read"
_KNOWN: Final = frozenset(("_id", "text", "metadata", "title"))


def queries_file(folder: Path) -> Path | None:
    """The queries of a BEIR folder, or None."""
    return plain_or_packed(folder / "queries.jsonl")


def _qrels_file(folder: Path) -> Path | None:
    """The judgements of the test split, else of the only split, else None."""
    splits = _splits(folder)
    return (
        plain_or_packed(folder / "qrels" / "test.tsv")
        or plain_or_packed(folder / "qrels_test.tsv")
        or (splits[0] if len(splits) == 1 else None)
    )


def _splits(folder: Path) -> list[Path]:
    return [*folder.glob("qrels/*.tsv*"), *folder.glob("qrels*.tsv*")]


def read(folder: Path, reading: Reading) -> None:
    """Read the folder into ``reading``. Raises QueryFileError: no judgements, or an unreadable file."""
    queries, qrels = queries_file(folder), _qrels_file(folder)
    if queries is None or qrels is None:
        raise QueryFileError(
            f"{folder} has queries and no judgements: add qrels/test.tsv or qrels_test.tsv, with the tab-separated "
            f"columns {', '.join(_HEADER)}."
        )
    others = [path for path in _splits(folder) if path != qrels]
    if others:
        reading.count(_OTHER, len(others))
    records = ((f"{queries.name}, {record.where}", record) for record in json_lines(queries))

    def text_of(record: Record) -> tuple[str, str]:
        if record.problem is not None:
            raise Broken(record.problem)
        reading.unread(name for name in record.fields if name not in _KNOWN)
        query_id = fields.query_id(fields.required(record.fields, "_id"), "_id")
        return query_id, fields.query_text(record.fields, "text")

    join(reading, records, text_of, _rows(qrels), _judgement)


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    with opened(path) as stream:
        header = stream.readline().decode(errors="replace").rstrip("\r\n").split("\t")
        if header != _HEADER:
            raise QueryFileError(
                f"{path} begins with {shown(header)}: BEIR judgements begin with the tab-separated header "
                f"{', '.join(_HEADER)}."
            )
        for number, line in enumerate(stream, 2):
            if not line.isspace():
                cells = line.decode(errors="replace").rstrip("\r\n").split("\t")
                yield f"{path.name}, line {number}", cells


def _judgement(cells: list[str]) -> tuple[str, Answer]:
    if len(cells) != 3:
        raise Broken(f"it has {len(cells)} columns, and must have {', '.join(_HEADER)}, separated by tabs.")
    query_id, document, score = (cell.strip() for cell in cells)
    if not query_id or not document:
        raise Broken("the query id or the document id is missing.")
    return query_id, Answer(
        fields.paper_id(f"Doc:{document}", "corpus-id"), None, fields.grade(score, "score")
    )
