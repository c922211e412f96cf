"""The arXiv parser. Expected values are from the papers' pages at arxiv.org."""

from pathlib import Path

import orjson
import pytest

from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources import Dataset, arxiv
from scholarbase.ingest.sources.reading import PARSERS

LINES = (Path(__file__).parent / "data" / "arxiv.jsonl").read_bytes().splitlines()


def read(**changes: object) -> PaperRecord:
    record = PARSERS[Dataset.ARXIV](orjson.dumps({**orjson.loads(LINES[0]), **changes}))
    assert isinstance(record, PaperRecord), record
    return record


def test_reads_a_record() -> None:
    assert arxiv.parse_arxiv(LINES[0]) == PaperRecord(
        title="Calculation of prompt diphoton production cross sections at Tevatron and LHC energies",
        arxiv_id="0704.0001",
        external_ids={"DOI": "10.1103/physrevd.76.013009"},
        abstract="A fully differential calculation in perturbative quantum chromodynamics is presented for the "
        "production of massive photon pairs at hadron colliders.",
        authors=[
            ("C. Balázs", None),
            ("E. L. Berger", None),
            ("P. M. Nadolsky", None),
            ("C.-P. Yuan", None),
        ],
        year=2007,
        publication_date="2007-04-02",
        categories=["hep-ph"],
        details={
            "is_open_access": True,
            "journal": ["Phys.Rev.D76:013009,2007", None, None],
            "comment": "37 pages, 15 figures; published version",
            "versions": ["2007-04-02T19:18:42Z", "2007-07-24T20:10:27Z"],
            "update_date": "2008-11-26",
        },
        url="https://arxiv.org/abs/0704.0001",
    )
    second = arxiv.parse_arxiv(LINES[1])
    assert isinstance(second, PaperRecord)
    assert second.categories == ["math.CO", "cs.CG"]
    assert second.publication_date == "2007-03-31"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ileana Streinu and Louis Theran", ["Ileana Streinu", "Louis Theran"]),
        (r"C. Bal\'azs, E. L. Berger", ["C. Balázs", "E. L. Berger"]),
        ("A. Einstein (IAS, Princeton), B. Podolsky, and N. Rosen", ["A. Einstein", "B. Podolsky", "N. Rosen"]),
        ("J. Doe (1 and 2), R. Roe (2) ((1) Here, (2) There)", ["J. Doe", "R. Roe"]),
        ("Ferdinando Andrade, Anders Sandberg", ["Ferdinando Andrade", "Anders Sandberg"]),
        ("Sammy Davis, Jr., Robert Downey Jr., and J. Smith III",
         ["Sammy Davis Jr.", "Robert Downey Jr.", "J. Smith III"]),
        ("P. Erd{\\H o}s,\n  K. G\\\"odel and {\\O}. Ore", ["P. Erdős", "K. Gödel", "Ø. Ore"]),
        (r"Na\"{\i}ve \v{C}ech, \c{S}. \L{}uk, Stra\ss e, \AA ngstr\"om",
         ["Naïve Čech", "Ş. Łuk", "Straße", "Ångström"]),
        ("S. Weinberg, et al.", ["S. Weinberg"]),
        ("", []),
    ],
)  # fmt: skip
def test_splits_authors_that_are_not_parsed(text: str, names: list[str]) -> None:
    assert [name for name, _ in read(authors=text, authors_parsed=[]).authors] == names


def test_a_parsed_author_has_a_suffix_and_an_affiliation() -> None:
    record = read(
        authors_parsed=[
            ["King", "Martin Luther", "Jr.", "Boston University"],
            ["ATLAS", "", ""],
            ["", "", ""],
        ]
    )
    assert record.authors == [("Martin Luther King Jr.", None), ("ATLAS", None)]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([{"version": "v1", "created": "2007-04-02"}], ("2007-04-02", 2007)),
        ([{"version": "v1", "created": "Sat, 31 Mar 2007 02:26:18 GMT"}], ("2007-03-31", 2007)),
        ([{"version": "v1", "created": "Sat, 31 Feb 2007 02:26:18 GMT"}], (None, 2007)),
        ([{"version": "v1", "created": "sometime, then"}], (None, 2007)),
        ([{"version": "v1", "created": None}], (None, 2007)),
        ([], (None, 2007)),
        (None, (None, 2007)),
    ],
)
def test_the_date_is_that_of_the_first_version(versions: object, expected: tuple[str | None, int]) -> None:
    record = read(versions=versions)
    assert (record.publication_date, record.year) == expected


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        ("Mon, 2 Apr 2007 19:18:42 GMT", "2007-04-02T19:18:42Z"),
        ("Mon, 2 Apr 2007 19:18:42 UTC", "2007-04-02T19:18:42Z"),
        ("Mon, 2 Apr 2007 19:18:42 EST", "2007-04-02"),
        ("Mon, 2 Apr 2007 25:18:42 GMT", "2007-04-02"),
        ("Mon, 2 Apr 2007", "2007-04-02"),
        ("2007-04-02", "2007-04-02"),
        ("Mon, 31 Feb 2007 19:18:42 GMT", None),
        (None, None),
        (7, None),
    ],
)
def test_a_version_has_its_time_as_far_as_it_is_known(created: object, expected: str | None) -> None:
    versions = [{"created": "Sat, 31 Mar 2007 02:26:18 GMT"}, {"version": "v2", "created": created}]
    assert read(versions=versions).details["versions"] == ["2007-03-31T02:26:18Z", expected]


