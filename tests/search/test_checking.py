"""Checking references, on the sample's own papers: as they are, altered, and invented."""

from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.ingest.job import ingest
from scholarbase.models.responses import CheckedReference
from scholarbase.models.status import is_withdrawn
from scholarbase.search.library import Library
from tests.libraries import opened_library
from tests.tables import cases

GROSS = "arXiv:hep-th/9301068"


def check(library: Library, text: str, **options: Any) -> CheckedReference:
    [one] = library.check_references(text, **options).results
    assert isinstance(one, CheckedReference)
    return one


def test_a_paper_of_the_library_is_held_in_any_style(sample: Library) -> None:
    for [text] in cases("references", "held"):
        one = check(sample, text)
        assert (one.status, one.differences) == ("held", ()), text
        assert one.paper is not None
        assert one.paper.id == GROSS


def test_abstracts_of_withdrawn_papers() -> None:
    for abstract, is_so in cases("references", "withdrawn"):
        assert is_withdrawn(abstract) is is_so, abstract


def test_another_year_and_another_author_are_differences(sample: Library) -> None:
    one = check(sample, "D. J. Gross and W. Smith. Two dimensional QCD is a string theory. 1995.")
    assert (one.status, one.paper and one.paper.id) == ("held", GROSS)
    assert {d.field: d.library for d in one.differences} == {
        "authors": "David J. Gross; Washington Taylor",
        "year": "1993",
    }
    assert one.reason.endswith("different: authors and year.")


def test_two_papers_with_one_title_are_told_apart_by_their_authors(sample: Library) -> None:
    title = "Two dimensional QCD is a string theory"
    for authors, year, paper in (
        ("D. Gross and W. Taylor", 1993, GROSS),
        ('S. K{\\"o}ster', 1994, "arXiv:hep-th/9408140"),
    ):
        entry = f"@misc{{k, author={{{authors}}}, title={{{title}}}, year={year}}}"
        for text in (f"{authors}. {title}. {year}", entry):
            one = check(sample, text)
            assert (one.status, one.paper and one.paper.id, one.differences) == ("held", paper, ())


def test_two_papers_with_one_title_are_told_apart_by_their_years(sample: Library) -> None:
    """The paper with the nearer year was held, though its year was another one too."""
    title = "Two dimensional QCD is a string theory"
    papers = [GROSS, "arXiv:hep-th/9408140"]
    for year, held in ((1993, GROSS), (1994, papers[1]), (1992, None), (1995, None), (1997, None)):
        for text in (f"{title}. {year}", f"@article{{a, title={{{title}}}, year={year}}}"):
            one = check(sample, text)
            assert (one.status, one.paper and one.paper.id) == ("held" if held else "near", held), text
            assert sorted(match.paper.id for match in one.matches) == ([] if held else papers)


def test_the_title_with_wholly_other_authors_is_near(sample: Library) -> None:
    for text in (
        "J. Smith and A. Jones. Two dimensional QCD is a string theory. 1993.",
        "@article{x, author={Smith, J. and Jones, A.}, title={Two dimensional QCD is a string theory}, year=1993}",
    ):
        one = check(sample, text)
        assert (one.status, one.paper) == ("near", None)
        assert "none of its authors" in one.reason
        assert one.matches[0].paper.id == GROSS


def test_an_id_beside_the_title_of_another_paper_is_near(sample: Library) -> None:
    one = check(
        sample, "J. Minahan, Summing over inequivalent maps in the string theory, arXiv:hep-th/9301068"
    )
    assert one.status == "near"
    assert "not the title of the reference" in one.reason
    other = check(
        sample,
        "D. Gross, W. Taylor, Two dimensional QCD is a string theory, arXiv:9913.99999, arXiv:2001.00001",
    )
    assert other.status == "near"
    assert "arXiv:2001.00001 is not in this snapshot" in other.reason


