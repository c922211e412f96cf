"""A copy of the sample library with the full texts of two papers, made by hand."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from scholarbase.documents import schema
from scholarbase.indexes import catalog
from tests.libraries import copied, relist

STRINGS: Final = "arXiv:hep-th/9301068"
"""The paper of the text."""
LATER: Final = "arXiv:hep-th/9412110"
"""A paper of December 1994, with a text of one line."""
TEXT: Final = "1 Introduction\n\nStrings are QCD. See [1].\n\nFigure 3: A torus.\n\n2 Area law\n\nThe end."
_PAGE: Final = TEXT.index("2 Area")

_PARTS: Final = {
    "sections": [
        (1, 0, None, "1", "Introduction", 0, _PAGE - 2, 12),
        (1, 1, None, "2", "Area law", _PAGE, len(TEXT), 4),
    ],
    "pages": [(1, 1, 0, _PAGE, 612.0, 792.0), (1, 2, _PAGE, len(TEXT), 612.0, 792.0)],
    "figures": [
        (1, 0, "figure", "Figure 3", "A torus.", 43, 61, 2, 10.0, 20.0, 300.0, 200.0, None),
        (1, 1, "table", "Table 1", "Numbers.", None, None, 1, None, None, None, None, "<table></table>"),
    ],
    "bibliography": [(1, 0, "Gross, Strings and QCD", "Strings and QCD", 1994, "[]", None)],
    "passages": [(1, 1, 0, 16, 41, 8), (2, 1, 1, _PAGE, len(TEXT), 4)],
}


def with_texts(library: Path, folder: Path) -> Path:
    """A copy of a library in ``folder`` with a document of :data:`STRINGS` and one of :data:`LATER`."""
    path = folder / "texts"
    copied(library, path)
    with closing(sqlite3.connect(path / catalog.FILE_NAME)) as papers:
        numbers = [
            papers.execute(
                "SELECT id FROM papers WHERE arxiv_id = ?", (one.removeprefix("arXiv:"),)
            ).fetchone()[0]
            for one in (STRINGS, LATER)
        ]
    with closing(schema.open_for_building(path / schema.FILE_NAME)) as db:
        for number, paper, source, text in (
            (1, numbers[0], "pdf", TEXT),
            (2, numbers[1], "text", "One line."),
        ):
            db.execute(
                "INSERT INTO documents VALUES (?, ?, 1, ?, 1, ?, 20, ?)",
                (number, paper, source, len(text), schema.compress(text)),
            )
        rows = {**_PARTS, "bibliography": [(*_PARTS["bibliography"][0][:-1], numbers[1])]}
        for table, some in rows.items():
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(some[0]))})", some)
    relist(path)
    return path
