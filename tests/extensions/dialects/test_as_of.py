"""With the header ``X-ScholarBase-As-Of`` no dialect names a later paper, in whatever part of an answer."""

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import arxiv_rows, sample_edges, sample_rows
from tests.extensions.dialects.steps import (
    EARLY,
    OF_METADATA,
    Step,
    Subject,
    about,
    native,
    prefix_of,
    texts_of,
)

AS_OF = {"X-ScholarBase-As-Of": "1995-06"}
LAST_DAY = "1995-06-30"
LATE = Subject(
    "hep-th/9510101", "Supersymmetric Yang-Mills Systems And Integrable Systems", "name:edward witten"
)
"""A paper of October 1995 with references and citations."""
EDGES = ("citations", "references", "fulltext", "/v1/paper/")


@pytest.fixture(scope="module")
def http(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def days() -> dict[str, str]:
    """The publication dates of the sample's papers by native id, of Semantic Scholar or else of the first version."""
    found = {f"arXiv:{row['id']}": row["versions"][0]["created"] for row in arxiv_rows()}
    for row in sample_rows("papers"):
        if row["publicationdate"]:
            found[f"arXiv:{row['externalids']['ArXiv']}"] = row["publicationdate"]
    return found


def named(response: httpx.Response, dois: dict[str, str], days: dict[str, str]) -> set[str]:
    """The papers of the sample that an answer names anywhere but in abstracts."""
    found = {native(text, dois) for text in texts_of(response)}
    return {one for one in found if one in days}


def later(papers: set[str], days: dict[str, str], last: str = LAST_DAY) -> set[str]:
    return {one for one in papers if days[one] > last}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", OF_METADATA)
def test_no_answer_names_a_later_paper(
    http: httpx.Client, dois: dict[str, str], days: dict[str, str], dialect: str
) -> None:
    all_later = set()
    for step in about(EARLY)[dialect]:
        response = step.send(http, prefix_of(dialect), **AS_OF)
        assert response.status_code == 200, response.text
        papers = named(response, dois, days)
        assert papers or "{author_id" not in step.operation, step
        assert later(papers, days) == set(), step
        all_later |= later(named(step.send(http, prefix_of(dialect)), dois, days), days)
    assert all_later, "without the header there are later papers"


@pytest.mark.parametrize("dialect", OF_METADATA)
def test_a_later_paper_is_unknown(
    http: httpx.Client, dois: dict[str, str], days: dict[str, str], dialect: str
) -> None:
    """By its id, its title and its neighbours."""
    assert days[LATE.native] > LAST_DAY
    for step in about(LATE)[dialect]:
        response = step.send(http, prefix_of(dialect), **AS_OF)
        assert response.status_code in (200, 400, 404), response.text
        if response.status_code == 200:
            assert later(named(response, dois, days), days) == set(), step


def edge_steps(subject: Subject) -> list[tuple[str, Step]]:
    return [
        (dialect, step)
        for dialect, steps in about(subject).items()
        for step in steps
        if any(part in step.operation for part in EDGES)
        or "citations.title" in step.parameters.get("fields", "")
    ]


def test_a_reference_that_was_published_later_is_unknown(
    http: httpx.Client, dois: dict[str, str], days: dict[str, str]
) -> None:
    """Some papers cite one that appeared after them."""
    ids = {row["corpusid"]: f"arXiv:{row['externalids']['ArXiv']}" for row in sample_rows("papers")}
    citing, cited = min(
        (ids[a], ids[b]) for a, b in sample_edges() if days[ids[a]][:7] < days[ids[b]][:7] and "/" in ids[a]
    )
    subject = Subject(citing.removeprefix("arXiv:"), "", EARLY.author)
    month = days[citing][:7]
    seen = 0
    for dialect, step in edge_steps(subject):
        if not step.value:
            continue
        seen += cited in named(step.send(http, prefix_of(dialect)), dois, days)
        response = step.send(http, prefix_of(dialect), **{"X-ScholarBase-As-Of": month})
        assert response.status_code == 200, response.text
        assert later(named(response, dois, days), days, f"{month}-31") == set(), step
    assert seen >= 5


def test_years_are_not_counted_after_the_date(http: httpx.Client) -> None:
    path = "/openalex/works?group_by=publication_year"
    years = [int(one["key"]) for one in http.get(path, headers=AS_OF).json()["group_by"]]
    assert max(years) == 1995
    assert max(int(one["key"]) for one in http.get(path).json()["group_by"]) > 1995
