"""The Semantic Scholar parsers, on the publisher's sample records and on faults of real ones."""

import gzip
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from scholarbase.ingest.records import (
    AuthorRecord,
    CitationRecord,
    PaperIdRecord,
    PaperRecord,
    Record,
    Reject,
    TldrRecord,
    VenueRecord,
)
from scholarbase.ingest.sources import PARSERS, Dataset, s2ag

DATA = Path(__file__).parent / "data" / "s2ag"


def sample(dataset: str) -> list[bytes]:
    with gzip.open(DATA / dataset / f"{dataset}-sample.jsonl.gz") as file:
        return file.readlines()


@pytest.mark.parametrize(
    "dataset", [d for d in PARSERS if d not in (Dataset.ARXIV, Dataset.BEIR, Dataset.OPENALEX)]
)
def test_every_record_of_the_publishers_sample_is_read(dataset: Dataset) -> None:
    lines = sample(dataset)
    assert len(lines) == (16 if dataset is Dataset.CITATIONS else 12)
    assert not [record for record in map(PARSERS[dataset], lines) if isinstance(record, Reject)]


def test_reads_a_paper() -> None:
    assert s2ag.parse_papers(sample("papers")[1]) == PaperRecord(
        title="BEQ volume 20 issue 4 Back matter",
        corpus_id=231810694,
        external_ids={"DOI": "10.1017/s1052150x00004760", "sha": "c2fa5635f5e5c0fcd99b91df72e7e4589aa8b34e"},
        authors=[("L. Hartman", "36722128")],
        year=2010,
        publication_date="2010-10-01",
        venue="Business Ethics Quarterly",
        details={
            "publication_types": ["Review"],
            "is_open_access": False,
            "journal": ["Business Ethics Quarterly", "20", "b1 - b5"],
        },
        citation_count=0,
        reference_count=0,
        url="https://www.semanticscholar.org/paper/c2fa5635f5e5c0fcd99b91df72e7e4589aa8b34e",
    )


def test_reads_the_other_datasets() -> None:
    assert s2ag.parse_authors(sample("authors")[8]) == AuthorRecord(
        "102908023", "Sung-A Jung", ["Sung A Jung", "Sung‐a Jung"], [], None, 8, 44, 3
    )
    assert s2ag.parse_paper_ids(sample("paper-ids")[4]) == PaperIdRecord(
        20127373, "53c776646495f70ff9d33f2c9b7ecf8c88788f34", True
    )
    assert s2ag.parse_tldrs(sample("tldrs")[6]) == TldrRecord(
        11977,
        "An overview of global trends in the deployment of medical imaging is presented and some of the key "
        "issues and challenges which are faced by developing countries in its implementation are highlighted.",
    )
    assert s2ag.parse_publication_venues(sample("publication-venues")[2]) == VenueRecord(
        "06f320aa-2ad9-4443-8211-bdd800e87d9f",
        "Japanese Journal of Sport Psychology",
        ["Jpn J Sport Psychol"],
        "journal",
        "0388-7014",
        "https://www.jstage.jst.go.jp/browse/jjspopsy",
    )
    assert s2ag.parse_citations(sample("citations")[1]) == CitationRecord(
        21057399,
        None,
        False,
        [
            "Schlaadt and Shannon argued that teachers, for the most part, are not prepared to teach about drugs [2]."
        ],
        ["background"],
    )


def paper(**changes: object) -> bytes:
    return orjson.dumps({**orjson.loads(sample("papers")[1]), **changes})


def read_paper(**changes: object) -> PaperRecord:
    record = s2ag.parse_papers(paper(**changes))
    assert isinstance(record, PaperRecord), record
    return record


def test_other_ids_are_canonical_and_invalid_ones_left_out() -> None:
    ids = {
        "ArXiv": "hep-th/9901001v2", "DOI": "10.18653/V1/N18-3011", "ACL": "N18-3011", "DBLP": "conf/naacl/A18",
        "MAG": "2799136532", "PubMed": "019872477", "PubMedCentral": "PMC2323736", "CorpusId": "19170988",
    }  # fmt: skip
    record = read_paper(externalids=ids, url="https://www.semanticscholar.org/p/19170988")
    assert record.arxiv_id == "hep-th/9901001"
    assert record.external_ids == {
        "DOI": "10.18653/v1/n18-3011", "ACL": "N18-3011", "DBLP": "conf/naacl/A18", "MAG": "2799136532",
        "PMID": "19872477", "PMCID": "2323736",
    }  # fmt: skip
    record = read_paper(externalids={"ArXiv": "none", "DOI": "n/a", "MAG": "", "PubMed": -1}, url=None)
    assert record.arxiv_id is None
    assert record.external_ids == {}
    assert read_paper(externalids=None, url=None).external_ids == {}


