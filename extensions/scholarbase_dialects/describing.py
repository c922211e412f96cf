"""Facts of papers in the forms that several dialects use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scholarbase.bibliographies.facts import arxiv_id_of
from scholarbase.indexes.author_names import name_id
from scholarbase.models.papers import Author, Paper

FIELD_OF_ARCHIVE: Final[Mapping[str, str]] = {
    "cs": "Computer Science",
    "eess": "Engineering",
    "math": "Mathematics",
    "math-ph": "Physics",
    "stat": "Mathematics",
    "q-bio": "Biology",
    "q-fin": "Economics",
    "econ": "Economics",
    **dict.fromkeys(
        ("astro-ph", "cond-mat", "gr-qc", "nlin", "nucl-ex", "nucl-th", "physics", "quant-ph"), "Physics"
    ),
    **dict.fromkeys(("hep-ex", "hep-lat", "hep-ph", "hep-th"), "Physics"),
}
"""arXiv's archives to Semantic Scholar's fields of study."""


def pdf_of(paper: Paper) -> str | None:
    """The PDF at arXiv."""
    arxiv_id = arxiv_id_of(paper)
    return None if arxiv_id is None else f"https://arxiv.org/pdf/{arxiv_id}"


def names_of(authors: tuple[Author, ...]) -> list[str]:
    return [author.name for author in authors]


def author_id_of(author: Author) -> str:
    """The source's id of an author, else ``name:`` and the normalized name."""
    return author.author_id or name_id(author.name)


def is_open(paper: Paper) -> bool | None:
    """Whether the paper can be read freely; None if it is unknown. Papers on arXiv can."""
    return True if arxiv_id_of(paper) is not None else paper.is_open_access


def fields_of_study(paper: Paper) -> list[str]:
    """Those of Semantic Scholar, else those of the arXiv categories."""
    if paper.fields_of_study:
        return list(paper.fields_of_study)
    fields = (FIELD_OF_ARCHIVE.get(name.partition(".")[0]) for name in paper.categories)
    return list(dict.fromkeys(field for field in fields if field is not None))
