"""A scripted agent in AirQA's environment: its four actions over HTTP, on a library made of PDFs and their metadata."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase_research.evaluation.qa.examples import read_examples, read_predictions
from scholarbase_research.evaluation.qa.scoring import score
from tests.conftest import json_lines, serving_in_thread
from tests.documents.pdfs import new_pdf

Act = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Runs an action, to its observation."""


class Page(NamedTuple):
    """A page: paragraphs, a figure's caption below a square, and a table's caption above its rows."""

    text: str
    figure: str = ""
    table: tuple[str, list[tuple[str, ...]]] = ("", [])


class Source(NamedTuple):
    """A paper of the corpus."""

    uuid: str
    title: str
    conference: str
    year: int
    pages: tuple[Page, ...]


ROWS = [("Model", "Accuracy", "Seconds"), ("Greedy", "64.2", "1.5"), ("Ours", "71.4", "2.8")]
MAPS = Source(
    "0064b013-cd7e-544b-bdb6-99e7ed7ab2bc",
    "Colouring maps of islands",
    "ACL",
    2023,
    (
        Page(
            "Maps of islands need few colours. Every island is shown in Figure 3, and the results in Table 2."
        ),
        Page("The islands of the north.", "Figure 1: The islands of the north."),
        Page(
            "The islands of the south.",
            "Figure 2: The islands of the south.",
            ("Table 1: Islands.", ROWS[:2]),
        ),
        Page(
            "We compare two models.", "Figure 3: All islands with their colours.", ("Table 2: Results.", ROWS)
        ),
    ),
)
LATER = Source(
    "000ab6db-4b65-5dc0-8393-fbc2c05843c8",
    "Maps of islands, coloured once more",
    "ACL",
    2024,
    (
        Page("Maps of islands need few colours, and maps of lakes need more."),
        Page(
            "We repeat all.",
            "Figure 3: All lakes.",
            ("Table 2: Other results.", [*ROWS[:2], ("Ours", "99.9", "9.9")]),
        ),
    ),
)
GRAPHS = Source(
    "ca116924-bf11-5529-a43f-bf68e9745c5c",
    "Trees and their leaves",
    "ICLR",
    2024,
    (Page("A tree has leaves."), Page("We count leaves.", table=("Table 1: Leaves.", ROWS[:2]))),
)
SOURCES = (MAPS, LATER, GRAPHS)


