"""One library of the sample and of full texts of every source, read through to the last section."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.errors import DocumentNotFound
from scholarbase.ingest.job import ingest
from scholarbase.responses import text as texts
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from scholarbase.tools import Tools
from tests.conftest import SAMPLE, SHARED
from tests.documents.pdfs import two_pages
from tests.extensions.fulltext.test_jats import ARTICLE

pytest.importorskip("pypdfium2")
pytestmark = pytest.mark.slow

UNARXIVE = SHARED / "unarxive-sample" / "arXiv_src_2212_086.jsonl.gz"
S2ORC = SHARED / "s2ag-samples" / "s2orc"
MARKDOWN = """---
title: A note about marking squares by hand
doi: 10.1000/Note.1
authors: [Ada Lovelace]
date: 2021-05-01
---
# Introduction

Squares are marked by hand.

## 1.1 Tools

A pencil is enough.
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("texts")
    texts = folder / "texts"
    texts.mkdir()
    (texts / "article.xml").write_text(ARTICLE)
    (texts / "note.md").write_text(MARKDOWN)
    (texts / "hep-th_9301068.pdf").write_bytes(two_pages())  # a paper of the sample
    shared = [path for path in (UNARXIVE, S2ORC) if path.exists()]
    ingest([SAMPLE / "s2ag", SAMPLE / "arxiv"], folder / "library", documents=[texts, *shared])
    with Library.open(folder / "library") as opened:
        yield opened


def test_all_sources_become_one_library(library: Library) -> None:
    counts = library.manifest.counts
    expected = 3 + (49 if UNARXIVE.exists() else 0) + (8 if S2ORC.exists() else 0)
    assert counts["documents"] == expected
    assert counts["papers"] == 2440 + expected - 1  # the PDF is of a paper of the sample
    assert list(verify(library.path))


def test_read_paper_returns_every_section_of_every_text(library: Library) -> None:
    """Of every fifth, and of all that are not of unarXive. Each section by its place, in parts of a thousand tokens:
    together they are the section, and its offsets say where it is in the whole text."""
    tools = Tools(library)
    papers = {
        hit.paper.id
        for word in ("the", "squares", "mark", "square")
        for offset in range(0, 1000, 100)
        for hit in library.search_passages(
            word, mode="sparse", syntax="plain", limit=100, offset=offset
        ).results
    }
    documents = library.manifest.counts["documents"]
    assert len(papers) == documents
    for paper in [
        *sorted(papers)[::5],
        *sorted(paper for paper in papers if not paper.startswith("arXiv:2212")),
    ]:
        whole = _read(tools, paper, {"from_offset": 0})
        sections = tools.call("read_paper", {"paper_id": paper})["sections"]
        for section in sections:
            text = _read(tools, paper, {"section": f"#{section['place']}"}, 1000)
            assert text == whole[section["start"] : section["end"]]
            assert text.startswith((section.get("number") or section["title"])[:50])


def _read(tools: Tools, paper: str, where: dict[str, object], max_tokens: int = 100_000) -> str:
    parts = []
    while True:
        response = tools.call("read_paper", {"paper_id": paper, **where, "max_tokens": max_tokens})
        parts.append(response["text"])
        if response.get("next_offset") is None:
            return "".join(parts)
        where = {**where, "from_offset": response["next_offset"]}


def test_a_name_of_several_sections_is_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "2301.00001v1.md").write_text(
        "# Twice\n\n## Proof\n\nBy hand.\n\n## Other\n\nText.\n\n## Proof\n\nBy machine.\n"
    )
    ingest([], tmp_path / "library", documents=[tmp_path / "2301.00001v1.md"])
    with Library.open(tmp_path / "library") as library:
        first = library.text("2301.00001", section="proof")
        assert first.text == "Proof\n\nBy hand."
        assert first.warnings == ("2 sections are called 'proof': this is #0, the others are #2.",)
        assert library.text("2301.00001", section="#2").text == "Proof\n\nBy machine."
        assert library.text("2301.00001", section="#2").warnings == ()
        assert "warnings" not in library.text("2301.00001", section="other").to_dict()
        read = Tools(library).call("read_paper", {"paper_id": "2301.00001", "section": "Proof"})
        assert read["warnings"] == ["2 sections are called 'Proof': this is #0, the others are #2."]
        assert any(
            line == "   Warning: 2 sections are called 'Proof': this is #0, the others are #2."
            for line in texts.as_text(read).splitlines()
        )


def test_a_version_without_a_pdf_is_named_where_another_version_has_one(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "2301.00001v1.md").write_text("# Two versions\n\nFirst.")
    (tmp_path / "texts" / "2301.00001v2.pdf").write_bytes(two_pages())
    ingest([], tmp_path / "library", documents=[tmp_path / "texts"])
    with Library.open(tmp_path / "library") as library:
        assert library.page_image("2301.00001", 1).startswith(b"\x89PNG")
        with pytest.raises(DocumentNotFound, match=r"no PDF of version 1 of '2301\.00001' \(only markdown\)"):
            library.page_image("2301.00001", 1, version=1)
