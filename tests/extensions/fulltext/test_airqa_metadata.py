"""The metadata of AirQA's papers, in its layout: ``metadata/UUID.json`` and ``papers/acl2023/UUID.pdf``."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scholarbase.documents.model import BadDocument
from scholarbase.ingest.job import ingest
from scholarbase.models.requests import SearchRequest
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from scholarbase_fulltext.described import described as read_described
from tests.documents.pdfs import new_pdf

ACL_2023 = "0064b013-cd7e-544b-bdb6-99e7ed7ab2bc"
ACL_2024 = "000ab6db-4b65-5dc0-8393-fbc2c05843c8"
ARXIV = "0e57b18a-c261-582f-8527-2337f0aeda90"
ACL = "Annual Meeting of the Association for Computational Linguistics"


def described(uuid: str, title: str, year: int, **more: Any) -> dict[str, Any]:
    """The file of a paper, with the keys of AirQA's published ones."""
    return {
        "uuid": uuid,
        "title": title,
        "conference_full": ACL,
        "conference": "ACL",
        "year": year,
        "volume": f"Proceedings of the {year - 1962}nd Annual Meeting (Volume 1: Long Papers)",
        "bibtex": "@inproceedings{...}",
        "authors": ["Ang Lv", "Jinpeng Li"],
        "pdf_url": f"https://aclanthology.org/{year}.acl-long.70.pdf",
        "pdf_path": f"data/dataset/airqa/papers/acl{year}/{uuid}.pdf",
        "num_pages": 1,
        "abstract": "We sample paths of dialogues, to have more of them.",
        "tldr": "More dialogues.",
        "tags": ["dialogue", "augmentation"],
        **more,
    }


PAPERS = (
    ("acl2023", described(ACL_2023, "Dialogue path sampling in continuous semantic space", 2023)),
    ("acl2024", described(ACL_2024, "Question-analysis prompting for dialogues", 2024)),
    (
        "iclr2024",
        described(
            *(ARXIV, "Dialogues of large models", 2024),
            conference="ICLR",
            conference_full="International Conference on Learning Representations",
            volume="ICLR 2024 poster",
            pdf_url="https://arxiv.org/pdf/2305.12345v2.pdf",
        ),
    ),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("airqa")
    for conference, about in PAPERS:
        pdf = new_pdf(unit="pt", format=(400, 600))
        pdf.set_font("helvetica", size=11)
        pdf.add_page()
        pdf.multi_cell(0, text=f"{about['title']}\n\nThe paths have {about['year']} turns of dialogues.")
        for name, content in (
            (f"papers/{conference}/{about['uuid']}.pdf", bytes(pdf.output())),
            (f"metadata/{about['uuid']}.json", json.dumps(about).encode()),
            (f"processed_data/{about['uuid']}.json", b"[]"),  # of another program
        ):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    ingest([], folder / "library", documents=[folder / "papers", folder / "metadata"], encoder=None)
    with Library.open(folder / "library", encoder="none") as opened:
        yield opened


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"title": 5}, "The title 5 is no text"),
        ({"title": "A", "year": "soon"}, "The year 'soon' is invalid"),
    ],
)
def test_a_title_or_year_of_another_form_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDocument, match=message):
        read_described(values)


def test_a_paper_is_named_by_its_uuid(library: Library) -> None:
    paper = library.paper(ACL_2023)
    assert (paper.title, paper.year, paper.venue) == (PAPERS[0][1]["title"], 2023, "ACL")
    assert paper.tldr == "More dialogues."
    assert paper.external_ids is not None
    assert (paper.external_ids["UUID"], paper.external_ids["ACL"]) == (ACL_2023, "2023.acl-long.70")
    assert library.paper(f"UUID:{ACL_2023.upper()}").id == paper.id
    # The link to its PDF has the id and the version.
    assert library.paper(ARXIV).id == "arXiv:2305.12345"
    assert library.text(ARXIV, version=2).sections is not None


def test_a_search_is_within_a_conference(library: Library) -> None:
    def found(venue: str, **filters: Any) -> set[str]:
        request = SearchRequest.of(q="dialogues", venue=[venue], **filters)
        return {str((hit.paper.external_ids or {})["UUID"]) for hit in library.run(request).results}

    assert found("ACL") == found(ACL) == {ACL_2023, ACL_2024}
    assert found("acl", **{"from": "2023", "to": "2023"}) == {ACL_2023}
    assert found("ICLR") == {ARXIV}


def test_sql_has_the_columns_of_the_metadata(library: Library) -> None:
    names = ("uuid", "title", "conference", "conference_full", "volume", "year", "tldr", "tags", "num_pages")
    sql = f"SELECT {', '.join(names)}, authors FROM metadata WHERE conference = 'ACL' AND year = 2024"
    [row] = library.sql(sql).rows
    *values, authors = row
    about = PAPERS[1][1]
    assert dict(zip(names, values, strict=True)) == {name: about[name] for name in names} | {
        "tags": json.dumps(about["tags"], separators=(",", ":"))
    }
    assert json.loads(str(authors)) == about["authors"]


def test_the_actions_name_papers_by_their_uuids(library: Library) -> None:
    tools = Tools(library, tool_set="airqa")
    assert tools.call("view", {"paper_id": ACL_2023, "page_number": 1})["media_type"] == "image/png"
    paper = library.paper(ACL_2023).id
    for condition in (
        f"paper_id = '{ACL_2023}'",
        f"paper_id IN ('{ACL_2023}', '{ARXIV[:-1]}1')",
        f"paper_id IN ('{ACL_2023}')",
        f"'{ACL_2023}' = paper_id",
        f"paper_id IS '{ACL_2023}'",
        f"paper_id NOT IN ('{ACL_2024}', '{ARXIV}')",
        f"paper_id = '{paper}'",
        f"uuid = '{ACL_2023}'",
    ):
        content = tools.call("query", {"sql": f"SELECT year FROM metadata WHERE {condition}"})
        assert content["rows"] == [[2023]], condition
    sql = f"SELECT text_content FROM chunks WHERE ref_paper_id = '{ACL_2024}'"
    assert "2024 turns" in tools.call("query", {"sql": sql})["rows"][0][0]
