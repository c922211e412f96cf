"""The arXiv API, as the clients on PyPI and its manual call it: https://info.arxiv.org/help/api/user-manual.html"""

import re
from typing import Any
from xml.etree import ElementTree

import arxiv
import httpx
import pytest

from scholarbase.models.papers import Paper
from scholarbase.search.library import Library
from scholarbase_dialects.atom import feed
from tests import tables
from tests.conftest import arxiv_rows

ATOM = "{http://www.w3.org/2005/Atom}"
ARXIV = "{http://arxiv.org/schemas/atom}"
SEARCHED = "{http://a9.com/-/spec/opensearch/1.1/}"


@pytest.fixture
def client(server: str) -> arxiv.Client:
    """The client of the package arxiv, with another base URL."""
    client = arxiv.Client(page_size=50, delay_seconds=0, num_retries=0)
    client.query_url_format = f"{server}/api/query?{{}}"
    return client


def ids(client: arxiv.Client, **search: Any) -> list[str]:
    """The ids that the client finds, without their versions."""
    found = client.results(arxiv.Search(**{"max_results": None, **search}))
    return [result.get_short_id().removesuffix("v1") for result in found]


def request(server: str, **parameters: Any) -> ElementTree.Element:
    response = httpx.get(f"{server}/api/query", params=parameters)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/atom+xml")
    return ElementTree.fromstring(response.content)


def found(root: ElementTree.Element) -> list[str]:
    return [
        entry.findtext(f"{ATOM}id", "").removeprefix("http://arxiv.org/abs/").removesuffix("v1")
        for entry in root.iter(f"{ATOM}entry")
    ]


def total(root: ElementTree.Element) -> int:
    return int(root.findtext(f"{SEARCHED}totalResults", ""))


@pytest.fixture(scope="module")
def papers(sample: Library) -> dict[str, Paper]:
    """The papers of the sample's arXiv part by arXiv id."""
    found = sample.papers([f"arXiv:{row['id']}" for row in arxiv_rows()])
    return {paper.external_ids["arXiv"]: paper for paper in found if paper is not None}


def native(sample: Library, q: str, **filters: Any) -> list[str]:
    """The arXiv ids that a native query finds."""
    hits = sample.search(q, syntax="query", limit=1000, **filters).results
    return [hit.paper.external_ids["arXiv"] for hit in hits if "arXiv" in hit.paper.external_ids]


def test_the_client_pages_to_the_end(client: arxiv.Client, sample: Library) -> None:
    listed = ids(client, query="ti:string")
    assert len(listed) > 100
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(native(sample, "title:string"))


def test_the_client_reads_every_element(client: arxiv.Client) -> None:
    [result] = client.results(arxiv.Search(id_list=["hep-th/9301068"]))
    assert result.entry_id == "http://arxiv.org/abs/hep-th/9301068v1"
    assert result.title == "Two Dimensional QCD is a String Theory"
    assert [author.name for author in result.authors] == ["David J. Gross", "Washington Taylor"]
    assert result.published.isoformat() == result.updated.isoformat() == "1993-01-17T00:00:00+00:00"
    assert result.summary.startswith("The partition function of two dimensional QCD")
    assert (result.primary_category, result.categories) == ("hep-th", ["hep-th", "hep-ph"])
    assert result.doi is not None
    assert result.doi.lower() == "10.1016/0550-3213(93)90403-c"
    assert result.pdf_url == "http://arxiv.org/pdf/hep-th/9301068v1"
    assert {link.rel for link in result.links} == {"alternate", "related"}


def test_queries(server: str, sample: Library) -> None:
    for query, same in tables.rows("arxiv-queries"):
        expected = native(sample, same)
        root = request(server, search_query=query, max_results=2000)
        assert expected
        assert set(found(root)) == set(expected)
        assert total(root) == len(expected)


