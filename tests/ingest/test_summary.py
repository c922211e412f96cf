"""What an ingest keeps and leaves out, and how it says so."""

from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.search.library import Library
from tests.conftest import run_cli
from tests.documents.pdfs import new_pdf, two_pages
from tests.ingest.contents import rejects
from tests.ingest.test_job import lines

PAPERS = (
    {"corpusid": 1, "title": "In a journal, with an abstract", "externalids": {"DOI": "10.1000/a"}},
    {"corpusid": 2, "title": "In a journal, without an abstract", "externalids": {"DOI": "10.1000/b"}},
    {"corpusid": 3, "title": "On arXiv, without an abstract", "externalids": {"ArXiv": "2401.00003"}},
    {"corpusid": 4, "title": "On arXiv, with an abstract", "externalids": {"ArXiv": "2401.00004"}},
    {"corpusid": 5},
)
ABSTRACTS = ({"corpusid": 1, "abstract": "Ships."}, {"corpusid": 4, "abstract": "Shoes."})
CITATIONS = (
    {"citingcorpusid": 1, "citedcorpusid": 4},
    {"citingcorpusid": 1, "citedcorpusid": 2},
    {"citingcorpusid": 1, "citedcorpusid": None},
)


def release(folder: Path) -> Path:
    return lines(folder, papers=[*PAPERS], abstracts=[*ABSTRACTS], citations=[*CITATIONS])


def table(text: str) -> dict[str, list[str]]:
    """The rows of the printed table by their names."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines()[1:]:
        if name := line[:12].strip():
            rows[name] = []
        rows[[*rows][-1]].append(line[12:].strip())
    return rows


def test_an_ingest_says_what_it_keeps_and_leaves_out(tmp_path: Path) -> None:
    """With the rule of arXiv as default, papers of a release were left out without a word."""
    library = tmp_path / "library"
    done = run_cli("ingest", release(tmp_path / "s2"), "--library", library, "--encoder", "none")
    assert done.returncode == 0, done.stderr
    rows = {
        "read": ["5 papers, 2 abstracts, 3 citations"],
        "kept": ["2 papers, 2 with an abstract; 1 citation"],
        "left out": ["2 papers without an abstract or a full text; --keep title keeps all papers"],
        "merged": ["0 records of papers that another record has; 0 repeated records"],
        "conflicts": ["0 ids of different papers"],
        "rejected": [
            "1 (1 no-title)",
            "the first: line 5 of papers.jsonl: There is no title: a paper needs one.",
        ],
        "lead nowhere": [
            "1 reference from or to papers that are left out, or in none of the files read",
            "1 reference without the id of the citing or the cited paper",
        ],
    }
    assert table(done.stdout) == rows
    # A second run of the same command and info say the same.
    again = run_cli("ingest", tmp_path / "s2", "--library", library, "--encoder", "none")
    assert table(again.stdout) == rows
    shown = run_cli("info", "--library", library).stdout
    for sentences in rows.values():
        for sentence in sentences:
            assert sentence in shown


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        (("--keep", "title"), ["0 papers, by --keep title"]),
        (
            ("--keep", "arxiv"),
            [
                "2 papers without an arXiv id; --keep text keeps all with an abstract or a full text",
                "1 paper without an abstract; --keep title keeps all papers",
            ],
        ),
        (
            ("--profile", "scholarquest"),
            [
                "2 papers without an arXiv id; --profile default keeps all with an abstract or a full text",
                "1 paper without an abstract; --keep title keeps all papers",
            ],
        ),
    ],
)
def test_each_rule_names_the_option_that_keeps_more(
    options: tuple[str, ...], left_out: list[str], tmp_path: Path
) -> None:
    source = release(tmp_path / "s2")
    done = run_cli("ingest", source, "--library", tmp_path / "l", "--encoder", "none", *options)
    assert table(done.stdout)["left out"] == left_out, done.stderr


@pytest.mark.whole
def test_a_paper_with_only_a_full_text_is_kept(tmp_path: Path) -> None:
    (tmp_path / "arXiv:2401.00003.txt").write_text("The time has come, the walrus said.")
    manifest = ingest(
        [release(tmp_path / "s2")], tmp_path / "l", documents=[tmp_path / "arXiv:2401.00003.txt"]
    )
    assert (manifest.counts["papers"], manifest.counts["papers_without_text"]) == (3, 1)
    with Library.open(tmp_path / "l") as library:
        assert library.paper("2401.00003").title == "On arXiv, without an abstract"
        assert library.search_passages("walrus", mode="sparse").total == 1


@pytest.mark.parametrize("keep", ["text", "title"])
def test_a_keep_rule_that_contradicts_the_profile_is_refused(keep: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=f"--keep {keep} contradicts --profile scholarquest"):
        IngestRules(keep=keep, profile="scholarquest")
    options = ("--library", tmp_path / "l", "--keep", keep, "--profile", "scholarquest")
    assert run_cli("ingest", release(tmp_path / "s2"), *options).returncode == 2
    assert IngestRules(profile="scholarquest").keep_rule == "arxiv"
    assert IngestRules().keep_rule == "text"


@pytest.mark.whole
def test_a_few_broken_pdfs_do_not_end_the_job(tmp_path: Path) -> None:
    """Scans are counted as such, broken files are named, and the exit status says that the library lacks some."""
    texts = tmp_path / "texts"
    texts.mkdir()
    scan = new_pdf()
    scan.add_page()
    (texts / "10.1000%2Fa.pdf").write_bytes(two_pages())
    (texts / "arXiv_2401.00004.pdf").write_bytes(bytes(scan.output()))
    (texts / "2401.00004.html").write_text('<html><article class="ltx_document"></article></html>')
    for number in range(12):
        (texts / f"broken-{number}.pdf").write_bytes(b"%PDF-1.7 and nothing")
    source, library = release(tmp_path / "s2"), tmp_path / "library"
    command = ("ingest", source, "--library", library, "--documents", texts, "--encoder", "none")
    for _ in range(2):
        done = run_cli(*command)
        assert done.returncode == 28, done.stderr
        assert "without 12 of 15 files of full texts that could not be read" in done.stderr
        rows = table(done.stdout)
        assert rows["full texts"] == [
            "1, in 1 passage (tokens-512)",
            "and 2 documents without text, such as scans, which are shown and not searched",
        ]
        assert rows["rejected"][0] == "13 (12 broken-pdf, 1 no-title)"
    rejected = rejects(library)
    scans = {one["file"]: "OCR" in one["detail"] for one in rejected if one["reason"] == "scan"}
    assert scans == {"2401.00004.html": False, "arXiv_2401.00004.pdf": True}
    assert {one["file"] for one in rejected if one["reason"] == "broken-pdf"} == {
        f"broken-{number}.pdf" for number in range(12)
    }


@pytest.mark.whole
def test_only_broken_pdfs_beside_papers(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing")
    (texts / "page.html").write_text("<html></html>")
    command = ("ingest", release(tmp_path / "s2"), "--library", tmp_path / "l", "--encoder", "none")
    done = run_cli(*command, "--documents", texts)
    assert done.returncode == 28, done.stderr
    assert "Skipped of --documents: 1 file, not full texts" in done.stderr


@pytest.mark.whole
def test_only_broken_pdfs_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing")
    done = run_cli("ingest", "--documents", tmp_path / "broken.pdf", "--library", tmp_path / "l")
    assert done.returncode == 5
    assert "line 1 of broken.pdf: The PDF is broken" in done.stderr