def test_a_wrong_id_beside_the_right_one_is_named(sample: Library) -> None:
    """Only the id that names a paper was compared, and values that are no ids were left out."""
    entry = "@misc{{k, title={{Two Dimensional QCD is a String Theory}}, author={{Gross and others}}, {}}}"
    for ids, different in (
        ("doi={10.1000/xyz}, eprint={hep-th/9301068}", ["DOI:10.1000/xyz"]),
        ("doi={10.1000/xyz}", ["DOI:10.1000/xyz"]),
        ("eprint={9999.99999}, doi={not a doi}", []),
        ("eprint={j.ctt1}, eprinttype={jstor}", []),
    ):
        one = check(sample, entry.format(ids))
        assert (one.status, [d.reference for d in one.differences if d.field == "id"]) == ("held", different)
        assert ("Not a valid id: doi = not a doi, eprint = 9999.99999." in one.reason) == ("not" in ids)
    ris = "TY  - JOUR\nTI  - {0}\nAU  - Gross, D.\nDO  - not a doi\nDO  - https://jstor.org/1\nER  - "
    csl = '[{{"title": "{0}", "author": [{{"family": "Gross"}}], "DOI": "not a doi", "arXiv": "9999.99999"}}]'
    for form, named in ((ris, "DO = not a doi"), (csl, "DOI = not a doi, arXiv = 9999.99999")):
        one = check(sample, form.format("Two Dimensional QCD is a String Theory"))
        assert one.status == "held"
        assert one.reason.endswith(f" Not a valid id: {named}.")


def test_first_authors_stand_for_those_who_follow(tmp_path: Path) -> None:
    """Gross et al. was one name in BibTeX, and in a line one author of four was not enough."""
    title = "Deep learning for finding cars"
    entry = f"@misc{{{{k, title={{{{{title}}}}}, author={{{{{{}}}}}}, eprint={{{{2001.00001}}}}, abstract={{{{A}}}}}}}}"
    people = ("Bell, Ann", "Dee, Carl", "Eves, Finn", "Gold, Hal")
    (tmp_path / "own.bib").write_text(entry.format(" and ".join(people)))
    ingest([tmp_path / "own.bib"], tmp_path / "library")
    named = f'arXiv:2001.00001 names "{title}", but the reference names none of its authors.'
    with Library.open(tmp_path / "library") as library:
        for text, status, fields in (
            (entry.format("Bell et al."), "held", []),
            (entry.format("Bell"), "held", ["authors"]),
            (f"Bell. {title}. 2017", "held", ["authors"]),
            (f"Bell, A., Dee, C. {title}. 2017", "held", ["authors"]),
            (f"Dee. {title}. 2017", "near", []),
            (f"Bell, A., Smith, J. {title}. 2017", "near", []),
            (entry.format("Smith, J."), "near", []),
        ):
            one = check(library, text)
            assert (one.status, [d.field for d in one.differences]) == (status, fields), text
    assert one.reason == named


def test_what_the_snapshot_lacks_is_not_said_not_to_exist(sample: Library) -> None:
    physics = check(sample, "J. P. Perdew, K. Burke, and M. Ernzerhof, Phys. Rev. Lett. 77, 3865 (1996)")
    assert (physics.status, physics.reason) == ("not_in_snapshot", "No title or id found in the reference.")
    unknown = check(sample, "A. Nobody. The invention of wholly imaginary results in cooking. 2020.")
    assert unknown.status == "not_in_snapshot"
    assert "exist" not in unknown.reason
    assert (
        check(sample, "arXiv:2001.00001").reason == "No paper of this snapshot has the id arXiv:2001.00001."
    )


def test_a_broken_entry_is_unreadable_in_its_place(sample: Library) -> None:
    text = "@misc{a, title={Broken\n\n@misc{b, eprint={hep-th/9301068}}\n@misc{empty}\n"
    response = sample.check_references(text)
    results = [one for one in response.results if isinstance(one, CheckedReference)]
    assert [(one.key, one.status) for one in results] == [
        ("a", "unreadable"),
        ("b", "held"),
        ("empty", "unreadable"),
    ]
    assert response.counts == {
        "held": 1,
        "near": 0,
        "withdrawn": 0,
        "retracted": 0,
        "not_in_snapshot": 0,
        "unreadable": 2,
    }


def test_later_papers_are_not_found_as_of_a_date(sample: Library) -> None:
    assert check(sample, "arXiv:hep-th/9301068", as_of="1992-12").status == "not_in_snapshot"
    line = "D. J. Gross and W. Taylor. Two dimensional QCD is a string theory. 1993."
    assert check(sample, line, as_of="1992-12").status == "not_in_snapshot"
    assert check(sample, line, as_of="1994-12").status == "held"


