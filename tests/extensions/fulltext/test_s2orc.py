"""S2ORC: the records of the shared sample, and records of both forms made by hand."""

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.model import BadDocument, BibliographyEntry, FullText
from scholarbase_fulltext.s2orc import read_s2orc
from tests.extensions.fulltext.holding import check, marks

BODY = (
    "A Title\nAda Lovelace\nWe mark. 1 Intro As [1], [2] say (Ray 1987).\n\nNext  one. 2.1 Deep x = y "
    "Fig. 3\n3A cat [1]. Table 1\nRows a b "
)
ENTRIES = "First work. A. Ray. 2001. Second work. B. Ray. 1987. doi:10.1000/z"


def span(text: str, part: str, occurrence: int = 0, **attributes: object) -> dict[str, Any]:
    start = -1
    for _ in range(occurrence + 1):
        start = text.index(part, start + 1)
    return {"start": start, "end": start + len(part)} | ({"attributes": attributes} if attributes else {})


SPANS: dict[str, list[dict[str, Any]]] = {
    "title": [span(BODY, "A Title")],
    "author": [span(BODY, "Ada Lovelace\n")],
    "abstract": [span(BODY, "We mark.")] * 2,
    "section_header": [span(BODY, "Intro", n="1."), span(BODY, "2.1 Deep"), span(BODY, "Fig. 3")],
    "paragraph": [span(BODY, "As [1], [2] say (Ray 1987)."), span(BODY, "Next  one.")],
    "formula": [span(BODY, "x = y")],
    "bib_ref": [
        span(BODY, "[1]", ref_id="b0"),
        span(BODY, "[2]", ref_id="b9"),
        span(BODY, "(Ray 1987)", ref_id="b1"),
        span(BODY, "[1]", 1, ref_id="b0"),
    ],
    "figure": [span(BODY, "Fig. 3\n3A cat [1]."), span(BODY, "Table 1\nRows a b", type="table")],
    "figure_caption": [span(BODY, "A cat [1]."), span(BODY, "Rows")],
    "table": [span(BODY, "a b")],
}
BIBLIOGRAPHY_SPANS: dict[str, list[dict[str, Any]]] = {
    "bib_entry": [
        span(ENTRIES, "First work. A. Ray. 2001.", id="b0", matched_paper_id=77),
        span(ENTRIES, "Second work. B. Ray. 1987. doi:10.1000/z", id="b1"),
    ],
    "bib_title": [span(ENTRIES, "First work"), span(ENTRIES, "Second work")],
}


def second_form() -> dict[str, Any]:
    return {
        "corpusid": 5,
        "externalids": {"DOI": "10.1000/A", "ArXiv": "2212.11867", "DBLP": None},
        "body": {
            "text": BODY,
            "annotations": {name: orjson.dumps(spans).decode() for name, spans in SPANS.items()},
        },
        "bibliography": {
            "text": ENTRIES,
            "annotations": {name: orjson.dumps(spans).decode() for name, spans in BIBLIOGRAPHY_SPANS.items()},
        },
    }


def first_form() -> dict[str, Any]:
    """The same record with one text, and names of annotations without underscores."""
    shift = len(BODY) + 1
    moved = {
        name: [item | {"start": item["start"] + shift, "end": item["end"] + shift} for item in spans]
        for name, spans in BIBLIOGRAPHY_SPANS.items()
    }
    annotations = {
        name.replace("_", ""): orjson.dumps(spans).decode() for name, spans in (SPANS | moved).items()
    }
    return {
        "corpusid": 5,
        "externalids": {"doi": "10.1000/A", "arxiv": "2212.11867", "dblp": None},
        "content": {
            "source": {},
            "text": f"{BODY} {ENTRIES}",
            "annotations": annotations | {"venue": None},
        },
    }


def read(record: object) -> FullText:
    full = read_s2orc(orjson.dumps(record))
    check(full.document)
    return full


@pytest.mark.parametrize("record", [first_form(), second_form()], ids=["s2orc", "s2orc_v2"])
def test_both_forms_become_the_same_document(record: dict[str, Any]) -> None:
    full = read(record)
    assert full.document.text.split("\n\n") == [
        "Abstract",
        "We mark.",
        "1 Intro",
        "As [1], [2] say (Ray 1987).",
        "Next one.",
        "2.1 Deep",
        "x = y",
        "Figures and tables",
        "Figure 3: A cat [1].",
        "Table 1: Rows",
        "a b",
    ]
    assert [(section.number, section.title, section.parent) for section in full.document.sections] == [
        (None, "Abstract", None),
        ("1", "Intro", None),
        ("2.1", "Deep", 1),
        (None, "Figures and tables", None),
    ]
    assert marks(full.document) == ["[1]", "(Ray 1987)", "[1]"]
    assert [citation.entry for citation in full.document.citations] == [0, 1, 0]
    assert full.document.bibliography == [
        BibliographyEntry("First work. A. Ray. 2001.", "First work", 2001, ("CorpusId:77",)),
        BibliographyEntry(
            "Second work. B. Ray. 1987. doi:10.1000/z", "Second work", 1987, ("DOI:10.1000/z",)
        ),
    ]
    assert full.ids == ("CorpusId:5", "DOI:10.1000/a", "arXiv:2212.11867")
    assert full.metadata.title == "A Title"
    assert full.metadata.authors == ("Ada Lovelace",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\xff", "not-json"),
        (b"1", "not-an-object"),
        (b'{"corpusid": 1}', "not-s2orc"),
        (b'{"corpusid": 1, "content": {"text": null}}', "no-text"),
        (b'{"corpusid": 1, "content": {"text": "a", "annotations": {"paragraph": "["}}}', "not-s2orc"),
    ],
)
def test_other_lines_are_refused_with_a_reason(line: bytes, reason: str) -> None:
    with pytest.raises(BadDocument) as caught:
        read_s2orc(line)
    assert caught.value.reason == reason


spans = st.lists(
    st.builds(
        lambda start, length, name: {"start": start, "end": start + length, "attributes": {"ref_id": name, "id": name}},
        st.integers(-2, len(BODY) + 5),
        st.integers(-1, 40),
        st.sampled_from(["b0", "b1", None]),
    ),
    max_size=5,
)  # fmt: skip


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*SPANS, "bib_entry", "bib_title"]),
        spans | st.none() | st.text(max_size=0),
        max_size=12,
    )
)
def test_every_document_holds_together(annotations: dict[str, Any]) -> None:
    given_none = {name: value for name, value in annotations.items() if value != ""}
    read({"corpusid": 1, "content": {"text": BODY, "annotations": given_none}})


def test_the_records_of_the_sample_are_read(shared_data: Path) -> None:
    with gzip.open(shared_data / "s2ag-samples" / "s2orc" / "s2orc-sample.jsonl.gz") as lines:
        records = list(lines)
    documents = [read(orjson.loads(line)).document for line in records]
    assert len(documents) == 8
    for line, document in zip(records, documents, strict=True):
        content = orjson.loads(line)["content"]
        entries = {item["attributes"]["id"] for item in orjson.loads(content["annotations"]["bibentry"])}
        assert len(document.bibliography) == len(entries)
        assert document.citations