def test_details_that_are_missing_are_left_out() -> None:
    record = read(versions=[], comments=" ", **{"journal-ref": None, "update_date": "someday"})
    assert record.details == {"is_open_access": True}


def test_accents_in_a_comment_and_a_journal_are_letters() -> None:
    details = read(comments=r"Th\`ese, 12 pages", **{"journal-ref": r"Annales Poincar\'e 3"}).details
    assert (details["comment"], details["journal"][0]) == ("Thèse, 12 pages", "Annales Poincaré 3")


@pytest.mark.parametrize(
    ("stored", "arxiv_id", "year"),
    [
        ("hep-th/9901001", "hep-th/9901001", 1999),
        ("math.GT/0309136v2", "math/0309136", 2003),
        ("hep-th/9108001", "hep-th/9108001", 1991),
        ("806.1945", "0806.1945", 2008),
        ("1809.0495399999998", "1809.04954", 2018),
        (1610.0582, "1610.05820", 2016),
    ],
)
def test_without_a_date_the_year_comes_from_the_id(stored: object, arxiv_id: str, year: int) -> None:
    record = read(id=stored, versions=[])
    assert (record.arxiv_id, record.year) == (arxiv_id, year)
    assert record.url == f"https://arxiv.org/abs/{arxiv_id}"


@pytest.mark.parametrize(
    ("doi", "expected"),
    [
        ("10.1145/2488608.2488718; 10.1007/s00220-017-2880-3", {"DOI": "10.1145/2488608.2488718"}),
        ("10.5120/3344-4605 10.5120/3344-4605\n  10.5120/3344-4605", {"DOI": "10.5120/3344-4605"}),
        ("10.1515/gcc-2012-0001, may 2012", {"DOI": "10.1515/gcc-2012-0001"}),
        ("to appear", {}),
        (None, {}),
    ],
)
def test_the_first_of_several_dois_is_kept(doi: str | None, expected: dict[str, str]) -> None:
    assert read(doi=doi).external_ids == expected


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "no-id"),
        ({"id": "quant/ph"}, "bad-id"),
        ({"id": 7040001}, "bad-id"),
        ({"id": "1313.1234"}, "bad-id"),
        ({"title": ""}, "no-title"),
        ({"abstract": 5}, "bad-type"),
        ({"authors": ["A"], "authors_parsed": None}, "bad-type"),
        ({"authors_parsed": ["Balázs"]}, "bad-type"),
        ({"authors_parsed": [["Balázs", 1]]}, "bad-type"),
        ({"versions": "v1"}, "bad-type"),
        ({"versions": ["v1"]}, "bad-type"),
        ({"categories": ["hep-ph"]}, "bad-type"),
    ],
)
def test_a_bad_record_becomes_a_reject(changes: dict[str, object], reason: str) -> None:
    reject = arxiv.parse_arxiv(orjson.dumps({**orjson.loads(LINES[0]), **changes}))
    assert isinstance(reject, Reject)
    assert reject.reason == reason
    assert reject.detail.endswith(".")


@pytest.mark.parametrize(
    ("tex", "decoded"),
    [
        # From arXiv's records.
        ("Computing the Fr\\'echet Distance", "Computing the Fréchet Distance"),
        ("Ne\\v{s}et\\v{r}il, Erd\\H{o}s and Turan", "Nešetřil, Erdős and Turan"),
        ("the Poincar{\\'e} inequality", "the Poincaré inequality"),
        ("M\\\"untz-Sz\\'asz, 5 \\AA", "Müntz-Szász, 5 Å"),
        ("$\\'a$ and G\\\"odel $\\o$", "á and Gödel ø"),
        ("\\textit{x}, \\ldots {x} http://a.org/\\~user", "x, \u2026 x http://a.org/~user"),
    ],
)
def test_accents_of_tex_become_letters(tex: str, decoded: str) -> None:
    record = read(title=tex, abstract=tex)
    assert (record.title, record.abstract) == (decoded, decoded)


def test_missing_values_are_not_rejected() -> None:
    record = read(authors=None, authors_parsed=[], categories=None, abstract=None, doi=None)
    assert (record.authors, record.categories, record.abstract) == ([], [], None)
