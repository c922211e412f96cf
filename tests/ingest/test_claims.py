"""Ids that records of different papers have: each stays a paper, and the id with the better source."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.identifiers import Identifier
from scholarbase.ingest import claims, merging
from scholarbase.ingest.claims import remove_id
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import PaperRecord
from scholarbase.manifest import Manifest
from scholarbase.search.library import Library
from scholarbase.updates.job import update
from tests.ingest.contents import rejects
from tests.ingest.sources.test_openalex import work
from tests.updates.test_job import assert_same

RULES = IngestRules(keep="title")


def arxiv(arxiv_id: str, title: str, authors: str = "Ann Bell, Carl Dee", **more: Any) -> dict[str, Any]:
    return {
        "id": arxiv_id,
        "title": title,
        "authors": authors,
        "categories": "cs.DS",
        "abstract": "A text.",
    } | more


def s2(corpus_id: int, title: str, author: str = "A. Bell", **external_ids: str) -> dict[str, Any]:
    names = [{"authorId": None, "name": author}] if author else []
    return {"corpusid": corpus_id, "externalids": external_ids, "title": title, "authors": names}


def openalex(number: int, title: str, author: str, arxiv_id: str) -> dict[str, Any]:
    names = [{"author": {"id": None, "display_name": author}, "raw_author_name": author}]
    places = [{"landing_page_url": f"https://arxiv.org/abs/{arxiv_id}"}]
    return work(number, title=title, display_name=title, authorships=names, locations=places)


def build(folder: Path, name: str = "library", **sources: Any) -> Manifest:
    """A library of lines of ``arxiv``, ``papers`` and ``works``, and texts of own files (``bib``, ``csv``, ...)."""
    folder.mkdir(exist_ok=True)
    paths = []
    for kind, content in sources.items():
        path = folder / (f"mine.{kind}" if isinstance(content, str) else f"{kind}.jsonl")
        path.write_text(
            content if isinstance(content, str) else "".join(f"{json.dumps(one)}\n" for one in content)
        )
        paths.append(path)
    return ingest(paths, folder / name, rules=RULES)


def papers(folder: Path, name: str = "library") -> dict[str, str]:
    """The titles of the papers by their ids."""
    with closing(sqlite3.connect(folder / name / "catalog.sqlite")) as db:
        rows = db.execute("SELECT title, arxiv_id, corpus_id, external_ids FROM papers").fetchall()
    found = {}
    for title, arxiv_id, corpus_id, others in rows:
        ids = {"arXiv": arxiv_id, "CorpusId": corpus_id} | json.loads(others or "{}")
        scheme = next(one for one in ("arXiv", "CorpusId", "Doc", "OpenAlex", "DOI") if ids.get(one))
        found[f"{scheme}:{ids[scheme]}"] = title
    return found


def titles(folder: Path, *ids: str, name: str = "library") -> list[str | None]:
    with Library.open(folder / name) as library:
        return [None if paper is None else paper.title for paper in library.papers(list(ids))]


def conflicts(folder: Path, name: str = "library") -> list[dict[str, Any]]:
    return [one for one in rejects(folder / name) if one["reason"] == "conflict"]


# -- own files -----------------------------------------------------------------------------------------------

ENTRY = "@{kind}{{k{n}, title={{{title}}}, author={{{author}}}, year={year}, {ids}}}\n"


def bib(*entries: tuple[str, str, str], kind: str = "article", year: int = 2010) -> str:
    return "".join(
        ENTRY.format(kind=kind, n=n, title=title, author=author, ids=ids, year=year)
        for n, (title, author, ids) in enumerate(entries)
    )


DOI = "doi={10.5772/3457}"


@pytest.mark.parametrize(
    ("count", "conflicting", "text"),
    [
        # a sample's arXiv id, and a book's DOI in its chapters
        (2, 1, bib(("Special points for zone integrations", "Monk, H", "eprint={1011.1669v3}"),
                   ("Nanocrystal libraries for devices", "Choi, J", "eprint={1011.1669v3}"))),
        (2, 1, bib(("Phonon confinement", "Begum, N", DOI), ("Raman spectroscopy of wires", "Zardo, I", DOI))),
        # chapters of one author, and forewords of several books
        (2, 1, bib(("Phonon confinement", "Begum, N", DOI), ("Raman waves", "Begum, N", DOI), kind="incollection")),
        (2, 1, bib(("Introduction", "Begum, N", DOI), ("Introduction", "Zardo, I", DOI), kind="incollection")),
        (2, 1, bib(("Growth", "Begum, N", DOI + ", pages={1--9}"), ("Decay", "Begum, N", DOI + ", pages={10--20}"))),
        # without authors the titles decide
        (2, 1, bib(("Phonon confinement", "", DOI), ("Raman spectroscopy of wires", "", DOI))),
        (1, 0, bib(("Phonon confinement in wires", "", DOI), ("Phonon confinement in a wire", "Begum, N", DOI))),
        # one paper: a subtitle, other spelling, another title by the same author, another order of authors
        (1, 0, bib(("Planning", "Ng, A", DOI), ("Planning: A survey of methods", "Ng, Andrew", DOI))),
        (1, 0, bib(("Color vision of bees", "Ng, A", DOI), ("Colour Vision of Bees", "Ng, Andrew", DOI))),
        (1, 0, bib(("Learning to plan", "Ng, A", DOI), ("Deep planners for robots", "A. Ng", DOI))),
        (1, 0, bib(("A study of strings", "Ng, A and Oe, B", DOI), ("Strings, studied", "Oe, B and Ng, A", DOI))),
        (1, 0, bib(("Fields of bees", "M{\\\"u}ller, A", DOI), ("On apian fields", "Mueller, Anna", DOI))),
        # a long title names one work, whoever its authors are
        (1, 0, bib(("A long title of one work", "Ng, A", DOI), ("A long title of one work", "Author, Unknown", DOI))),
        # two of three entries are of one paper: nobody confirms whose the id is
        (2, 1, bib(("Phonon confinement", "Begum, N", DOI), ("Phonon confinement", "Begum, Nora", DOI),
                   ("Raman spectroscopy of wires", "Zardo, I", DOI))),
        # each id is judged by itself
        (2, 1, bib(("Phonon confinement", "Begum, N", DOI + ", pmid={7}"), ("Raman spectra", "Zardo, I", "pmid={7}"))),
    ],
)  # fmt: skip
def test_own_entries_with_one_id(count: int, conflicting: int, text: str, tmp_path: Path) -> None:
    manifest = build(tmp_path, bib=text)
    assert (manifest.counts["papers"], manifest.counts["conflicts"]) == (count, conflicting)
    assert len(conflicts(tmp_path)) == conflicting
    assert not manifest.rejects


def test_a_conflict_is_named_with_its_file_line_id_and_titles(tmp_path: Path) -> None:
    build(tmp_path, bib="\n\n" + bib(("First of two", "Ng, A", DOI), ("Another work", "Oe, B", DOI)))
    [conflict] = conflicts(tmp_path)
    assert (conflict["file"], conflict["line"]) in [("mine.bib", 3), ("mine.bib", 4)]
    assert all(text in conflict["detail"] for text in ("DOI:10.5772/3457", "First of two", "Another work"))
    assert titles(tmp_path, "DOI:10.5772/3457") == [None]


@pytest.mark.parametrize("ids", ["eprint={2101.00001}", "doi={10.1000/real}"])
def test_a_better_source_keeps_the_id_and_the_entries_that_agree_join(tmp_path: Path, ids: str) -> None:
    text = bib(
        ("The real paper about trees", "Bell, Ann", ids),
        ("Another paper about stones", "Oe, B", ids),
        ("A third one on rivers", "Pe, C", ids),
    )
    real = arxiv("2101.00001", "The real paper about trees", doi="10.1000/real")
    manifest = build(tmp_path, arxiv=[real], bib=text)
    assert (manifest.counts["papers"], manifest.counts["own_joined"], manifest.counts["conflicts"]) == (
        3,
        1,
        1,
    )
    assert titles(tmp_path, "arXiv:2101.00001", "DOI:10.1000/real") == ["The real paper about trees"] * 2
    others = [name for name in papers(tmp_path) if name != "arXiv:2101.00001"]
    assert [name.split(":")[0] for name in others] == ["Doc", "Doc"]


def test_an_entry_that_loses_an_id_keeps_its_others(tmp_path: Path) -> None:
    text = bib(("Stones and rivers", "Oe, B", "doi={10.1000/stones}, eprint={2101.00001}"))
    build(tmp_path, arxiv=[arxiv("2101.00001", "The real paper about trees")], bib=text)
    assert papers(tmp_path).keys() == {"arXiv:2101.00001", "DOI:10.1000/stones"}
    with Library.open(tmp_path / "library") as library:
        paper = library.paper("DOI:10.1000/stones")
        assert paper.url == "https://doi.org/10.1000/stones"
        assert "arXiv" not in paper.external_ids


def test_an_id_without_its_paper_is_that_of_an_entry_without_ids(tmp_path: Path) -> None:
    """So that the same entry elsewhere, without the wrong id, is the same paper."""
    entries = ("Phonon confinement", "Begum, N", DOI), ("Raman spectroscopy of wires", "Zardo, I", DOI)
    build(tmp_path / "one", bib=bib(*entries))
    build(tmp_path / "two", bib=bib(*((title, author, "note={x}") for title, author, _ in entries)))
    assert papers(tmp_path / "one") == papers(tmp_path / "two")


# -- Semantic Scholar, arXiv, OpenAlex -----------------------------------------------------------------------

REAL = arxiv("2101.00001", "Counting the trees of a forest")


NUMBERS = [f"2101.{number:05d}" for number in range(10)]


def test_records_of_one_paper_join_and_arxiv_keeps_its_id_from_others(tmp_path: Path) -> None:
    same = [
        ("Counting the trees of a forest", "A. Bell"),
        ("Counting the Trees of a Forest.", ""),
        ("Counting trees of forests", "A. Bell"),
        ("Counting the trees of a forest: theory and practice", "Somebody Else"),
        ("Enumeration in woods", "Ann Bell"),
        ("Enumeration in woods", "Carl Dee"),
        ("Counting the trees of a forest", "Somebody Else"),
    ]
    others = [
        ("The price of tea in China", "Somebody Else"),
        ("The price of tea in China", ""),
        ("Trees", "B. Else"),
    ]
    records = [
        s2(number, title, author, ArXiv=NUMBERS[number - 1], DOI=f"10.1000/{number}")
        for number, (title, author) in enumerate([*same, *others], 1)
    ]
    counts = build(tmp_path, arxiv=[REAL | {"id": number} for number in NUMBERS], papers=records).counts
    assert (counts["papers"], counts["arxiv_joined"], counts["conflicts"]) == (13, 7, 3)
    titles_of = [title for title, _ in same] + [REAL["title"]] * 3
    assert papers(tmp_path) == {
        **{f"arXiv:{number}": title for number, title in zip(NUMBERS, titles_of, strict=True)},
        **{f"CorpusId:{number}": title for number, (title, _) in enumerate(others, 8)},
    }
    assert titles(tmp_path, *(f"DOI:10.1000/{number}" for number in range(8, 11))) == [
        title for title, _ in others
    ]
    assert {(one["file"], one["line"]) for one in conflicts(tmp_path)} == {
        ("arxiv.jsonl", line) for line in (8, 9, 10)
    }


def test_the_record_that_arxiv_confirms_keeps_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Semantic Scholar has the id first with another paper, and two records of each. The conflict is counted once."""
    monkeypatch.setattr(merging, "GROUPED", 1)
    records = [
        s2(7, "The price of tea", "B. Else", ArXiv="2101.00001"),
        s2(7, "Tea", "B. Else", ArXiv="2101.00001"),
        s2(8, "Trees counted", ArXiv="2101.00001"),
        s2(8, "Trees", ArXiv="2101.00001"),
    ]
    manifest = build(tmp_path, arxiv=[REAL], papers=records)
    counts = manifest.counts
    assert (counts["papers"], counts["arxiv_joined"], counts["arxiv_ids_repeated"]) == (2, 1, 0)
    assert counts["conflicts"] == len(conflicts(tmp_path)) == 1
    assert titles(tmp_path, "CorpusId:7", "CorpusId:8") == ["The price of tea", "Trees counted"]
    assert titles(tmp_path, "arXiv:2101.00001") == ["Trees counted"]


