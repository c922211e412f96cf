"""Papers of unarXive: a record made by hand, the 49 of the shared sample, and any other JSON."""

import gzip
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.model import BadDocument, BibliographyEntry, FullText
from scholarbase_fulltext.unarxive import read_unarxive
from tests.extensions.fulltext.holding import check, marks


def paragraph(text: str, section: str, number: str, kind: str, content: str = "paragraph") -> dict[str, Any]:
    return {
        "section": section,
        "sec_number": number,
        "sec_type": kind,
        "content_type": content,
        "text": text,
        "cite_spans": [],
        "ref_spans": [],
    }


RECORD: dict[str, Any] = orjson.loads((Path(__file__).parent / "record.json").read_bytes())


def read(record: object) -> FullText:
    return read_unarxive(orjson.dumps(record))


def test_a_record_becomes_text_sections_and_marks() -> None:
    full = read(RECORD)
    check(full.document)
    assert full.document.text == "\n\n".join(
        [
            "Abstract",
            "We write marks.",
            "1 Intro",
            "As [1] and [2] show , $x^2$. So.",
            "$x^2$ holds.\nSee Figure 1.",
            "1.1 Deep [3]",
            "Again [1], [?].",
            "3.1 Lost parent",
            "More.",
            "Acknowledgments",
            "Thanks.",
            "Figures and tables",
            "Figure 1: Mentioned, after [2].",
            "Figure 2: Not mentioned.",
            "Table 1: Rows.",
        ]
    )
    assert [(section.number, section.title, section.parent) for section in full.document.sections] == [
        (None, "Abstract", None),
        ("1", "Intro", None),
        ("1.1", "Deep [3]", 1),
        ("3.1", "Lost parent", None),
        (None, "Acknowledgments", None),
        (None, "Figures and tables", None),
    ]
    assert marks(full.document) == ["[1]", "[2]", "[3]", "[1]", "[2]"]
    assert [citation.entry for citation in full.document.citations] == [0, 1, 2, 0, 1]
    assert [paragraph.kind for paragraph in full.document.paragraphs] == [
        "paragraph",
        "paragraph",
        "list",
        "paragraph",
        "paragraph",
        "paragraph",
        "caption",
        "caption",
        "caption",
    ]


def test_the_bibliography_is_in_the_order_of_the_marks() -> None:
    assert read(RECORD).document.bibliography == [
        BibliographyEntry("B. Author, J. 3 (1987)", None, 1987, ("arXiv:hep-th/9901001", "PMID:77")),
        BibliographyEntry(
            "A. Author. Title $x^2$. 2021. arXiv:2101.00001",
            None,
            2021,
            ("arXiv:2101.00001", "DOI:10.1000/x", "OpenAlex:W12"),
        ),
        BibliographyEntry("C.", None, None, ("DOI:10.1000/c",)),
        BibliographyEntry("Never cited, 1999.", None, 1999, ()),
    ]


def test_the_record_says_which_paper_it_is() -> None:
    full = read(RECORD)
    assert full.ids == ("arXiv:2212.99999", "DOI:10.1000/made.1")
    assert full.version == 2
    assert full.metadata.title == "A made-up paper on marks"
    assert full.metadata.authors == ("Ada B. Lovelace", "Bo Ray Jr")
    assert full.metadata.date == "2022-12-22"
    assert full.metadata.arxiv == RECORD["metadata"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not-json"),
        (b'{"a": "\xff"}', "not-json"),
        (b"[1]", "not-an-object"),
        (b'{"body_text": []}', "not-unarxive"),
        (orjson.dumps(RECORD | {"body_text": {}}), "not-unarxive"),
        (b"[" * 5000 + b"]" * 5000, "not-json"),
    ],
)
def test_other_lines_are_refused_with_a_reason(line: bytes, reason: str) -> None:
    with pytest.raises(BadDocument) as caught:
        read_unarxive(line)
    assert caught.value.reason == reason
    assert caught.value.detail.endswith(".")


def test_marks_cannot_multiply_a_text_without_limit() -> None:
    record = RECORD | {
        "body_text": [paragraph("{{formula:f1}}" * 3000, "A", "1", "section")],
        "ref_entries": {"f1": {"type": "formula", "latex": "x" * 10_000}},
    }
    with pytest.raises(BadDocument, match="more than 20,000,000 characters"):
        read(record)


json_values = st.recursive(
    st.none() | st.integers(-3, 99) | st.text(max_size=8) | st.sampled_from(["{{cite:aa}}", "{{figure:g1}}"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "id", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
body_texts = st.builds(
    paragraph,
    st.lists(
        st.text(max_size=6)
        | st.sampled_from(["{{cite:aa}}", "{{cite:bb}}", "{{formula:f1}}", "{{figure:g2}}", " \n\n", "]"]),
        max_size=5,
    ).map("".join),
    st.sampled_from(["", "A", "B {{cite:cc}}", "C  {{formula:f1}} "]),
    st.sampled_from(["-1", "", "1", "1.1", "2.1.1", "A"]),
    st.sampled_from(["", "section", "subsection", "subsubsection"]),
    st.sampled_from(["paragraph", "list"]),
)


@settings(deadline=None)
@given(st.lists(body_texts | json_values, max_size=6), st.dictionaries(st.text(max_size=3), json_values))
def test_every_document_holds_together(body: list[Any], others: dict[str, Any]) -> None:
    record = RECORD | {"body_text": body, "bib_entries": RECORD["bib_entries"] | others}
    check(read(record).document)


def test_all_marks_of_the_49_papers_are_resolved(shared_data: Path) -> None:
    with gzip.open(shared_data / "unarxive-sample" / "arXiv_src_2212_086.jsonl.gz") as lines:
        records = list(lines)
    marks_before = 0
    documents = []
    for line in records:
        full = read_unarxive(line)
        check(full.document)
        assert full.metadata.arxiv is not None
        assert full.ids[0] == f"arXiv:{full.metadata.arxiv['id']}"
        documents.append(full.document)
        body = orjson.loads(line)["body_text"]
        sections = {(item["section"], item["sec_number"], item["sec_type"]): None for item in body}
        marks_before += sum(item["text"].count("{{cite:") for item in body)
        marks_before += sum((name or "").count("{{cite:") for name, _, _ in sections)
    assert len(documents) == 49
    assert sum(len(document.citations) for document in documents) == marks_before
    assert not any(re.search(r"\{\{\w+:[0-9a-f]{8}", document.text) for document in documents)
    for document in documents:
        assert all(re.fullmatch(r"\[\d+\]", mark) for mark in marks(document))
