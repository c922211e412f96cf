"""The database of papers that PaSa reads: titles by arXiv id, and a zip of papers by the letters of their titles.

The files are those of https://github.com/bytedance/pasa: ``id2paper.json`` maps arXiv ids to titles, and each member of
``cs_paper_2nd.zip`` is the JSON of one paper, ``{"title", "abstract", "sections"}``. ``sections`` maps the title of a
section to the titles of the papers that it cites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from scholarbase.databases import open_for_writing
from scholarbase.models.papers import Paper
from scholarbase_research.exports.zip_file import ZipWriter

FIELDS: Final = ("title", "abstract")
FILES: Final = ("cs_paper_2nd.zip", "id2paper.json")
SECTION: Final = "References"
"""The only section: a library knows what a paper cites, and not where."""

Cited = Callable[[Sequence[int]], Mapping[int, Sequence[str]]]
"""The titles that papers cite, by the catalogue ids of the papers."""


def write(batches: Iterator[Mapping[int, Paper]], cited: Cited, paths: Sequence[Path]) -> int:
    """Write both files. Of papers whose titles have the same letters the first is written."""
    archive, titles = paths
    keys = archive.with_name("keys.sqlite")
    written = 0
    with (
        archive.open("wb") as zip_file,
        ZipWriter(zip_file, archive.parent) as members,
        titles.open("wb") as listed,
        closing(open_for_writing(keys)) as seen,
    ):
        # In a file, since the memory of a set would grow with the library.
        seen.execute("PRAGMA journal_mode = OFF")
        seen.execute("PRAGMA synchronous = OFF")
        seen.execute("CREATE TABLE keys (key BLOB PRIMARY KEY) WITHOUT ROWID")
        seen.execute("BEGIN")
        listed.write(b"{")
        for batch in batches:
            references = cited(list(batch))
            for number, paper in batch.items():
                title = paper.title or ""
                name = _letters(title)
                key = blake2b(name.encode(), digest_size=16).digest()
                if name and not seen.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,)).rowcount:
                    continue
                if name:
                    sections = {SECTION: references[number]} if number in references else {}
                    document = {"title": title, "abstract": paper.abstract or "", "sections": sections}
                    members.add(name, orjson.dumps(document))
                separator = b",\n" if written else b"\n"
                arxiv_id = paper.id.removeprefix("arXiv:")
                listed.write(separator + orjson.dumps(arxiv_id) + b": " + orjson.dumps(title))
                written += 1
        listed.write(b"\n}\n")
    return written


def _letters(title: str) -> str:
    """The letters of a title, in lower case: the name of its member, as PaSa looks for it."""
    return "".join(c for c in title if c.isalpha()).lower()