def test_a_wrong_location_of_a_work_is_no_join(tmp_path: Path) -> None:
    wrong = openalex(3, "A review of tea", "Bo Else", "2101.00001")
    right = openalex(4, "Counting the trees of a forest", "Ann Bell", "2101.00001")
    manifest = build(tmp_path, arxiv=[REAL], works=[wrong, right])
    assert (manifest.counts["papers"], manifest.counts["openalex_joined"]) == (2, 1)
    assert titles(tmp_path, "OpenAlex:W3", "OpenAlex:W4") == ["A review of tea", REAL["title"]]


def test_all_dois_of_a_record_name_its_paper_and_join_it(tmp_path: Path) -> None:
    record = REAL | {"doi": "10.1145/2925416 10.1109/CCC.2012.36"}
    text = bib(("Counting the trees of a forest", "Bell, Ann", "doi={https://doi.org/10.1109/ccc.2012.36}"))
    manifest = build(tmp_path, arxiv=[record], bib=text)
    assert (manifest.counts["papers"], manifest.counts["own_joined"]) == (1, 1)
    names = ("10.1145/2925416", "10.1109/ccc.2012.36", record["doi"], "https://doi.acm.org/10.1145/2925416")
    assert titles(tmp_path, *names) == [REAL["title"]] * 4


