"""TREC topics with qrels: two files in one folder, detected from their content.

    topics    <top> <num> Number: 301 <title> a few words <desc> ... </top>
              <topic number="1"><query>a few words</query> ... </topic>
              301 <tab> a few words
    qrels     301 0 arXiv:2309.06180 1

The text of a query is its title, else its query, else the topic's whole text. Document ids are of any form that a
library accepts; if none of them has one, they are those of a collection's documents, as in runs. Formats:
https://trec.nist.gov/data/topics_eng/, https://trec.nist.gov/data/qrels_eng/.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, Literal, get_args

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.files import read_whole
from scholarbase.identifiers import parse
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Reading, join
from scholarbase_research.evaluation.formats.streams import start_of
from scholarbase_research.evaluation.queries import Answer

Kind = Literal["topics", "qrels"]

_TAG: Final = re.compile(r"<top(?:ic)?(?=[\s>])([^<>]*)>|(</top(?:ic)?\s*>)", re.IGNORECASE)
_OPENED: Final = re.compile(r"<top(?:ic)?(?=[\s>])", re.IGNORECASE)
_NUMBER: Final = re.compile(r"""number\s*=\s*["']([^"']*)["']""", re.IGNORECASE)
_NUM: Final = re.compile(r"<num>\s*(?:Number\s*:\s*)?([^<\s]+)", re.IGNORECASE)
_PARTS: Final = tuple(
    re.compile(rf"<{name}\s*>\s*(?:Topic\s*:)?\s*([^<]*)", re.IGNORECASE) for name in ("title", "query")
)
_DOCUMENTS: Final = "Ids without a scheme in the qrels, read as those of documents (Doc:)"
_QRELS_LINE: Final = re.compile(r"\S+\s+\S+\s+\S+\s+-?\d+", re.ASCII)


def kind_of(path: Path) -> Kind | None:
    """Whether a file has topics or qrels, None for neither. Raises QueryFileError: unreadable."""
    start = start_of(path)
    if b"\0" in start:
        return None
    text = start.decode(errors="replace").lstrip()
    if text.startswith("<"):
        return "topics" if _OPENED.search(text) else None

    first = text.partition("\n")[0].rstrip("\r")
    if _QRELS_LINE.fullmatch(first.strip()):
        return "qrels"
    cells = first.split("\t")
    if text.startswith(("{", "[")) or len(cells) != 2 or not all(cell.strip() for cell in cells):
        return None
    return "topics" if len(cells[0].split()) == 1 else None


def pair_in(folder: Path) -> tuple[Path, Path] | None:
    """The topics and the qrels of a folder, None if it has neither.

    Raises:
        QueryFileError: one of the two is missing, or there are several.
    """
    kinds = {path: kind_of(path) for path in _files(folder)}
    if not any(kinds.values()):
        return None
    topics, qrels = ([path for path in kinds if kinds[path] == kind] for kind in get_args(Kind))
    return _only(topics, "topics", folder), _only(qrels, "qrels", folder)


def qrels_file(topics: Path) -> Path:
    """The qrels in the folder of a topics file. Raises QueryFileError: none, or several."""
    files = [path for path in _files(topics.parent) if path != topics and kind_of(path) == "qrels"]
    return _only(files, "qrels", topics.parent)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _only(files: list[Path], kind: Kind, folder: Path) -> Path:
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(path.name for path in files)
        raise QueryFileError(
            f"{folder} has several {kind} files ({names}): move the one to use to its own folder."
        )
    form = "qid 0 docid grade" if kind == "qrels" else "<top>...</top>, <topic>...</topic> or id<tab>text"
    raise QueryFileError(f"{folder} has no TREC {kind} file: add one, with lines of {form}.")


def read(topics: Path, qrels: Path, reading: Reading) -> None:
    """Read both files into ``reading``. Raises QueryFileError: one of them is unreadable."""
    lines = [(number, line) for number, line in enumerate(_text(qrels).splitlines(), 1) if line.strip()]
    schemes = {_scheme(line) for _, line in lines}
    documents = None in schemes and schemes <= {None, "Doc"}
    if documents:
        reading.count(_DOCUMENTS, sum(_scheme(line) is None for _, line in lines))
    judgements = ((f"{qrels.name}, line {number}", line) for number, line in lines)
    join(reading, read_topics(topics), _query, judgements, partial(_judgement, documents))


def _scheme(line: str) -> str | None:
    """The scheme of a judgement's document id, None where the id has no known form."""
    try:
        return parse(line.split()[2]).scheme
    except (IndexError, InvalidRequest):
        return None


def _query(topic: tuple[str, str]) -> tuple[str, str]:
    number, text = topic
    query_id = fields.query_id(number, "the topic's number")
    return query_id, fields.query_text({"the topic's text": text}, "the topic's text")


def _text(path: Path) -> str:
    # Some old collections are Latin-1; their ids are ASCII.
    return read_whole(path).decode(errors="replace")


def read_topics(path: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the place of each topic, and its number and text."""
    text = _text(path)
    if not text.lstrip().startswith("<"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                query_id, _, query = line.partition("\t")
                yield f"{path.name}, line {number}", (query_id, " ".join(query.split()))
        return
    lines, offset = 1, 0
    for opened, closed in _pairs(path, text):
        lines, offset = lines + text.count("\n", offset, opened.start()), opened.start()
        content = text[opened.end() : closed.start()]
        match = _NUMBER.search(opened[1]) or _NUM.search(content)
        parts = [part[1] for part in (pattern.search(content) for pattern in _PARTS) if part]
        whole = content if "<" not in content else ""
        query = next((part for part in (*parts, whole) if part.strip()), "")
        query_id = match[1] if match else ""
        yield f"{path.name}, line {lines}", (query_id, " ".join(html.unescape(query).split()))


def _pairs(path: Path, text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The tags before and after each topic."""
    opened = None
    for tag in _TAG.finditer(text):
        if tag[2] is not None and opened is not None:
            yield opened, tag
            opened = None
        elif tag[2] is None:
            if opened is not None:
                break
            opened = tag
    if opened is not None:
        raise QueryFileError(f"{path} has a topic that does not end: close each <top> with </top>.")


def _judgement(documents: bool, line: str) -> tuple[str, Answer]:
    cells = line.split()
    if len(cells) != 4:
        raise Broken(f"it has {len(cells)} columns, and must have four: qid 0 docid grade.")
    is_bare = documents and _scheme(line) is None
    try:
        paper_id = fields.paper_id(f"Doc:{cells[2]}" if is_bare else cells[2], "docid")
    except Broken as problem:
        raise Broken(f"{problem} A document of the collection itself is Doc:{cells[2]}.") from problem
    return cells[0], Answer(paper_id, None, fields.grade(cells[3], "grade"))
