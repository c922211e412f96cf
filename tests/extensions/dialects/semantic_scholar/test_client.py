"""The client on PyPI, unchanged, against a server: https://pypi.org/project/semanticscholar."""

import pytest

from tests.conftest import sample_edges, sample_rows

pytest.importorskip("semanticscholar")
from semanticscholar import SemanticScholar
from semanticscholar.SemanticScholarException import ObjectNotFoundException

QCD = "arXiv:hep-th/9301068"
TITLE = "Two Dimensional QCD is a String Theory"
CORPUS_ID = 1014785
CITING = {a for a, b in sample_edges() if b == CORPUS_ID}


@pytest.fixture(scope="module")
def client(server: str) -> SemanticScholar:
    return SemanticScholar(api_url=server, retry=False, timeout=120)


def test_a_search_to_its_end(client: SemanticScholar) -> None:
    results = client.search_paper("quantum chromodynamics", limit=30, year="1993-")
    papers = list(results)
    assert len(papers) == len({paper.paperId for paper in papers}) == results.total > 100
    assert all(paper.year >= 1993 for paper in papers)


def test_a_paper_with_all_fields(client: SemanticScholar) -> None:
    [row] = [row for row in sample_rows("papers") if row["corpusid"] == CORPUS_ID]
    paper = client.get_paper(QCD)
    assert paper.title == row["title"]
    assert paper.corpusId == CORPUS_ID
    assert paper.citationCount == row["citationcount"]
    assert {one.corpusId for one in paper.citations} == CITING
    assert [author.name for author in paper.authors] == ["David J. Gross", "Washington Taylor"]
    assert paper.citationStyles["bibtex"].startswith("@")
    assert paper.embedding is None


def test_citations_and_references(client: SemanticScholar) -> None:
    citations = list(client.get_paper_citations(QCD, limit=10))
    assert {one.paper.corpusId for one in citations} == CITING
    assert len(citations) == len(CITING)
    first = min(CITING)
    references = list(client.get_paper_references(f"CorpusId:{first}", limit=3))
    assert {one.paper.corpusId for one in references} == {b for a, b in sample_edges() if a == first}


def test_authors(client: SemanticScholar) -> None:
    authors = list(client.get_paper_authors(QCD, fields=["name", "papers", "papers.corpusId"], limit=1))
    assert [author.name for author in authors] == ["David J. Gross", "Washington Taylor"]
    taylor = authors[1]
    by_taylor = {
        row["corpusid"]
        for row in sample_rows("papers")
        if "Washington Taylor" in [author["name"] for author in row["authors"]]
    }
    assert by_taylor
    assert by_taylor <= {paper.corpusId for paper in taylor.papers}
    found = client.search_author("Washington Taylor")
    assert found[0].authorId == taylor.authorId
    assert found[0].name == "Washington Taylor"
    again = client.get_author(taylor.authorId)
    assert again.paperCount == len(again.papers) == len(taylor.papers)
    papers = list(client.get_author_papers(taylor.authorId, limit=1))
    assert {paper.corpusId for paper in papers} == {paper.corpusId for paper in taylor.papers}
    assert len(papers) == len(taylor.papers)
    several, missing = client.get_authors([taylor.authorId, "name:nobody"], return_not_found=True)
    assert [author.authorId for author in several] == [taylor.authorId]
    assert missing == ["name:nobody"]


def test_completions_and_snippets(client: SemanticScholar) -> None:
    assert (QCD, TITLE, "Gross & Taylor, 1993") in [
        (one.id, one.title, one.authors_year) for one in client.get_autocomplete("two dimensional QC")
    ]
    [best, *_] = client.search_snippet(TITLE, limit=3, year="1993", authors=["gross"])
    assert (best.paper.title, best.paper.corpus_id) == (TITLE, str(CORPUS_ID))
    assert best.text.startswith("The partition function of two dimensional QCD")
    only = client.search_snippet("theory", paper_ids=[QCD, "CorpusId:99999999999"])
    assert [one.paper.title for one in only] == [TITLE]


def test_datasets_are_an_error_that_the_client_reads(client: SemanticScholar) -> None:
    for request in (
        client.get_available_releases,
        lambda: client.get_dataset_download_links("latest", "papers"),
    ):
        with pytest.raises(ObjectNotFoundException, match="This server has no datasets"):
            request()
