"""Answers resolved in a library, and through a server: by id, by title, or absent."""

import hashlib
import re
from pathlib import Path

import pytest

from scholarbase.client import Client
from scholarbase.errors import QueryFileError
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Answer, Query, QuerySet
from scholarbase_research.evaluation.run_data import JudgedAnswer
from tests.conftest import SAMPLE, arxiv_rows, json_lines

ABSENT = "arXiv:2912.00001"


@pytest.fixture(scope="module")
def titled() -> dict[str, str]:
    """Unique titles of the sample's arXiv papers, by id."""
    rows = list(arxiv_rows())
    titles = [" ".join(row["title"].split()) for row in rows]
    return {
        f"arXiv:{row['id']}": title
        for row, title in zip(rows, titles, strict=True)
        if titles.count(title) == 1 and title.isascii() and re.fullmatch(r"\d{4}\.\d{5}", row["id"])
    }


def query_set(*answers: Answer, pool: tuple[str, ...] | None = None) -> QuerySet:
    return QuerySet("questions", "columns", (Query("q", "text", answers, pool=pool),))


def test_every_answer_of_the_sample_is_held(sample: Library) -> None:
    queries = read_queries(SAMPLE / "queries.jsonl")
    judged = resolve_answers(sample, queries)
    assert judged.counts == {
        "queries": 40,
        "answers": 229,
        "by_id": 229,
        "by_title": 0,
        "absent": 0,
        "duplicates": 0,
        "not_relevant": 0,
        "pool_papers": 0,
        "pool_absent": 0,
        "queries_without_held_answers": 0,
    }
    for query, found in zip(queries.queries, judged.queries, strict=True):
        assert (found.id, found.text, found.date) == (query.id, query.text, query.date)
        assert [answer.paper_id for answer in found.answers] == [answer.id for answer in query.answers]


def test_an_answer_is_found_by_id_or_by_title_or_is_absent(sample: Library, titled: dict[str, str]) -> None:
    (first, _), (second, title), (third, other) = list(titled.items())[:3]
    near = other[:-1] + ("y" if other[-1] != "y" else "z")
    judged = resolve_answers(
        sample,
        query_set(
            Answer(first.replace("arXiv:", "https://arxiv.org/abs/") + "v9", "a title that is of no use"),
            Answer(ABSENT, title.upper()),
            Answer(None, near, 3),
            Answer(ABSENT),
            Answer(None, "Nothing of this  Kind was ever Written"),
        ),
    )
    digest = hashlib.sha1(b"nothing of this kind was ever written").hexdigest()[:12]
    assert judged.queries[0].answers == (
        JudgedAnswer(first, "id"),
        JudgedAnswer(second, "title"),
        JudgedAnswer(third, "title", 3),
        JudgedAnswer(ABSENT, "absent"),
        JudgedAnswer(f"title:{digest}", "absent"),
    )
    counts = judged.counts
    assert (counts["answers"], counts["by_id"], counts["by_title"], counts["absent"]) == (5, 1, 2, 2)


def test_another_part_or_year_of_a_title_matched_the_paper(tmp_path: Path) -> None:
    same = {
        "Anti-spoofing Systems for ASVspoof 2015": "Antispoofing Systems for ASVspoof2015",
        "On the Equivalence for LPMLN Programs, IV": "On the Equivalence of LPMLN Programs, IV",
    }
    other = {
        "Decorated Box Diagrams in Bhabha Scattering. (II)": "Decorated box diagrams in Bhabha scattering. (I)",
        "NELA-GT-2022: A Large News Dataset": "NELA-GT-2018: A Large News Dataset",
    }
    rows = [
        {"id": f"2401.{n:05}", "title": title, "abstract": "An abstract.", "categories": "cs.CL"}
        for n, title in enumerate((*same, *other), 1)
    ]
    json_lines(tmp_path / "arxiv.jsonl", rows)
    ingest([tmp_path / "arxiv.jsonl"], tmp_path / "library")
    titles = (*same.values(), *other.values())
    with Library.open(tmp_path / "library") as library:
        judged = resolve_answers(library, query_set(*(Answer(None, title) for title in titles)))
    assert [answer.found for answer in judged.queries[0].answers] == ["title", "title", "absent", "absent"]


def test_two_ids_of_one_paper_count_once_with_the_higher_grade(
    sample: Library, titled: dict[str, str]
) -> None:
    (first, title), (second, _), (third, other) = list(titled.items())[:3]
    judged = resolve_answers(
        sample,
        query_set(
            Answer(third),
            Answer(None, other),
            Answer(None, title, 2),
            Answer(first, None, 1),
            Answer(ABSENT),
            Answer("2912.00001v2"),
            Answer(second, None, 0),
        ),
    )
    assert judged.queries[0].answers == (
        JudgedAnswer(third, "id"),
        JudgedAnswer(first, "id", 2),
        JudgedAnswer(ABSENT, "absent"),
        JudgedAnswer(second, "id", 0),
    )
    counts = judged.counts
    assert (counts["answers"], counts["duplicates"], counts["not_relevant"]) == (6, 3, 1)
    assert counts["answers"] == sum(counts[name] for name in ("by_id", "by_title", "absent", "duplicates"))


def test_a_pool_keeps_the_papers_that_the_library_holds(sample: Library, titled: dict[str, str]) -> None:
    first, second, third = list(titled)[:3]
    judged = resolve_answers(sample, query_set(Answer(first), pool=(second, ABSENT, third + "v2", second)))
    assert judged.queries[0].pool == (second, third)
    assert (judged.counts["pool_papers"], judged.counts["pool_absent"]) == (2, 1)
    assert resolve_answers(sample, query_set(Answer(first), pool=(ABSENT,))).queries[0].pool == ()
    assert resolve_answers(sample, query_set(Answer(first))).queries[0].pool is None


def test_a_query_set_of_another_library_is_an_error_that_names_the_library(sample: Library) -> None:
    sentence = (
        f"None of the 4 answers of questions is in this library \\(snapshot {sample.snapshot_id}, 2,440 papers\\): "
        "search the library that these queries were written for. The first answers are Doc:1, Doc:2, Doc:3, \\.\\.\\.$"
    )
    with pytest.raises(QueryFileError, match=sentence):
        resolve_answers(sample, query_set(*(Answer(f"Doc:{n}") for n in range(1, 5))))


def test_a_library_and_its_server_judge_alike(sample: Library, server: str, titled: dict[str, str]) -> None:
    """With more ids than fit into one call."""
    ids = [f"CorpusId:{10**9 + n}" for n in range(10_050)]
    (by_id, _), (_, title) = list(titled.items())[:2]
    queries = query_set(Answer(by_id), Answer(None, title), *map(Answer, ids))
    with Client(server) as client:
        through_server = resolve_answers(client, queries)
    in_process = resolve_answers(sample, queries)
    assert through_server == in_process
    counts = in_process.counts
    assert (counts["by_id"], counts["by_title"], counts["absent"]) == (1, 1, 10_050)
