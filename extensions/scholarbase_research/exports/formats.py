"""The files of agents: PaSa's database of papers, and SPAR's cache of arXiv papers.

PaSa (https://github.com/bytedance/pasa): ``id2paper.json`` maps arXiv ids to titles, and each member of
``cs_paper_2nd.zip`` is the JSON of one paper, ``{"title", "abstract", "sections"}``. ``sections`` maps the title of a
section to the titles of the papers that it cites.

SPAR (https://github.com/xiaofengShi/SPAR): a SQLite table of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import orjson

from scholarbase.databases import open_for_writing
from scholarbase.models.papers import Paper

SECTION: Final = "References"
"""The only section: a library knows what a paper cites, and not where."""
_TABLE: Final = """
    CREATE TABLE arxiv_docs (
        arxiv_id TEXT PRIMARY KEY, data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
    )
"""

Cited = Callable[[Sequence[int]], Mapping[int, Sequence[str]]]
"""The titles that papers cite, by the catalogue ids of the papers."""


class Format(NamedTuple):
    """A format: the fields of papers that it has, its files in a folder (none: it is one file), and what writes them.

    ``write`` takes the papers in batches, a function for the titles that papers of a batch cite, and the temporary
    paths of the files. It returns the number of papers written.
    """

    fields: Sequence[str]
    files: Sequence[str]
    write: Callable[[Iterator[Mapping[int, Paper]], Cited, Sequence[Path]], int]


def _write_pasa(batches: Iterator[Mapping[int, Paper]], cited: Cited, paths: Sequence[Path]) -> int:
    """Write both files. Of papers whose titles have the same letters the first is written."""
    archive, titles = paths
    written = 0
    with ZipFile(archive, "w", ZIP_DEFLATED) as members, titles.open("wb") as listed:
        listed.write(b"{")
        for batch in batches:
            references = cited(list(batch))
            for number, paper in batch.items():
                title = paper.title or ""
                # PaSa looks for a member by the letters of its title.
                name = "".join(c for c in title if c.isalpha()).lower()
                if name in members.NameToInfo:
                    continue
                if name:
                    sections = {SECTION: references[number]} if number in references else {}
                    document = {"title": title, "abstract": paper.abstract or "", "sections": sections}
                    # An entry has no time, so that equal contents give equal bytes.
                    members.writestr(ZipInfo(name), orjson.dumps(document), ZIP_DEFLATED)
                separator = b",\n" if written else b"\n"
                listed.write(separator + orjson.dumps(_arxiv_id(paper)) + b": " + orjson.dumps(title))
                written += 1
        listed.write(b"\n}\n")
    return written


def _write_spar(batches: Iterator[Mapping[int, Paper]], cited: Cited, paths: Sequence[Path]) -> int:
    """Write the cache, without references, which it does not have."""
    [path] = paths
    written = 0
    with closing(open_for_writing(path)) as connection:
        # The file is complete or is thrown away.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        for batch in batches:
            rows = [_spar_row(paper) for paper in batch.values()]
            connection.executemany("INSERT INTO arxiv_docs (arxiv_id, data) VALUES (?, ?)", rows)
            written += len(rows)
        connection.execute("COMMIT")
    return written


def _spar_row(paper: Paper) -> tuple[str, str]:
    arxiv_id = _arxiv_id(paper)
    data: dict[str, Any] = {
        "paper_id": arxiv_id,
        "arxivId": arxiv_id,
        "arxivUrl": f"https://arxiv.org/abs/{arxiv_id}",
        "title": paper.title or "",
        "abstract": paper.abstract or "",
        "authors": [{"name": author.name} for author in paper.authors],
        "publicationYear": (paper.publication_date or str(paper.year or "")).replace("-", ""),
        "fieldsOfStudy": ";".join(paper.categories),
        "source": "Search From Local",
    }
    return arxiv_id, orjson.dumps(data).decode()


def _arxiv_id(paper: Paper) -> str:
    return paper.id.removeprefix("arXiv:")


FORMATS: Final[Mapping[str, Format]] = {
    "spar-cache": Format(
        ("title", "abstract", "authors", "year", "publication_date", "categories"), (), _write_spar
    ),
    "pasa": Format(("title", "abstract"), ("cs_paper_2nd.zip", "id2paper.json"), _write_pasa),
}
