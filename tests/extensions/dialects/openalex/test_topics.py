"""Topics of works. The domains are those of https://openalex.org/domains."""

import httpx
import pytest

from scholarbase.models.papers import Paper
from scholarbase_dialects.openalex.topics import topics


@pytest.mark.parametrize(
    ("category", "names"),
    [
        ("cs.CL", "cs.CL; cs; Computer Science; Physical Sciences"),
        ("hep-th", "hep-th; hep-th; Physics; Physical Sciences"),
        ("chao-dyn", "chao-dyn; chao-dyn; chao-dyn; Physical Sciences"),
        ("q-bio.NC", "q-bio.NC; q-bio; Biology; Life Sciences"),
        ("econ.EM", "econ.EM; econ; Economics; Social Sciences"),
    ],
)
def test_categories_are_topics(category: str, names: str) -> None:
    [topic] = topics(Paper("arXiv:1", categories=(category,), fields_of_study=("Medicine",)))
    assert "; ".join([topic["display_name"], *(topic[level]["display_name"] for level in LEVELS)]) == names


LEVELS = ("subfield", "field", "domain")


def test_fields_of_study_are_topics_of_a_paper_without_categories() -> None:
    found = topics(Paper("CorpusId:1", fields_of_study=("Medicine", "my keyword")))
    assert [(one["display_name"], one["domain"]["display_name"]) for one in found] == [
        ("Medicine", "Health Sciences"),
        ("my keyword", ""),
    ]
    assert topics(Paper("CorpusId:2")) == []


def test_no_name_of_a_topic_is_null(server: str) -> None:
    """SPAR joins the four names, and had no results where one was null."""
    selected = {"sort": "cited_by_count:desc", "per-page": 200, "select": "primary_topic,topics"}
    filters = {
        "filter": "open_access.is_oa:true,publication_year:>1990,title_and_abstract.search:string theory"
    }
    works = (
        httpx.get(f"{server}/openalex/works", params=selected | filters).raise_for_status().json()["results"]
    )
    assert len(works) > 100
    for work in works:
        first = work["primary_topic"]
        assert first == work["topics"][0]
        assert "; ".join([first["display_name"], *(first[level]["display_name"] for level in LEVELS)])
