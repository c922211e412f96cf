"""Where figures are: in a library of PDFs, of another text beside its PDF, and of a scan."""

import json
from collections.abc import Iterator

import pytest

from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from tests.documents.pdfs import many_pages
from tests.extensions.fulltext.test_figures import FOLDER
from tests.fulltexts import record

pytest.importorskip("pypdfium2")

TYPST, SCAN, BOTH = "arXiv:2212.11858", "arXiv:2212.00001", "arXiv:2212.11770"
WHICH_PAGE = """
SELECT pages.page_number FROM images JOIN pages JOIN metadata
ON images.ref_page_id = pages.page_id AND pages.ref_paper_id = metadata.paper_id
WHERE metadata.paper_id = '{}' AND images.image_caption LIKE '%Figure 3%'
"""
"""The statement of AirQA's own example (arXiv:2509.16952, the action RetrieveFromDatabase)."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("figures")
    for name, data in (
        ("2212.11858.pdf", (FOLDER / "typst.pdf").read_bytes()),
        ("2212.11770v1.pdf", (FOLDER / "article.pdf").read_bytes()),
        ("2212.00001.pdf", many_pages(3)),
    ):
        (folder / name).write_bytes(data)
        about = {"title": f"The paper in {name}", "abstract": "Figures."}
        (folder / name).with_suffix(".json").write_text(json.dumps(about))
    captions = {
        "a": "Free space clustering and rooms segmentation, obtained from the estimated wall planes "
        "surrounding each cluster. Pink colored squares represent a four-wall room, while yellow and green "
        "colored squares represent two-wall rooms in {{formula:x}} and {{formula:y}} directions respectively.",
        "b": "Maps by S-Graphs+ and baselines, in-house seq. C4F0.",
        "c": "A picture that the PDF lacks.",
    }
    texts = folder / "unarxive.jsonl"
    date = "Thu, 22 Dec 2022 17:01:56 GMT"
    other = record("2212.11770", "S-Graphs+", "Maps of rooms.", date, "cs.RO", [], figures=captions)
    texts.write_text(json.dumps(other) + "\n")
    ingest([], folder / "library", documents=[folder])
    with Library.open(folder / "library") as opened:
        yield opened


def test_which_page_has_figure_3(library: Library) -> None:
    assert library.sql(WHICH_PAGE.format(TYPST)).rows == ((3,),)


def test_figures_of_another_text_have_the_pages_of_the_pdf(library: Library) -> None:
    figures = library.text(BOTH).figures
    assert figures is not None
    assert [(figure.label, figure.page) for figure in figures] == [
        ("Figure 1", 4),
        ("Figure 2", 5),
        ("Figure 3", None),
    ]
    rows = library.sql(
        "SELECT f.number, f.page_number, p.page_number FROM figures f JOIN documents d USING (document_id) "
        f"JOIN pages p USING (page_id) WHERE d.source = 'unarxive' AND f.paper_id = '{BOTH}' ORDER BY 1"
    ).rows
    assert rows == (("1", 4, 4), ("2", 5, 5))


def test_sections_have_pages(library: Library) -> None:
    sections = library.text(TYPST).sections
    assert sections is not None
    assert [(section.number, section.page) for section in sections if section.number] == [
        ("1", 1),
        ("2", 2),
        ("3", 3),
        ("4", 4),
    ]
    rows = library.sql(f"SELECT section_number, page_number FROM sections WHERE paper_id = '{TYPST}'").rows
    assert [row for row in rows if row[0]] == [("1", 1), ("2", 2), ("3", 3), ("4", 4)]


def test_a_scan_says_that_it_has_no_text(library: Library) -> None:
    outline = library.text(SCAN)
    assert len(outline.warnings) == 1
    assert outline.warnings[0].startswith("The PDF has no text: it is a scan,")
    assert library.text(SCAN, from_offset=0).warnings == outline.warnings
    assert library.find(SCAN, "word").warnings == outline.warnings
    assert library.passages(SCAN, "What does it say?").warnings == outline.warnings
    assert Tools(library).call("read_paper", {"paper_id": SCAN, "find": "word"})["warnings"] == list(
        outline.warnings
    )
    lines = Tools(library).call_as_text("read_paper", {"paper_id": SCAN}).splitlines()
    assert lines[-1] == f"   Warning: {outline.warnings[0]}"
