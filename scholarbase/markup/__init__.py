"""Markup of titles, abstracts and names as plain text: TeX, HTML, JATS, MathML, and odd forms of Unicode."""

from scholarbase.markup.plain import (
    MAY_CHANGE,
    formulas_of,
    plain,
    plain_abstract,
    read_abstract,
    read_text,
)
from scholarbase.markup.symbols import GREEK

__all__ = ["GREEK", "MAY_CHANGE", "formulas_of", "plain", "plain_abstract", "read_abstract", "read_text"]
