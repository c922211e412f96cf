"""Results of other systems, with links or titles alone: which papers they mean, by hand."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError, RunExists
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.imports import import_run
from scholarbase_research.evaluation.measures import evaluate
from scholarbase_research.evaluation.results import read_results
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.runs import read_run
from tests import tables
from tests.conftest import json_lines, succeeded
from tests.fulltexts import metadata

DEEP, OLD_SURVEY, NEW_SURVEY, PART_TWO = (
    f"arXiv:{i}" for i in ("2101.00001", "1501.00002", "2101.00003", "2001.00004")
)
PAPERS = (
    ("2101.00001", "Deep Parsing of Sentences", 2021),
    ("1501.00002", "A Survey of Parsing", 2015),
    ("2101.00003", "A Survey of Parsing", 2021),
    ("2001.00004", "Parsing Forests II", 2020),
)
ANSWERS = [
    {
        "query_id": "q1",
        "query": "Which papers parse?",
        "answers": [DEEP, "arXiv:2201.99999"],
        "titles": ["", "Lost Parsing"],
    },
    {"query_id": "q2", "query": "Which surveys are there?", "answers": [OLD_SURVEY]},
]


@pytest.fixture(scope="module")
def parsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Four papers, two of them with one title."""
    folder = tmp_path_factory.mktemp("parsing")
    lines = (
        metadata(i, title, "We parse.", f"Mon, 4 Jan {year} 00:00:00 GMT", "cs.CL")
        for i, title, year in PAPERS
    )
    json_lines(folder / "arxiv.json", lines)
    ingest([folder / "arxiv.json"], folder / "library")
    with Library.open(folder / "library") as library:
        yield library


def imported(library: Library, folder: Path, rows: list[Any] | str, **options: Any) -> Run:
    queries = read_queries(json_lines(folder / "queries.jsonl", ANSWERS))
    judged = resolve_answers(library, queries)
    path = folder / "theirs.jsonl"
    if isinstance(rows, str):
        path.write_text(rows)
    else:
        json_lines(path, rows)
    return import_run(
        *(library, partial(read_results, path), queries, judged.queries, judged.counts, folder / "run"),
        name="theirs",
        command="scholarbase eval import theirs.jsonl queries.jsonl",
        **options,
    )


def ids(run: Run, query: str) -> list[str]:
    return [ranked.id for ranked in run.rankings[query]]


def matched(library: Library, folder: Path, *results: dict[str, Any]) -> list[str]:
    return ids(imported(library, folder, [{"query_id": "q2", "results": list(results)}]), "q2")


def test_results_are_matched_by_id_then_by_title_and_keep_their_ranks(
    parsing: Library, tmp_path: Path
) -> None:
    results = [
        {"title": "Something Unknown", "snippet": "ignored"},
        {"title": "deep  parsing of sentences."},
        {"link": "https://arxiv.org/abs/2101.00001v2", "title": "Another Title"},
        {"url": "https://example.org/page", "title": "Lost parsing"},
        {"id": "2001.00004"},
    ]
    run = imported(parsing, tmp_path, [{"query": " which papers PARSE? ", "results": results}])
    first, *rest = ids(run, "q1")
    assert first.startswith("title:")
    assert run.papers[first].title == "Something Unknown"
    assert rest == [DEEP, "arXiv:2201.99999", PART_TWO]
    assert ids(run, "q2") == []
    assert run.manifest.kind == "import"
    facts = run.manifest.search or {}
    assert {
        name: facts[name] for name in ("results", "by_id", "by_title", "absent", "other_year", "duplicates")
    } == {
        **{"results": 5, "by_id": 2, "by_title": 1, "absent": 2, "other_year": 0, "duplicates": 1},
    }
    assert facts["queries_without_results"] == 1
    # Both answers are found, at ranks 2 and 3: the one that the library lacks by its title.
    assert evaluate(run, ["R@2", "R@3"]).all == {"R@2": {"q1": 0.5, "q2": 0}, "R@3": {"q1": 1.0, "q2": 0}}
    assert read_run(tmp_path / "run") == run


def test_a_year_chooses_among_papers_with_one_title(parsing: Library, tmp_path: Path) -> None:
    for year, paper in (
        (2015, OLD_SURVEY),
        ("2016", OLD_SURVEY),
        (2022, NEW_SURVEY),
        ("Mar 3, 2021", NEW_SURVEY),
    ):
        found = matched(parsing, tmp_path / str(year), {"title": "A Survey of Parsing", "date": year})
        assert found == [paper], year


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for year in (2015, "2016", 2022, "Mar 3, 2021"):
        (tmp_path / str(year)).mkdir()


def test_a_title_of_another_year_is_another_paper(parsing: Library, tmp_path: Path) -> None:
    run = imported(
        parsing, tmp_path, [{"query_id": "q2", "results": [{"title": "A Survey of Parsing", "year": 1998}]}]
    )
    assert ids(run, "q2")[0].startswith("title:")
    assert (run.manifest.search or {})["other_year"] == (run.manifest.search or {})["absent"] == 1


def test_an_array_and_packed_lines_are_read(parsing: Library, tmp_path: Path) -> None:
    rows = [{"query_id": "q1", "results": [{"id": DEEP}]}, {"query_id": "q2", "results": []}]
    assert ids(imported(parsing, tmp_path, json.dumps(rows)), "q1") == [DEEP]
    with pytest.raises(RunExists):
        imported(parsing, tmp_path, [{"query_id": "q1", "results": []}])
    assert ids(imported(parsing, tmp_path, [{"query_id": "q1", "results": []}], restart=True), "q1") == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        *tables.rows("results-broken"),
        ({"query_id": "q1", "results": [{"title": "x" * 5000}]}, "5,000 characters"),
        ({"query_id": "q1", "results": [{"title": "x"}] * 10_001}, "at most 10,000"),
    ],
)
def test_invalid_lines_are_refused(parsing: Library, tmp_path: Path, row: Any, message: str) -> None:
    rows = [row] if not isinstance(row, str) else '{"query_id": "q1", "results": []}\n"text"\n'
    with pytest.raises(QueryFileError, match=message):
        imported(parsing, tmp_path, rows)


def test_the_command_imports_titles_and_prints_the_counts(parsing: Library, tmp_path: Path) -> None:
    queries = json_lines(tmp_path / "queries.jsonl", ANSWERS)
    results = [{"title": "Deep Parsing of Sentences", "year": 2020}, {"title": "Unheard of"}]
    theirs = json_lines(tmp_path / "web.jsonl", [{"query_id": "q1", "results": results}])
    done = succeeded(
        *("eval", "import", theirs, queries, "--library", parsing.path, "--out", tmp_path / "runs", "--json"),
        *("--measure", "R@1"),
    )
    assert (
        "2 results: 0 found by id, 1 by title, 1 not in the library (0 with a title of another year)"
        in done.stderr
    )
    assert json.loads(done.stdout)["runs"][0]["measures"]["all"]["R@1"]["mean"] == 0.25