@pytest.mark.parametrize("descending", [True, False])
def test_the_whole_result_is_sorted_by_date(client: arxiv.Client, sample: Library, descending: bool) -> None:
    order = arxiv.SortOrder.Descending if descending else arxiv.SortOrder.Ascending
    by_date = arxiv.SortCriterion.SubmittedDate
    results = list(
        client.results(
            arxiv.Search("ti:theory", max_results=None, sort_by=by_date, sort_order=order),
        )
    )
    dates = [result.published for result in results]
    assert len(dates) == len(native(sample, "title:theory")) > 200
    assert dates == sorted(dates, reverse=descending)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "first", "last"),
    [
        ("submittedDate:[199301150000 TO 199301172359]", "1993-01-15", "1993-01-17"),
        ("submittedDate:[199301150600 TO 199301171200]", "1993-01-16", "1993-01-16"),
        ("submittedDate : [* TO 199301]", "1900", "1993-01-31"),
        ("submittedDate:1993", "1993-01-01", "1993-12-31"),
        ('"submittedDate:[199301150000 TO 199301172359]', "1993-01-15", "1993-01-17"),
        ("submittedDate:[1993-01-15T00:00:00Z TO 19930231235959]", "1993-01-15", "1993-02-28"),
    ],
)
def test_dates_are_obeyed(
    client: arxiv.Client, papers: dict[str, Paper], limit: str, first: str, last: str
) -> None:
    for query in (f"{limit} AND cat:hep-ph", f"all:theory {limit}", f"(cat:hep-ph {limit})"):
        listed = [papers[one] for one in ids(client, query=query) if one in papers]
        assert all(first <= (paper.publication_date or "") <= last for paper in listed), query
    expected = {one for one, paper in papers.items() if first <= (paper.publication_date or "") <= last}
    assert expected
    assert {one for one in ids(client, query=limit) if one in papers} == expected


@pytest.mark.parametrize(
    ("words", "simple", "operator"),
    [
        ("ti:" + "(" * 40 + "theory" + ")" * 40, "ti:theory", "AND"),
        ("(" + " OR ".join(["ti:theory", "au:witten"] * 150) + ")", "(ti:theory OR au:witten)", "ANDNOT"),
        ("(" + " ".join(["theory"] * 300) + ")", "theory", "ANDNOT"),
    ],
)
def test_repeated_terms_and_parentheses_change_nothing(
    client: arxiv.Client, words: str, simple: str, operator: str
) -> None:
    limit = f" {operator} submittedDate:[1994 TO 2099]"
    expected = ids(client, query=simple + limit, max_results=50)
    assert expected
    assert expected != ids(client, query=simple, max_results=50)
    assert ids(client, query=words + limit, max_results=50) == expected


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (" AND ".join(f"jr:n{number}" for number in range(11)), "10 journals and comments"),
        (" OR ".join(f"submittedDate:{number}" for number in range(1900, 2001)), "100 ranges of dates"),
        (" AND ".join(f"ti:b{chr(97 + number)}*" for number in range(6)), "5 prefixes"),
        ('ti:"' + " ".join(f"w{number}" for number in range(101)) + '"', "100 words"),
        ('"' + "the " * 200 + '"', "50 times the same word"),
    ],
)
def test_a_query_that_is_too_complex_is_an_error(server: str, query: str, what: str) -> None:
    for limit in ("", " ANDNOT submittedDate:[1994 TO 2099]", " AND cat:hep-th"):
        response = httpx.get(f"{server}/api/query", params={"search_query": f"({query}){limit}"})
        assert response.status_code == 400
        assert f"more than {what}" in response.text


@pytest.mark.parametrize(
    ("held", "unknown", "kind"),
    [
        ("ti:monopole", "ti:xqz{0} OR all:xqy{0}", "words"),
        ("ti:monopole", 'all:"xqz{0} xqy{0}"', "words"),
        ("ti:monopol* OR ti:xqwm*", "ti:xqz{}*", "prefixes"),
        ("jr:arxiv", "jr:xqz{}", "journals and comments"),
        ("ti:monopole", "(ti:xqz{0} AND au:xqy{0})", "lists"),
    ],
)
def test_many_alternatives_were_an_error(server: str, held: str, unknown: str, kind: str) -> None:
    """Clients stop at an error. Fewer alternatives find fewer papers, within the same dates and categories."""
    expected = request(server, search_query=f"({held}) ANDNOT cat:hep-ph", max_results=2000)
    assert found(expected)
    query = " OR ".join([held, *(unknown.format(number) for number in range(99))])
    response = httpx.post(
        f"{server}/api/query", data={"search_query": f"({query}) ANDNOT cat:hep-ph", "max_results": 2000}
    )
    assert response.status_code == 200
    ignored = response.headers["X-ScholarBase-Ignored"]
    assert re.fullmatch(rf"alternatives after the first \d+ \({re.escape(kind)}\)", ignored)
    assert set(found(ElementTree.fromstring(response.content))) == set(found(expected))


