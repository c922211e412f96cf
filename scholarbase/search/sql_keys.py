"""The keys of the views: a temporary database with every paper's canonical id, and the numbers of pages.

A view's ``paper_id`` is computed from several columns of the catalogue, so no index of the catalogue finds one. This
file has them with an index. It is made from an open library's files before its first SQL statement: 0.9 s and 55 MB for
a million papers.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from scholarbase.databases import attach_immutable, open_for_writing
from scholarbase.documents import schema
from scholarbase.indexes.catalog import id_columns

FILE_NAME: Final = "keys.sqlite"

_CREATE: Final = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE ids (paper INTEGER PRIMARY KEY, paper_id TEXT NOT NULL, last_day INTEGER);
CREATE TABLE pages (page_id INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL);
CREATE TABLE figures (
    document INTEGER NOT NULL, place INTEGER NOT NULL, page_id INTEGER, PRIMARY KEY (document, place)
) WITHOUT ROWID;
INSERT INTO ids
WITH found (paper, last_day, arxiv_id, corpus_id, other) AS (
    SELECT p.id, p.last_day, {id_columns("p")} FROM catalogue.papers AS p ORDER BY p.id
) SELECT paper, coalesce('arXiv:' || arxiv_id, 'CorpusId:' || corpus_id, other), last_day FROM found;
CREATE INDEX ids_by_id ON ids (paper_id);
INSERT INTO pages (document, number) SELECT document, number FROM texts.pages ORDER BY document, number;
CREATE UNIQUE INDEX pages_by_number ON pages (document, number);
INSERT INTO figures SELECT f.document, f.place, k.page_id FROM texts.figures AS f
    LEFT JOIN main.pages AS k ON k.document = f.document AND k.number = f.page;
CREATE INDEX figures_by_page ON figures (page_id);
"""


def build(catalogue: Path, texts: Path, folder: Path) -> tuple[Path, Path]:
    """Write the keys into an empty folder.

    Returns:
        The file with the keys, and that with the full texts: an empty one in ``folder`` for a library without.
    """
    keys = folder / FILE_NAME
    if not texts.is_file():
        texts = folder / schema.FILE_NAME
        schema.open_for_building(texts).close()
    with closing(open_for_writing(keys)) as connection:
        attach_immutable(connection, catalogue, "catalogue")
        attach_immutable(connection, texts, "texts")
        connection.executescript(_CREATE)
    return keys, texts
