"""Four short papers in unarXive's form, and their texts as they are written out by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from tests.documents.pdfs import new_pdf

SORTING: Final = "arXiv:2301.00001"
MERGING: Final = "arXiv:2302.00002"
GRAPHS: Final = "arXiv:2101.00003"
ABSTRACT_ONLY: Final = "arXiv:2301.00004"
"""A paper without a full text."""

SORTING_TEXT: Final = """Abstract

We sort quickly.

1 Introduction

Sorting networks compare keys in a fixed order [1]. The zebra example is due to Knuth [2].

1.1 Notation

We write n for the number of keys. A comparator exchanges two keys.

2 Results

The depth of the network is seven. Every zebra sorts first."""
FIRST_SORTING_TEXT: Final = SORTING_TEXT.replace("is seven", "is nine")
"""The text of version 1."""
MERGING_TEXT: Final = """Abstract

We merge sorted lists.

1 Introduction

Merging takes linear time, whatever the lists are. The sorting networks of earlier work [1] need more comparators. \
Unlike them [1], we keep a zebra.

2 Method

Take the smaller head of both lists, again and again.

Figures and tables

Figure 1: Two lists become one."""
SENTENCE: Final = (
    "Graph {n} has a colouring with {n} colours, and its vertices are numbered from zero to {n}."
)
"""A sentence of a paper of many paragraphs."""
GRAPH_PARAGRAPHS: Final = 60
GRAPHS_TEXT: Final = "\n\n".join(
    [
        "Abstract",
        "We colour graphs.",
        "1 Colourings",
        *(SENTENCE.format(n=n) for n in range(1, GRAPH_PARAGRAPHS + 1)),
    ]
)


def record(
    arxiv: str,
    title: str,
    abstract: str,
    created: str,
    category: str,
    body: Sequence[tuple[str, str, str, str]],
    *,
    versions: int = 1,
    cited: Mapping[str, Mapping[str, Any]] | None = None,
    figures: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A line of unarXive. ``body`` has section, number, kind and text of each paragraph."""
    return {
        "paper_id": arxiv,
        "metadata": metadata(arxiv, title, abstract, created, category, versions),
        "abstract": {"section": "Abstract", "text": abstract, "cite_spans": [], "ref_spans": []},
        "body_text": [
            {
                "section": name,
                "sec_number": number,
                "sec_type": kind,
                "content_type": "paragraph",
                "text": text,
            }
            for name, number, kind, text in body
        ],
        "bib_entries": dict(cited or {}),
        "ref_entries": {
            name: {"type": "figure", "caption": caption} for name, caption in (figures or {}).items()
        },
    }


def metadata(
    arxiv: str, title: str, abstract: str, created: str, category: str, versions: int = 1
) -> dict[str, Any]:
    """A line of arXiv's metadata snapshot."""
    return {
        "id": arxiv,
        "title": title,
        "abstract": abstract,
        "authors": "Ada Lovelace",
        "authors_parsed": [["Lovelace", "Ada", ""]],
        "categories": category,
        "doi": None,
        "journal-ref": None,
        "comments": None,
        "versions": [{"version": f"v{n}", "created": created} for n in range(1, versions + 1)],
        "update_date": "2023-03-01",
    }


def _sorting(version: int, depth: str) -> dict[str, Any]:
    return record(
        "2301.00001",
        "Sorting networks of small depth",
        "We sort quickly.",
        "Mon, 2 Jan 2023 00:00:00 GMT",
        "cs.DS",
        [
            (
                *("Introduction", "1", "section"),
                "Sorting networks compare keys in a fixed order {{cite:m}} . The zebra example is due to Knuth "
                "{{cite:k}} .",
            ),
            (
                *("Notation", "1.1", "subsection"),
                "We write n for the number of keys. A comparator exchanges two keys.",
            ),
            ("Results", "2", "section", f"The depth of the network is {depth}. Every zebra sorts first."),
        ],
        versions=version,
        cited={
            "m": {
                "bib_entry_raw": "A. Lovelace. Merging sorted lists. 2023.",
                "contained_arXiv_ids": [{"id": "2302.00002"}],
            },
            "k": {"bib_entry_raw": "D. E. Knuth. The Art of Computer Programming. 1998."},
        },
    )


RECORDS: Final = (
    _sorting(1, "nine"),
    _sorting(2, "seven"),
    record(
        "2302.00002",
        "Merging sorted lists",
        "We merge sorted lists.",
        "Wed, 1 Feb 2023 00:00:00 GMT",
        "cs.DS",
        [
            (
                *("Introduction", "1", "section"),
                "Merging takes linear time, whatever the lists are. The sorting networks of earlier work {{cite:s}} "
                "need more comparators. Unlike them {{cite:s}} , we keep a zebra.",
            ),
            ("Method", "2", "section", "Take the smaller head of both lists, again and again."),
        ],
        cited={
            "s": {
                "bib_entry_raw": "A. Lovelace. Sorting networks. arXiv:2301.00001, 2023.",
                "contained_arXiv_ids": [{"id": "2301.00001"}],
            }
        },
        figures={"f": "Two lists become one."},
    ),
    record(
        "2101.00003",
        "Old graphs",
        "We colour graphs.",
        "Tue, 5 Jan 2021 00:00:00 GMT",
        "math.CO",
        [("Colourings", "1", "section", SENTENCE.format(n=n)) for n in range(1, GRAPH_PARAGRAPHS + 1)],
    ),
)


RED_SQUARE: Final = (50.0, 60.0, 40.0, 40.0)
"""The picture on page 2 of the PDF of ``MERGING``: x, y, width, height in points from the top left corner."""


def pdf_of_merging() -> bytes:
    """Two pages of 400 by 600 points, the second one with a red square."""
    pdf = new_pdf(unit="pt", format=(400, 600))
    pdf.set_font("helvetica", size=11)
    pdf.add_page()
    pdf.multi_cell(0, text="Merging sorted lists")
    pdf.add_page()
    x, y, width, height = RED_SQUARE
    pdf.set_fill_color(255, 0, 0)
    pdf.rect(x, y, width, height, style="F")
    return bytes(pdf.output())


def write_sources(folder: Path) -> tuple[Path, list[Path]]:
    """The papers' metadata, and their full texts."""
    about = folder / "arxiv-metadata.json"
    other = metadata(
        "2301.00004", "Nothing but an abstract", "We say little.", "Tue, 3 Jan 2023 00:00:00 GMT", "cs.CL"
    )
    about.write_text(json.dumps(other) + "\n")
    texts = folder / "unarxive.jsonl"
    texts.write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    pdf = folder / "2302.00002v1.pdf"
    pdf.write_bytes(pdf_of_merging())
    return about, [texts, pdf]


def build(folder: Path, *, dense: bool = True) -> Path:
    """A library of these papers, with the packaged encoder's vectors if ``dense``."""
    about, texts = write_sources(folder)
    encoder = open_encoder(PACKAGED) if dense else None
    try:
        ingest(
            [about],
            folder / "library",
            documents=texts,
            encoder=encoder,
            encoder_location=PACKAGED if dense else None,
        )
    finally:
        if encoder is not None:
            encoder.close()
    return folder / "library"
