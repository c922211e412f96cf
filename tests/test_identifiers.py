"""Identifiers. The ids are those of real papers, looked up at the sites that assign them."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scholarbase import identifiers
from scholarbase.bibliographies.ids import field_ids
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import Identifier, dois, parse
from tests.tables import rows

SHA = "649def34f8be52c8b66281af98ae884c09aef38b"


@pytest.mark.parametrize(("text", "canonical"), rows("ids"))
def test_every_form_is_parsed(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(("text", "dois"), rows("ids-dois"))
def test_all_dois_of_a_field(text: str, dois: list[str]) -> None:
    assert identifiers.dois(text) == dois
    for doi in dois:
        assert identifiers.dois(doi) == [doi]
        assert str(parse(doi)) == f"DOI:{doi}"
    if (
        dois
        and " and " not in text
        and text.isprintable()
        and ". " not in text
        and "/ " not in text
        and "- " not in text
    ):
        assert str(parse(text)) == f"DOI:{dois[0]}", "a request is read as a record is"


def test_fields_of_ids() -> None:
    for scheme, value, ids in (
        ("DOI", "10.1145/2925416 10.1109/CCC.2012.36", ["DOI:10.1145/2925416", "DOI:10.1109/ccc.2012.36"]),
        ("DOI", "10.48550/arXiv.2309.06180", ["arXiv:2309.06180"]),
        ("DOI", "arXiv:2309.06180", ["arXiv:2309.06180"]),
        ("DOI", "none yet", []),
        ("arXiv", "1011.1669v3", ["arXiv:1011.1669"]),
        ("arXiv", "arXiv:1011.1669v3 [cond-mat]", ["arXiv:1011.1669"]),
        ("arXiv", "https://arxiv.org/pdf/1011.1669.pdf", ["arXiv:1011.1669"]),
        ("arXiv", 806.1945, ["arXiv:0806.1945"]),
        ("PMID", "19872477", ["PMID:19872477"]),
        ("PMID", 19872477, ["PMID:19872477"]),
        ("PMID", "PMID: 19872477", ["PMID:19872477"]),
        ("PMID", "https://pubmed.ncbi.nlm.nih.gov/19872477/", ["PMID:19872477"]),
        ("PMID", "PMC2323736", ["PMCID:2323736"]),
        ("PMCID", "2323736", ["PMCID:2323736"]),
        ("PMCID", "PMCID: PMC2323736", ["PMCID:2323736"]),
        ("PMID", "unknown", []),
        ("PMID", None, []),
    ):
        assert list(map(str, field_ids(scheme, value))) == ids


def test_invalid_ids_are_named_in_the_message() -> None:
    for text, part in rows("ids-invalid"):
        with pytest.raises(InvalidRequest) as caught:
            parse(text)
        assert part in str(caught.value)
        assert str(caught.value).endswith((".", "PubMed."))


def test_other_types_are_invalid() -> None:
    with pytest.raises(InvalidRequest, match="must be a string"):
        parse(123)  # type: ignore[arg-type]


def test_prefixed_and_old_arxiv_ids_resolve() -> None:
    """The published server finds none of these."""
    assert {parse(t) for t in ("arXiv:hep-th/9901001", "ARXIV:hep-th/9901001v1", "hep-th/9901001")} == {
        Identifier("arXiv", "hep-th/9901001")
    }


PREFIXES = (
    "", "arXiv:", "CorpusId:", "DOI:", "ACL:", "PMID:", "PMCID:", "PMC", "MAG:", "DBLP:", "sha:", "URL:",
    "https://", "http://arxiv.org/abs/", "https://doi.org/10.1000/", "https://doi.org/", "doi.org/10.1000/",
    "https://api.semanticscholar.org/graph/v1/paper/", "https://www.semanticscholar.org/paper/",
    "https://aclanthology.org/", "https://pubmed.ncbi.nlm.nih.gov/", "https://dblp.org/rec/", "URL:https://",
    "10.1000/", "10.48550/arXiv.", "hep-th/", "2309.", "DOI:https://doi.org/",
)  # fmt: skip
TAILS = st.text(max_size=40) | st.text(string.ascii_letters + string.digits + "./:-_?#%@ ()", max_size=40)


@given(st.sampled_from(PREFIXES), TAILS)
@example("https://", "a.b/x/#?")
@example("https://doi.org/10.1000/", "%20")
@example("https://doi.org/10.1000/", "%e2%84%aa")
@example("https://dblp.org/rec/", "a/b%0a")
@example("https://www.", "arxiv.org/abs/..")
def test_any_text_is_parsed_or_rejected_and_parsing_is_stable(prefix: str, tail: str) -> None:
    try:
        identifier = parse(prefix + tail)
    except InvalidRequest:
        return
    assert parse(str(identifier)) == identifier
    assert str(identifier).isprintable()


@given(st.text())
def test_the_functions_of_one_scheme_never_raise(text: str) -> None:
    for read in (
        identifiers.arxiv_id, identifiers.arxiv_id_from_number, identifiers.doi, identifiers.sha,
        identifiers.number, identifiers.pmcid, identifiers.acl_id, identifiers.dblp_key,
    ):  # fmt: skip
        value = read(text)
        assert value is None or value


def test_an_arxiv_id_stored_as_a_number_is_repaired() -> None:
    for number, arxiv_id in (
        # Ids in a copy of the arXiv snapshot, and the papers' true ids by their titles on arXiv.
        ("804.3575", "0804.3575"),
        ("903.451", "0903.4510"),
        ("1607.0253300000002", "1607.02533"),
        ("1811.0126699999998", "1811.01267"),
        ("1610.0582", "1610.05820"),
        ("1406.5", "1406.5000"),
        ("1313.5", None),
        ("1607.025338", None),
        ("17.5", None),
        ("hep-th/9901001", None),
    ):
        assert identifiers.arxiv_id_from_number(number) == arxiv_id


def test_ids_have_five_digits_from_january_2015_on() -> None:
    """https://info.arxiv.org/help/arxiv_identifier.html."""
    assert identifiers.arxiv_id_from_number("1412.123") == "1412.1230"
    assert identifiers.arxiv_id_from_number("1501.1234") == "1501.12340"