def test_the_first_words_of_a_long_text_are_searched(server: str) -> None:
    text = " ".join(["monopole", *(f"xqz{number}" for number in range(300)), "instanton"])
    response = httpx.get(f"{server}/api/query", params={"search_query": text})
    assert response.headers["x-scholarbase-ignored"] == "words after the first 100"
    assert total(ElementTree.fromstring(response.content)) == total(request(server, search_query="monopole"))


@pytest.mark.parametrize(
    "query",
    [
        "ti:string not submittedDate:[1993 TO 1994]",
        "ti:string -submittedDate:[1993 TO 1994]",
        "ti:string,submittedDate:[1993 TO 1994]",
        '"string submittedDate:[1993 TO 1994]"',
        "ti:string AND published:[1993 TO 1994]",
    ],
)
def test_dates_without_an_operator_or_a_space_are_an_error(server: str, query: str) -> None:
    response = httpx.get(f"{server}/api/query", params={"search_query": query})
    assert response.status_code == 400
    assert "range of dates" in response.text


def test_ranges_and_orders_of_the_last_change(client: arxiv.Client) -> None:
    rows = {row["id"]: row["update_date"] for row in arxiv_rows()}
    expected = {one for one, day in rows.items() if "2000-07-01" <= day <= "2000-09-01"}
    assert "hep-ph/0005274" in expected
    for order, descending in ((arxiv.SortOrder.Ascending, False), (arxiv.SortOrder.Descending, True)):
        search = arxiv.Search(
            "lastUpdatedDate:[20000701 TO 20000901]",
            max_results=None,
            sort_by=arxiv.SortCriterion.LastUpdatedDate,
            sort_order=order,
        )
        listed = {one.get_short_id().removesuffix("v1"): one for one in client.results(search)}
        assert listed.keys() & rows.keys() == expected
        dates = [one.updated for one in listed.values()]
        assert dates == sorted(dates, reverse=descending)
        assert all(f"{listed[one].updated:%Y-%m-%d}" == rows[one] for one in expected)


@pytest.mark.slow
def test_comments_are_shown_and_searched(client: arxiv.Client) -> None:
    [result] = client.results(arxiv.Search(id_list=["hep-th/9301068"]))
    assert result.comment == "27 pages, PUPT-1376 LBL-33458"
    rows = {row["id"]: (row["comments"] or "").lower() for row in arxiv_rows()}
    for query, text in (("co:LaTeX", r"\blatex\b"), ("co:lat*", r"\blat"), ('co:"PUPT-1376"', "pupt-1376")):
        expected = {one for one, comment in rows.items() if re.search(text, comment)}
        assert expected
        assert set(ids(client, query=query)) & rows.keys() == expected
    without = set(ids(client, query="cat:hep-lat ANDNOT co:latex"))
    assert set(ids(client, query="cat:hep-lat")) - set(ids(client, query="co:latex")) == without


def authors_with(*ends: str) -> set[str]:
    """The ids of the records with an author whose name has one of these ends."""
    lists = {row["id"]: (row["authors"] or "").replace(" and ", ", ").split(", ") for row in arxiv_rows()}
    return {one for one, names in lists.items() if any(each.endswith(ends) for each in names)}


@pytest.mark.parametrize(
    ("query", "ends"),
    [
        ("au:Witten", ["Witten"]),
        ("au:witten_e", ["Witten"]),
        ('au:"E. Witten"', ["Witten"]),
        ("au:edward_witten", ["Edward Witten"]),
        ("au:meissner OR au:meißner", ["Meißner", "Meissner"]),
        ("au:jezabek", ["Jeżabek", "Jezabek"]),
        ("au:AZCÁRRAGA", ["Azcárraga", "Azcarraga"]),
        ("au:de_azcarraga", ["Azcárraga", "Azcarraga"]),
    ],
)
def test_authors(client: arxiv.Client, papers: dict[str, Paper], query: str, ends: list[str]) -> None:
    expected = authors_with(*ends)
    assert expected
    assert set(ids(client, query=query)) & set(papers) == expected