@pytest.mark.parametrize("arxiv", [None, "", "none"])
def test_an_arxiv_id_is_read_from_the_doi(arxiv: str | None) -> None:
    """``DOI:10.48550/arXiv.2001.00004`` resolves to the arXiv id, by which the paper was not found."""
    for doi in ("10.48550/arXiv.2001.00004", "10.48550/ARXIV.2001.00004v2", " 10.48550/arxiv.2001.00004"):
        assert read_paper(externalids={"ArXiv": arxiv, "DOI": doi}).arxiv_id == "2001.00004"
    assert read_paper(externalids={"ArXiv": arxiv, "DOI": "10.48550/arXiv.hello"}).arxiv_id is None
    assert read_paper(externalids={"ArXiv": arxiv, "DOI": "10.1000/arXiv.2001.00004"}).arxiv_id is None


def test_an_arxiv_id_precedes_that_in_the_doi() -> None:
    external_ids = {"ArXiv": "1706.03762", "DOI": "10.48550/arXiv.2001.00004"}
    assert read_paper(externalids=external_ids).arxiv_id == "1706.03762"


def test_a_corpus_id_may_be_a_string() -> None:
    assert read_paper(corpusid="231810694").corpus_id == 231810694


def test_line_breaks_and_control_characters_in_a_title_become_single_spaces() -> None:
    assert read_paper(title="  A\n  title\twith\u00a0a\x00  null ").title == "A title with a null"


def test_the_venue_is_the_journal_where_it_is_empty() -> None:
    assert read_paper(venue="", journal={"name": "Physical  Review"}).venue == "Physical Review"
    assert read_paper(venue="", journal={"name": " "}).venue is None
    assert read_paper(venue=None, journal=None).venue is None


def test_fields_of_study_of_several_classifiers_are_named_once() -> None:
    fields = [
        ("Medicine", "external"),
        ("Biology", "s2-fos-model"),
        ("Medicine", "s2-fos-model"),
        (None, "external"),
    ]
    listed = [{"category": category, "source": source} for category, source in fields]
    assert read_paper(s2fieldsofstudy=listed).details["fields_of_study"] == ["Medicine", "Biology"]
    assert "fields_of_study" not in read_paper(s2fieldsofstudy=[]).details


def test_a_journal_may_have_no_name() -> None:
    journal = {"name": "", "pages": "50-51", "volume": "5"}
    assert read_paper(journal=journal).details["journal"] == [None, "5", "50-51"]
    assert "journal" not in read_paper(journal=dict.fromkeys(journal)).details


def test_a_paper_on_arxiv_is_open_access() -> None:
    ids = {"ArXiv": "0704.0001"}
    for stored in (True, False, None):
        assert read_paper(isopenaccess=stored, externalids=ids).details["is_open_access"] is True
    assert read_paper(isopenaccess=True).details["is_open_access"] is True
    assert "is_open_access" not in read_paper(isopenaccess=None).details


@pytest.mark.parametrize(
    ("date", "year", "expected"),
    [
        ("2010-02-30", 2010, (None, 2010)),
        ("2010-13-01", None, (None, None)),
        ("2012-02-29", None, ("2012-02-29", 2012)),
        ("2011-02-29T00:00:00Z", 2011, (None, 2011)),
        ("2012-02-29T00:00:00Z", 2012, ("2012-02-29", 2012)),
        ("20100228", 2010, (None, 2010)),
        ("2010-W01-1", 2010, (None, 2010)),
        (None, "2010", (None, 2010)),
        (None, 0, (None, None)),
    ],
)
def test_an_impossible_date_is_dropped_and_the_year_kept(
    date: str | None, year: object, expected: tuple[str | None, int | None]
) -> None:
    record = read_paper(publicationdate=date, year=year)
    assert (record.publication_date, record.year) == expected


def test_nulls_are_read_anywhere() -> None:
    nothing = dict.fromkeys(orjson.loads(sample("papers")[1]))
    record = s2ag.parse_papers(
        orjson.dumps({**nothing, "corpusid": 1, "title": "T", "authors": [{"name": None}]})
    )
    assert record == PaperRecord(title="T", corpus_id=1)


@pytest.mark.parametrize(
    ("intents", "expected"),
    [
        (["background"], ["background"]),
        ([["background"], None, ["methodology", "background"], []], ["background", "methodology"]),
        ([None], []),
        (None, []),
    ],
)
def test_intents_are_flat_or_nested(intents: object, expected: list[str]) -> None:
    line = orjson.dumps(
        {"citingcorpusid": 1, "citedcorpusid": "2", "isinfluential": None, "intents": intents}
    )
    assert s2ag.parse_citations(line) == CitationRecord(1, 2, None, [], expected)


