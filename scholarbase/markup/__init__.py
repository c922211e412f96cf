"""Markup of titles, abstracts and names as plain text (TeX, HTML, JATS, MathML, odd forms of Unicode), and the form in
which the words of a text are searched."""

from scholarbase.markup.plain import (
    MAY_CHANGE,
    formulas_of,
    plain,
    plain_abstract,
    read_abstract,
    read_text,
)
from scholarbase.markup.searchable import searchable

__all__ = [
    "MAY_CHANGE",
    "formulas_of",
    "plain",
    "plain_abstract",
    "read_abstract",
    "read_text",
    "searchable",
]
