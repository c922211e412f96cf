"""Figures and tables of ten PDFs, compared with labels that were written by looking at their pages."""

from pathlib import Path
from typing import Any

import orjson

from scholarbase.documents.model import Figure
from scholarbase_fulltext.pdf import read_pdf

FOLDER = Path(__file__).parent / "figures"


def bare(text: str) -> str:
    """Only letters and digits: spaces around formulas and hyphens at the ends of lines do not matter."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def is_whole(figure: Figure, label: dict[str, Any]) -> bool:
    caption = bare(figure.caption)
    return caption.startswith(bare(label["starts"])) and caption.endswith(bare(label["ends"]))


def test_precision_and_recall_of_figures_and_tables_are_1() -> None:
    for name, labels in orjson.loads((FOLDER / "labels.json").read_bytes()).items():
        found = read_pdf((FOLDER / name).read_bytes()).document.figures
        figures = {(figure.label, figure.page): figure for figure in found}
        assert len(figures) == len(found)
        assert figures.keys() == {(label["label"], label["page"]) for label in labels}, name
        cut_off = [label for label in labels if not is_whole(figures[label["label"], label["page"]], label)]
        assert cut_off == [], name