REJECTS: list[tuple[Callable[[bytes], Record | Reject], bytes, str]] = [
    (s2ag.parse_papers, b'{"corpusid":1,"title":', "bad-json"),
    (s2ag.parse_papers, b"", "bad-json"),
    (s2ag.parse_papers, b'{"corpusid":NaN,"title":"T"}', "no-id"),
    (s2ag.parse_papers, b"[" * 5000, "bad-json"),
    (s2ag.parse_papers, b'{"corpusid":1,"title":"\\ud835"}', "bad-unicode"),
    (s2ag.parse_papers, b'{"corpusid":1,"title":"caf\xe9"}', "bad-unicode"),
    (s2ag.parse_papers, b"[1, 2]", "not-an-object"),
    (s2ag.parse_papers, b"null", "not-an-object"),
    (s2ag.parse_papers, paper(corpusid=None), "no-id"),
    (s2ag.parse_papers, paper(corpusid="12x"), "bad-id"),
    (s2ag.parse_papers, paper(corpusid=True), "bad-id"),
    (s2ag.parse_papers, paper(corpusid=1.0), "bad-id"),
    (s2ag.parse_papers, paper(corpusid=0), "bad-id"),
    (s2ag.parse_papers, paper(corpusid=2**63), "bad-id"),
    (s2ag.parse_papers, paper(title=None), "no-title"),
    (s2ag.parse_papers, paper(title=" \n "), "no-title"),
    (s2ag.parse_papers, paper(title="x" * 5001), "title-too-long"),
    (s2ag.parse_papers, paper(title=["T"]), "bad-type"),
    (s2ag.parse_papers, paper(authors="A. Author"), "bad-type"),
    (s2ag.parse_papers, paper(authors=["A. Author"]), "bad-type"),
    (s2ag.parse_papers, paper(externalids=[]), "bad-type"),
    (s2ag.parse_papers, paper(year=2010.5), "bad-type"),
    (s2ag.parse_papers, paper(citationcount="many"), "bad-type"),
    (s2ag.parse_papers, paper(citationcount=-1), "bad-type"),
    (s2ag.parse_abstracts, b'{"corpusid":1,"abstract":null}', "no-abstract"),
    (s2ag.parse_abstracts, b'{"abstract":"A"}', "no-id"),
    (s2ag.parse_citations, b'{"citingcorpusid":"1"}', "no-id"),
    (s2ag.parse_citations, b'{"citingcorpusid":"one","citedcorpusid":"2"}', "bad-id"),
    (s2ag.parse_citations, b'{"citingcorpusid":1,"citedcorpusid":2,"isinfluential":"no"}', "bad-type"),
    (s2ag.parse_citations, b'{"citingcorpusid":1,"citedcorpusid":2,"contexts":"text"}', "bad-type"),
    (s2ag.parse_citations, b'{"citingcorpusid":1,"citedcorpusid":2,"intents":[[1]]}', "bad-type"),
    (s2ag.parse_paper_ids, b'{"corpusid":1,"sha":null,"primary":true}', "no-sha"),
    (s2ag.parse_paper_ids, b'{"corpusid":1,"sha":"abc","primary":true}', "bad-sha"),
    (s2ag.parse_paper_ids, b'{"corpusid":1,"sha":"%s","primary":1}' % (b"a" * 40), "bad-type"),
    (s2ag.parse_authors, b'{"authorid":null,"name":"A"}', "no-id"),
    (s2ag.parse_authors, b'{"authorid":"1","name":null}', "no-name"),
    (s2ag.parse_tldrs, b'{"corpusid":1,"model":"m","text":""}', "no-text"),
    (s2ag.parse_publication_venues, b'{"id":null,"name":"V"}', "no-id"),
    (s2ag.parse_publication_venues, b'{"id":"v","name":""}', "no-name"),
]


@pytest.mark.parametrize(("parse", "line", "reason"), REJECTS)
def test_a_bad_line_becomes_a_reject_with_a_sentence(
    parse: Callable[[bytes], Record | Reject], line: bytes, reason: str
) -> None:
    reject = parse(line)
    assert isinstance(reject, Reject)
    assert reject.reason == reason
    assert len(reject.detail) < 300
    assert reject.detail.endswith(".")


def test_a_title_of_five_thousand_characters_is_valid() -> None:
    assert len(read_paper(title="x" * 5000).title) == 5000
