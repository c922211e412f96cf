"""Crossref's works over HTTP."""

import sqlite3
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from scholarbase.search.library import Library
from tests.extensions.dialects.conftest import count


def get(server: str, path: str = "", **parameters: Any) -> dict[str, Any]:
    names = {name.replace("_", "."): value for name, value in parameters.items()}
    response = httpx.get(f"{server}/crossref/works{path}", params=names)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    content = response.json()
    assert (content["status"], content["message-version"]) == ("ok", "1.0.0")
    message: dict[str, Any] = content["message"]
    return message


def test_a_work_has_the_fields_of_the_original(server: str, sample: Library) -> None:
    paper = sample.citations("arXiv:hep-th/9302103", limit=1).results[0].paper
    doi = paper.external_ids["DOI"]
    work = get(server, f"/{doi}")
    assert work["DOI"] == doi
    assert work["URL"] == f"https://doi.org/{doi}"
    assert work["title"] == [paper.title]
    assert work["type"] == "journal-article"
    assert [f"{a['given']} {a['family']}" for a in work["author"]] == [
        author.name for author in paper.authors
    ]
    assert [a["sequence"] for a in work["author"]][:2] == ["first", "additional"][: len(paper.authors)]
    year, month, day = (int(part) for part in (paper.publication_date or "").split("-"))
    assert work["issued"] == {"date-parts": [[year, month, day]]}
    assert work["is-referenced-by-count"] == paper.citation_count
    assert work["abstract"].startswith("<jats:p>")
    cited = {edge.paper.title for edge in sample.references(paper.id, limit=1000).results}
    assert {one["article-title"] for one in work["reference"]} == cited
    assert len(work["reference"]) == len(cited) > 0
    for reference in work["reference"][:5]:
        assert get(server, f"/{reference['DOI']}")["title"] == [reference["article-title"]]
    listed = get(server, filter=f"doi:{doi}")
    assert listed["total-results"] == 1
    assert "reference" not in listed["items"][0]


def test_an_arxiv_paper_has_the_doi_of_arxiv(server: str, tables: sqlite3.Connection) -> None:
    [arxiv_id] = tables.execute(
        "SELECT arxiv_id FROM papers WHERE external_ids NOT LIKE '%DOI%' OR external_ids IS NULL LIMIT 1"
    ).fetchone()
    work = get(server, f"/arXiv:{arxiv_id}")
    assert work["DOI"] == f"10.48550/arxiv.{arxiv_id}".lower()
    assert (work["type"], work["subtype"], work["container-title"]) == ("posted-content", "preprint", [])
    for form in (
        work["DOI"],
        work["DOI"].upper(),
        f"https://doi.org/10.48550/arXiv.{arxiv_id}",
        f"doi:{work['DOI']}",
    ):
        assert get(server, f"/{quote(form, safe='')}") == work
    assert get(server, f"/{work['DOI']}/agency")["agency"]["id"] == "datacite"
    assert get(server, filter=f"doi:{work['DOI']},doi:10.1000/none")["items"][0]["title"] == work["title"]


def test_a_reference_finds_its_paper(server: str) -> None:
    text = "D. Gross and W. Taylor, Two dimensional QCD is a string theory, Nucl. Phys. B400 (1993) 181"
    found = get(server, query_bibliographic=text, rows=2)
    assert found["items"][0]["title"][0].lower() == "two dimensional qcd is a string theory"
    assert found["items"][0]["score"] >= found["items"][1]["score"] > 0
    assert get(server, query=text)["query"] == {"start-index": 0, "search-terms": text}


def test_queries(server: str, tables: sqlite3.Connection) -> None:
    [anywhere] = tables.execute(
        "SELECT count(*) FROM fulltext WHERE fulltext MATCH 'black OR hole'"
    ).fetchone()
    assert get(server, query="black holes")["total-results"] == anywhere
    [titled] = tables.execute("SELECT count(*) FROM title_words WHERE title_words MATCH 'string'").fetchone()
    assert get(server, query_title="strings")["total-results"] == titled
    by = get(server, query_author="Edward Witten", rows=100)
    assert by["total-results"] == count(tables, "authors LIKE '%Edward%' AND authors LIKE '%Witten%'") > 0
    assert all("Witten" in [one["family"] for one in item["author"]] for item in by["items"])
    word = next(word for word in by["items"][0]["title"][0].split() if len(word) > 5 and word.isalpha())
    both = get(server, query_author="Witten", query_title=word)
    assert by["items"][0]["title"] in [item["title"] for item in both["items"]]
    assert all("Witten" in [one["family"] for one in item["author"]] for item in both["items"])