def test_a_long_bibliography_is_checked_in_parts(sample: Library) -> None:
    text = "arXiv:2001.00001\n" * 1001 + "arXiv:hep-th/9301068\n"
    response = sample.check_references(text, fields=["id"])
    last = response.results[-1]
    assert isinstance(last, CheckedReference)
    assert (len(response.results), last.position, last.line, last.status) == (1002, 1002, 1002, "held")
    with pytest.raises(InvalidRequest, match="references is empty"):
        sample.check_references(" ")


@pytest.mark.slow
def test_papers_with_more_words_of_a_line_do_not_hide_the_one_meant(tmp_path: Path) -> None:
    """Only the 20 papers with most of a line's words were compared, initials and the journal's name among them."""
    title = "Parameterized Regular Expressions and their Languages"
    crowd = (
        "Parameterized regular expressions, regular languages. Journal of Automata P L J, vol. 7, pp. 461."
    )
    people = [{"authorId": None, "name": name} for name in ("Pablo Barceló", "Leonid Libkin", "Juan Reutter")]
    rows: list[dict[str, Any]] = [
        {"title": f"Automata {number}", "abstract": crowd, "authors": []} for number in range(30)
    ]
    rows.append({"title": title, "abstract": "We study words.", "authors": people})
    ids = [{"corpusid": number, "externalids": {"ArXiv": f"2301.{number:05}"}} for number in range(1, 32)]
    papers = [{**one, **row, "year": 2011} for one, row in zip(ids, rows, strict=True)]
    with opened_library(tmp_path, papers) as library:
        swapped = (
            'P. Barceló, L. Libkin and J. Reutter, "Expressions Regular Parameterized and their Languages," '
            "Journal of Automata, vol. 7, 2011, pp. 461."
        )
        one = check(library, swapped)
        assert (one.status, one.paper and one.paper.title) == ("held", title)
        assert [difference.field for difference in one.differences] == ["title"]


def test_an_id_of_another_paper_beside_a_title_and_an_author(tmp_path: Path) -> None:
    """The id's paper has a similar title and another author: papers with the title come first, two at most."""
    entry = (
        "@misc{{k, title={{Deep learning for finding {}}}, author={{{}}}, eprint={{{}}}, abstract={{A.}}}}\n"
    )
    held = ("cars", "Dee, Carl", "2001.00002")
    others = [("cars", "Fox, Eve", "2001.00003"), ("cars", "Hall, Guy", "2001.00004")]
    papers = [("stars", "Bell, Ann", "2001.00001"), held, *others]
    (tmp_path / "own.bib").write_text("".join(entry.format(*paper) for paper in papers))
    ingest([tmp_path / "own.bib"], tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        one = check(library, entry.format(*held[:2], "2001.00001"))
    assert one.status == "near"
    ids = [match.paper.id for match in one.matches]
    assert (len(ids), ids[0], ids[-1]) == (3, "arXiv:2001.00002", "arXiv:2001.00001")
    assert "arXiv:2001.00002 has that title" in one.reason


def test_similar_titles_name_the_missing_id_and_short_ones_of_others_are_not_near(tmp_path: Path) -> None:
    """The id that no paper has was left out of a near verdict, and "Adams" was near "Adam"."""
    entry = "@misc{{k, title={{{}}}, author={{{}}}, abstract={{A.}}}}\n"
    (tmp_path / "own.bib").write_text(
        entry.format("Adams", "Bell, Ann") + entry.format("Deep entity linking of documents", "Dee, Carl")
    )
    ingest([tmp_path / "own.bib"], tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        assert check(library, entry.format("Adam", "Kingma, Diederik")).status == "not_in_snapshot"
        assert check(library, entry.format("Adam", "Bell, Ann")).status != "not_in_snapshot"
        near = check(
            library,
            "@misc{k, title={Deep entity links in document sets}, author={Roe, Jo}, eprint={1312.5602}}",
        )
    assert near.status == "near"
    assert near.reason.endswith("No paper of this snapshot has the id arXiv:1312.5602.")