def pdf_of(source: Source) -> bytes:
    pdf = new_pdf(unit="pt", format=(400, 600))
    pdf.set_font("helvetica", size=11)
    for number, page in enumerate(source.pages):
        pdf.add_page()
        for text in ([source.title] if number == 0 else []) + [page.text]:
            pdf.multi_cell(0, text=text, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(14)
        if page.figure:
            pdf.rect(60, pdf.get_y(), 120, 60, style="F")
            pdf.ln(80)
            pdf.multi_cell(0, text=page.figure, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(20)
        caption, rows = page.table
        if caption:
            pdf.multi_cell(0, text=caption, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(8)
            for row in rows:
                for cell in row:
                    pdf.cell(90, 16, text=cell)
                pdf.ln(16)
    return bytes(pdf.output())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("airqa-agent")
    for source in SOURCES:
        about = {
            **{"uuid": source.uuid, "title": source.title, "year": source.year, "authors": ["Ada Lovelace"]},
            **{"conference": source.conference, "abstract": source.pages[0].text},
        }
        for path, content in (
            (folder / f"papers/{source.conference.lower()}{source.year}/{source.uuid}.pdf", pdf_of(source)),
            (folder / f"metadata/{source.uuid}.json", json.dumps(about).encode()),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    ingest([], folder / "library", documents=[folder / "papers"], encoder=None)
    with (
        Library.open(folder / "library", encoder="none") as library,
        serving_in_thread(library, sessions=str(folder / "sessions"), sql=True) as address,
    ):
        yield address


# -- the agent ------------------------------------------------------------------------------------------


def page_of_figure(act: Act, paper: str) -> Any:
    """AirQA's own example: the page of Figure 3. The agent looks at it before it answers."""
    sql = (
        "SELECT pages.page_number, images.bounding_box FROM images JOIN pages ON images.ref_page_id = pages.page_id "
        f"WHERE images.ref_paper_id = '{paper}' AND images.image_caption LIKE '%Figure 3%'"
    )
    [[page, box]] = act("query", {"sql": sql})["rows"]
    seen = act(
        "view", {"paper_id": paper, "page_number": page, "bounding_box": json.loads(box) if box else []}
    )
    assert base64.b64decode(seen["image"]).startswith(b"\x89PNG")
    return page


def paper_of_conference(act: Act, conference: str, year: int, words: str) -> Any:
    """The title of the conference's paper with these words. A search of all papers has others too."""
    everywhere = {hit["paper"]["id"] for hit in act("retrieve", {"query": words})["results"]}
    sql = (
        "SELECT m.title, m.paper_id FROM metadata m JOIN chunks c ON c.ref_paper_id = m.paper_id "
        f"WHERE m.conference = '{conference}' AND m.year = {year} AND c.text_content LIKE '%{words}%' GROUP BY m.title"
    )
    [[title, paper]] = act("query", {"sql": sql})["rows"]
    assert paper in everywhere
    assert len(everywhere) > 1
    return title


def cell_of_table(act: Act, paper: str, label: str, row: str, column: int) -> Any:
    """A cell of a table, read from the text of its page."""
    sql = (
        "SELECT p.page_number, p.page_content, t.table_caption FROM tables t JOIN pages p ON p.page_id = t.ref_page_id "
        f"WHERE t.ref_paper_id = '{paper}' AND t.table_caption LIKE '{label}%'"
    )
    [[page, text, caption]] = act("query", {"sql": sql})["rows"]
    act("view", {"paper_id": paper, "page_number": page})
    rows = text[text.index(caption) :]
    found = re.search(rf"{row}\s+([\d.]+)\s+([\d.]+)", rows)
    assert found is not None
    return float(found[column])


def papers_with_tables(act: Act, year: int) -> Any:
    sql = (
        "SELECT count(DISTINCT t.ref_paper_id) FROM tables t JOIN metadata m ON m.paper_id = t.ref_paper_id "
        f"WHERE m.year = {year}"
    )
    return act("query", {"sql": sql})["rows"][0][0]


def about_paper(act: Act, paper: str) -> Any:
    sql = f"SELECT conference, num_pages FROM metadata WHERE uuid = '{paper}'"
    return act("query", {"sql": sql})["rows"][0]


def example(name: str, tags: list[str], function: str, **arguments: Any) -> dict[str, Any]:
    return {
        "uuid": name,
        "question": name,
        "tags": tags,
        "conference": [],
        "evaluator": {"eval_func": function, "eval_kwargs": arguments},
    }


QUESTIONS: tuple[tuple[dict[str, Any], Callable[[Act], Any]], ...] = (
    (
        example("figure", ["single", "image"], "eval_int_exact_match", gold=4),
        lambda act: page_of_figure(act, MAPS.uuid),
    ),
    (
        example("another figure", ["single", "image"], "eval_int_exact_match", gold=2),
        lambda act: page_of_figure(act, LATER.uuid),
    ),
    (
        example(
            *("conference", ["retrieval", "text"], "eval_paper_relevance_with_reference_answer"),
            reference_answer=MAPS.title,
        ),
        lambda act: paper_of_conference(act, "ACL", 2023, "Maps of islands"),
    ),
    (
        example("table", ["single", "table"], "eval_float_exact_match", gold="71.4", ndigits=1),
        lambda act: cell_of_table(act, MAPS.uuid, "Table 2", "Ours", 1),
    ),
    (
        example("tables", ["comprehensive", "table"], "eval_int_exact_match", gold=2),
        lambda act: papers_with_tables(act, 2024),
    ),
    (
        example(*("metadata", ["single", "metadata"], "eval_structured_object_exact_match"), gold=["ACL", 4]),
        lambda act: about_paper(act, MAPS.uuid),
    ),
)


@pytest.mark.slow
def test_its_answers_are_right_by_airqas_functions(url: str, tmp_path: Path) -> None:
    predictions = []
    for number, (question, policy) in enumerate(QUESTIONS):
        session = f"airqa-{number}"
        headers = {"X-ScholarBase-Session": session}

        def act(name: str, arguments: dict[str, Any], headers: dict[str, str] = headers) -> dict[str, Any]:
            response = httpx.post(
                f"{url}/v1/tools/{name}", params={"set": "airqa"}, json=arguments, headers=headers
            )
            content: dict[str, Any] = response.raise_for_status().json()
            return content

        wrong = act(
            "query", {"sql": "SELECT page FROM images"}
        )  # an observation, from which the agent goes on
        assert wrong["error_type"] == "invalid-sql"
        assert act("answer", {"answer": policy(act)})["done"] is True
        assert act("retrieve", {"query": "islands"})["error_type"] == "session"
        lines = httpx.get(f"{url}/v1/sessions/{session}").raise_for_status().text.splitlines()
        [answer] = [row for row in map(json.loads, lines) if row["kind"] == "answer" and "error" not in row]
        predictions.append({"id": question["uuid"], "answer": answer["arguments"]["answer"]})
    for name, rows in (
        ("examples.jsonl", [question for question, _ in QUESTIONS]),
        ("predictions.jsonl", predictions),
    ):
        json_lines(tmp_path / name, rows)
    scores = score(
        read_examples(tmp_path / "examples.jsonl"), read_predictions(tmp_path / "predictions.jsonl")
    )
    assert {row.example.id: row.values["accuracy"] for row in scores.rows} == {
        question["uuid"]: 1.0 for question, _ in QUESTIONS
    }