@pytest.mark.parametrize(
    ("filters", "where"),
    [
        ("from-pub-date:1994-03-15", "first_day >= 19940315"),
        ("until-pub-date:1994-03", "last_day <= 19940331"),
        ("from-issued-date:1993,until-issued-date:1993", "first_day >= 19930101 AND last_day <= 19931231"),
        ("has-abstract:false", "id NOT IN (SELECT paper_id FROM abstracts WHERE abstract <> '')"),
        ("has-references:1", "id IN (SELECT citing FROM edges)"),
        (
            "type:posted-content",
            "arxiv_id IS NOT NULL AND (external_ids IS NULL OR external_ids NOT LIKE '%DOI%')",
        ),
        ("type:posted-content,type:journal-article", "1"),
        ("type:book", "0"),
    ],
)
def test_filters(server: str, tables: sqlite3.Connection, filters: str, where: str) -> None:
    assert get(server, filter=filters, rows=0)["total-results"] == count(tables, where)


def test_offsets_and_orders(server: str) -> None:
    whole = get(server, query="string", rows=30, sort="published", order="asc")["items"]
    days = [item["issued"]["date-parts"][0] for item in whole]
    assert days == sorted(days)
    parts = [
        item
        for offset in (0, 15)
        for item in get(server, query="string", rows=15, offset=offset, sort="published", order="asc")[
            "items"
        ]
    ]
    assert parts == whole
    cited = [item["is-referenced-by-count"] for item in get(server, sort="is-referenced-by-count")["items"]]
    assert cited == sorted(cited, reverse=True)
    assert len(cited) == 20


def test_samples_repeat(server: str) -> None:
    first = get(server, sample=10, filter="from-pub-date:1993")
    assert len({item["DOI"] for item in first["items"]}) == 10
    assert get(server, sample=10, filter="from-pub-date:1993") == first
    assert get(server, sample=10, filter="from-pub-date:1992")["items"] != first["items"]


def test_formats(server: str, sample: Library) -> None:
    paper = sample.paper("arXiv:hep-th/9301068")
    path = f"{server}/crossref/works/10.48550/arXiv.hep-th/9301068/transform"
    entry = httpx.get(f"{path}/application/x-bibtex")
    assert entry.headers["content-type"].startswith("application/x-bibtex")
    assert entry.text.startswith("@")
    assert " title = {Two Dimensional QCD is a String Theory}" in entry.text
    assert f" author = {{{' and '.join(author.name for author in paper.authors)}}}" in entry.text
    assert entry.text.count("{") == entry.text.count("}")
    negotiated = httpx.get(path, headers={"Accept": "application/x-bibtex, */*;q=0.1"})
    assert negotiated.content == entry.content
    csl = httpx.get(f"{path}/application/vnd.citationstyles.csl+json").json()
    assert csl["title"] == "Two Dimensional QCD is a String Theory"
    assert httpx.get(f"{path}/text/turtle").status_code == 406


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"rows": "1001"}, "integer-not-valid"),
        ({"cursor": "*", "offset": "5"}, "cursor-with-offset-or-sample"),
        ({"filter": "nonsense"}, "pair-list-form-invalid"),
        ({"sort": "nonsense"}, "sort-field-not-valid"),
        ({"facet": "type-name:*"}, "unknown-parameter"),
    ],
)
def test_invalid_requests_have_the_error_of_the_original(
    server: str, parameters: dict[str, str], kind: str
) -> None:
    response = httpx.get(f"{server}/crossref/works", params=parameters)
    assert response.status_code == 400, response.text
    content = response.json()
    assert (content["status"], content["message-type"]) == ("failed", "validation-failure")
    [message] = content["message"]
    assert message["type"] == kind
    assert message["message"]
