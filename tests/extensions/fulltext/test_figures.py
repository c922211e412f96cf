"""Figures and tables of ten PDFs, compared with labels that were written by looking at their pages.

``pytest tests/extensions/fulltext/test_figures.py -s`` prints precision and recall.
"""

from pathlib import Path
from typing import Any

import orjson
import pytest

from scholarbase.documents.model import Figure
from scholarbase_fulltext.pdf import read_pdf

FOLDER = Path(__file__).parent / "figures"


def bare(text: str) -> str:
    """Only letters and digits: spaces around formulas and hyphens at the ends of lines do not matter."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def is_whole(figure: Figure, label: dict[str, Any]) -> bool:
    caption = bare(figure.caption)
    return caption.startswith(bare(label["starts"])) and caption.endswith(bare(label["ends"]))


def test_precision_and_recall_of_figures_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    expected = returned = right = whole = 0
    wrong = []
    for name, labels in orjson.loads((FOLDER / "labels.json").read_bytes()).items():
        document = read_pdf((FOLDER / name).read_bytes()).document
        figures = {(figure.label, figure.page): figure for figure in document.figures}
        keys = {(label["label"], label["page"]): label for label in labels}
        expected, returned = expected + len(labels), returned + len(document.figures)
        right += len(figures.keys() & keys.keys())
        whole += sum(is_whole(figures[key], keys[key]) for key in figures.keys() & keys.keys())
        wrong += [(name, *key) for key in figures.keys() ^ keys.keys()]
        wrong += [
            (name, *key, figures[key].caption)
            for key in figures.keys() & keys.keys()
            if not is_whole(figures[key], keys[key])
        ]
    with capsys.disabled():
        print(
            f"\n{expected} labels, {returned} rows: {right} with label and page, {whole} with the whole caption"
        )
    assert wrong == []
    assert right == whole == returned == expected