@given(st.integers(7, 30), st.integers(1, 12), st.integers(1, 99999))
def test_every_arxiv_id_can_be_restored_from_a_number(year: int, month: int, serial: int) -> None:
    if year == 7 and month < 4:
        return
    arxiv_id = f"{year:02}{month:02}.{serial % 10000:04}" if year < 15 else f"{year}{month:02}.{serial:05}"
    if float(arxiv_id).is_integer():
        return
    assert identifiers.arxiv_id(arxiv_id) == arxiv_id
    assert identifiers.arxiv_id_from_number(repr(float(arxiv_id))) == arxiv_id


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("arXiv:806.1945", "arXiv:0806.1945"),
        ("806.1945", "arXiv:0806.1945"),
        ("1910.0773800000002", "arXiv:1910.07738"),
        ("https://arxiv.org/abs/1910.0773800000002", "arXiv:1910.07738"),
    ],
)
def test_a_damaged_arxiv_id_of_a_request_is_repaired_if_only_one_id_can_be_meant(
    text: str, canonical: str
) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize("text", ["arXiv:1910.0773", "1910.0773"])
def test_an_arxiv_id_that_lacks_a_digit_somewhere_is_not_guessed(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Perhaps arXiv:1910\.07730 is meant\."):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "https://academic.oup.com/x/article/doi/10.1093/bioinformatics/btaa1/5678",
            "10.1093/bioinformatics/btaa1",
        ),
        ("https://www.biorxiv.org/content/10.1101/098765.full.pdf", "10.1101/098765"),
        ("10.1000/x</p>", "10.1000/x"),
        (r"10.1000\/x", "10.1000/x"),
    ],
)
def test_dois_with_what_links_and_markup_add(text: str, expected: str) -> None:
    assert dois(text) == [expected]