def test_requests_take_the_ids_that_records_have(tmp_path: Path) -> None:
    cases = [
        ("10.1145/2925416 10.1109/CCC.2012.36", ("10.1145/2925416", "10.1109/CCC.2012.36")),
        ("10.1016/j.dam.2012.12.006.", ("10.1016/j.dam.2012.12.006", "10.1016/j.dam.2012.12.006.")),
        ("doi.org/10.1186/s12874-018-0541-7", ("10.1186/s12874-018-0541-7", "doi.org/10.1186/s12874-018-0541-7")),
        ("10.1000/x%3Cy%3E.2", ("10.1000/x<y>.2", "10.1000/x%3Cy%3E.2", "info:doi/10.1000/x%3Cy%3E.2")),
    ]  # fmt: skip
    build(tmp_path, arxiv=[REAL | {"id": NUMBERS[n], "doi": stored} for n, (stored, _) in enumerate(cases)])
    with Library.open(tmp_path / "library") as library:
        for number, (_, names) in zip(NUMBERS, cases, strict=False):
            for name in names:
                assert library.paper(name).id == f"arXiv:{number}", name
                bibtex = f"@article{{a, title={{{REAL['title']}}}, author={{Bell, Ann}}, doi={{{name}}}}}"
                for reference in (bibtex, name):
                    [checked] = library.check_references(reference).results
                    assert checked.status == "held", reference
                    assert getattr(checked.paper, "id", None) == f"arXiv:{number}"


