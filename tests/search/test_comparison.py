"""A reference and a paper compared: titles, people, years and venues."""

import pytest

from scholarbase.bibliographies import Reference
from scholarbase.indexes.agreement import fold, relation_of
from scholarbase.models.papers import Author, Paper
from scholarbase.search.comparison import compare, people_of
from tests.tables import cases


def paper(*authors: str, title: str = "A theory of strings and fields", year: int = 2000) -> Paper:
    return Paper(
        "arXiv:1", title=title, authors=tuple(map(Author, authors)), year=year, venue="Nuclear Physics B"
    )


def test_how_two_titles_are_related() -> None:
    for written, title, relation in cases("references", "relation"):
        assert relation_of(written, title)[0] == relation, title


@pytest.mark.parametrize(
    ("names", "agreed"),
    [
        (("Müller, K.", "Sánchez, J."), 2),
        (("K. Mueller", "J Sanchez"), 2),
        (("K. Mller", "A. Other"), 1),
        (("Smith, K.", "Jones, J."), 0),
    ],
)
def test_authors_agree_by_their_surnames(names: tuple[str, ...], agreed: int) -> None:
    reference = Reference("", 1, title="A theory of strings and fields", authors=names, year=2000)
    one = compare(reference, 1, paper('Klaus M\\"uller', "José Sánchez"))
    assert (one.agreed, one.stated) == (agreed, 2)
    assert one.is_same is (agreed > 0)
    assert ("authors" in {difference.field for difference in one.differences}) is (agreed < 2)


def test_fewer_authors_are_a_difference_unless_others_are_named() -> None:
    for more, fields in ((False, {"authors"}), (True, set())):
        reference = Reference(
            "", 1, title="A theory of strings and fields", authors=("A. Gross",), more_authors=more
        )
        one = compare(reference, 1, paper("A. Gross", "B. Taylor"))
        assert {difference.field for difference in one.differences} == fields
        assert one.is_same


def test_years_and_venues() -> None:
    reference = Reference(
        "", 1, title="A theory of strings and fields", authors=("A. Gross",), year=2009, venue="Nucl. Phys."
    )
    one = compare(reference, 1, paper("A. Gross"))
    assert (one.gap, [d.field for d in one.differences], one.is_same) == (9, ["year"], True)
    other = Reference("", 1, title="A theory of strings and fields", authors=("A. Gross",), venue="ICML")
    assert [d.field for d in compare(other, 1, paper("A. Gross")).differences] == ["venue"]
    nobody = Reference("", 1, title="Strings and fields", authors=("A. Gross",), year=2009)
    assert not compare(nobody, 1, paper(title="Strings and fields")).is_same, "three words, without authors"


def test_names_in_two_parts() -> None:
    assert people_of(paper("Barger", "V.", "Pakvasa", "S.")) == ["Barger, V.", "Pakvasa, S."]
    assert people_of(paper("V. Barger", "S. Pakvasa")) == ["V. Barger", "S. Pakvasa"]
    assert fold('M\\"uller') == fold("Müller") == fold("Mueller") == "muller"