def test_a_list_of_ids_has_the_order_of_the_list(client: arxiv.Client) -> None:
    wanted = ["hep-th/9302103v2", "0000.0000", "hep-th/9301068", "1201.56789", "hep-th/9302103"]
    assert ids(client, id_list=wanted) == ["hep-th/9302103", "hep-th/9301068"]


ODD = (*tables.rows("arxiv-odd"), "all:" * 50, "(" * 5000, "NOT " * 2000, "a " * 5000, "ti:x OR " * 1200)


def test_any_query_is_answered(server: str) -> None:
    for query in ODD:
        response = httpx.post(f"{server}/api/query", data={"search_query": query, "max_results": 1})
        assert response.status_code == 200, response.text
        ElementTree.fromstring(response.content)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"id_list": "1234.12345"}, "incorrect id format for 1234.12345"),
        ({"start": "a"}, "start must be an integer"),
        ({"max_results": "-5"}, "max_results must be non-negative"),
        ({"sortBy": "title"}, "sortBy must be in: lastUpdatedDate, relevance, submittedDate"),
        ({"search_query": "a" * 10_001}, "search_query has 10001 characters: send 10000 at most"),
    ],
)
def test_errors_are_those_of_the_manual(server: str, parameters: dict[str, str], message: str) -> None:
    response = httpx.post(f"{server}/api/query", data={"search_query": "all:electron", **parameters})
    assert response.status_code == 400
    root = ElementTree.fromstring(response.content)
    [entry] = root.findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}title") == "Error"
    assert entry.findtext(f"{ATOM}summary") == message
    assert entry.findtext(f"{ATOM}id") == f"http://arxiv.org/api/errors#{message.replace(' ', '_')}"
    assert entry.findtext(f"{ATOM}author/{ATOM}name") == "arXiv api core"
    assert total(root) == 1


def test_a_form_and_a_url_are_the_same(server: str) -> None:
    parameters = {"search_query": "au:Witten AND ti:theory", "max_results": "5"}
    posted = httpx.post(f"{server}/api/query", data=parameters)
    assert posted.content == httpx.get(f"{server}/api/query", params=parameters).content
    fields = "&".join(f"a{number}=1" for number in range(200))
    assert httpx.post(f"{server}/api/query", content=fields).status_code == 400


def test_a_feed_of_any_text_is_well_formed() -> None:
    odd = "a\x00\x08\x0b\x1b\ufffe\uffff<&>\"'\u2028\U0001f600]]> é"
    paper = Paper("arXiv:2309.06180", None, {"arXiv": "2309.06180", "DOI": '10.1/"<&>'}, odd, odd, venue=odd)
    content = feed(odd, f"http://host/?{odd}", [paper], total=1, start=0, per_page=1)
    entry = ElementTree.fromstring(content).find(f"{ATOM}entry")
    assert entry is not None
    assert entry.findtext(f"{ATOM}summary") == "a<&>\"'\u2028\U0001f600]]> é"
    assert entry.findtext(f"{ARXIV}doi") == '10.1/"<&>'
    # Older clients fail without these.
    assert [author.findtext(f"{ATOM}name") for author in entry.iter(f"{ATOM}author")] == [""]
    assert [category.get("term") for category in entry.iter(f"{ATOM}category")] == [""]
    assert entry.findtext(f"{ATOM}published")


def test_a_feed_has_the_last_version() -> None:
    paper = Paper(
        "arXiv:2309.06180", None, {"arXiv": "2309.06180"}, versions=("2023-09-12", None, "2023-10-01")
    )
    root = ElementTree.fromstring(feed("", "", [paper], total=1, start=0, per_page=1))
    assert root.findtext(f".//{ATOM}entry/{ATOM}id") == "http://arxiv.org/abs/2309.06180v3"
    assert {link.get("href") for link in root.findall(f"{ATOM}entry/{ATOM}link")} == {
        "http://arxiv.org/abs/2309.06180v3",
        "http://arxiv.org/pdf/2309.06180v3",
    }