# -- updates -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_updates_change_who_has_an_id(tmp_path: Path) -> None:
    """A record that is corrected joins its paper, and back."""
    wrong, right = (
        s2(7, "The price of tea", "B. Else", ArXiv="2101.00001"),
        s2(7, REAL["title"], ArXiv="2101.00001"),
    )
    own = bib(
        ("A third one on rivers", "Pe, C", "eprint={2101.00001}"), ("Stones", "Oe, B", "eprint={2101.00001}")
    )
    for name, record, count in (("wrong", wrong, 2), ("right", right, 1)):
        manifest = build(tmp_path / name, arxiv=[REAL], papers=[record], bib=own)
        assert manifest.counts["papers"] == 2 + count
    for old, new in (("wrong", "right"), ("right", "wrong")):
        change = tmp_path / new / "papers.jsonl"
        manifest = update(tmp_path / old / "library", [change], tmp_path / f"to-{new}")
        assert manifest.counts["conflicts"] == (2 if new == "wrong" else 1)
        assert_same(tmp_path / f"to-{new}", tmp_path / new / "library")


def test_what_follows_from_a_removed_id_is_removed() -> None:
    record = PaperRecord(
        "T", arxiv_id="2101.00001", external_ids={"DOI": "10.48550/arxiv.2101.00001", "PMID": "3"},
        further_dois=["10.1000/b"], details={"is_open_access": True}, url="https://arxiv.org/abs/2101.00001",
    )  # fmt: skip
    remove_id(record, Identifier("arXiv", "2101.00001"))
    ids = {"PMID": "3", "DOI": "10.1000/b"}
    assert record == PaperRecord("T", external_ids=ids, url="https://doi.org/10.1000/b")


def test_many_entries_with_one_id_are_compared_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def same(one: PaperRecord, other: PaperRecord) -> bool:
        nonlocal calls
        calls += 1
        return abs(int(one.title) - int(other.title)) == 1

    monkeypatch.setattr(claims, "is_same_paper", same)
    rows = [("f", json.dumps({"title": str(number)})) for number in range(2_000)]
    assert claims._different(rows[:10]) is None
    assert claims._different(rows) is not None
    assert calls < 50_000
