"""Pools: sizes, sources and seeds counted by hand, and a real evaluation within them."""

import json
from math import cos, radians
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.errors import InvalidRequest
from scholarbase_research.construction.pools import Pool, Relation, make_pools
from scholarbase_research.construction.relations import PaperQuestion
from scholarbase_research.construction.retrieval_questions import with_retrieval_questions
from tests.conftest import json_lines, run_cli
from tests.extensions.research.construction.test_relations import Degrees


def paper(number: int) -> str:
    return f"arXiv:2101.{number:05}"


def corpus(count: int, sharing: int) -> dict[str, frozenset[str]]:
    """Paper 0 has the keywords a and b; papers 1 to ``sharing`` have a, the even ones b too; the others have c."""
    own = {paper(0): frozenset("ab")}
    for number in range(1, count):
        own[paper(number)] = frozenset(("ab" if number % 2 == 0 else "a") if number <= sharing else "c")
    return own


def pool_of(count: int, sharing: int, *, target: int = 90, **options: Any) -> Pool:
    relation = Relation("q1", "which?", paper(0), paper(target))
    return next(make_pools([relation], corpus(count, sharing), **options))


def test_many_papers_that_share_keywords_are_capped_the_most_shared_first() -> None:
    pool = pool_of(100, 40)
    assert (pool.overlapping, pool.padded) == (29, 0)
    numbers = {int(one[-5:]) for one in pool.papers} - {90}
    # All 20 that share both keywords, and 9 of the 20 that share one.
    assert {n for n in numbers if n % 2 == 0} == set(range(2, 41, 2))
    assert len({n for n in numbers if n % 2}) == 9


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 40), st.integers(0, 90), st.integers(1, 99), st.integers(0, 5))
def test_every_pool_has_its_size_and_target(size: int, sharing: int, target: int, seed: int) -> None:
    pool = pool_of(100, sharing, target=target, size=size, seed=seed)
    assert len(pool.papers) == len(set(pool.papers)) == size == 1 + pool.overlapping + pool.padded
    assert paper(target) in pool.papers
    assert paper(0) not in pool.papers
    sharing_others = sharing - (target <= sharing)
    assert pool.overlapping == min(sharing_others, size - 1)


def test_the_query_is_the_targets_question_that_is_most_distinct_in_its_pool() -> None:
    """AIM-SciQA's Retrieval QA has the highest sum of distances to the questions of the other papers of the cluster."""
    relation = Relation("q1", "", paper(0), paper(90))
    [pool] = make_pools([relation], corpus(100, 29))
    questions = [
        # The source's question is 0 degrees, and the target's most similar one is not the one that is wanted.
        PaperQuestion(paper(0), "", "0 source"),
        *(PaperQuestion(paper(90), "", f"{angle} target") for angle in (1, 40, 100)),
        # Two questions near 0 degrees and one at 100: cosines with 40 are 0.77, 0.77 and 0.5, with 100 they are -0.17,
        # -0.17 and 1, with 1 they are 1, 1 and -0.16.
        *(PaperQuestion(paper(n), "", f"{angle} other") for n, angle in ((1, 0), (2, 0), (3, 100))),
        # Not in the pool: with them 1 degree would be the most distinct.
        *(PaperQuestion(paper(n), "", "181 far") for n in range(31, 60) if paper(n) not in pool.papers),
    ]
    [chosen] = with_retrieval_questions([pool], questions, Degrees())
    assert chosen.relation.query == "100 target"
    assert chosen.papers == pool.papers
    # The distances are summed: with four more questions at 100 degrees, 40 degrees is the farthest.
    more = [PaperQuestion(paper(3), "", f"100 other {n}") for n in range(4)]
    [other] = with_retrieval_questions([pool], [*questions, *more], Degrees())
    sums = {angle: 2 * cos(radians(angle)) + 5 * cos(radians(angle - 100)) for angle in (1, 40, 100)}
    assert other.relation.query == f"{min(sums, key=sums.__getitem__)} target"
    # A question is compared with its answer.
    answered = [PaperQuestion(paper(90), "", "", "100"), PaperQuestion(paper(90), "", "1", "no")]
    [by_answer] = with_retrieval_questions([pool], [*answered, *questions[4:]], Degrees())
    assert by_answer.relation.query == ""
    for missing, message in ((questions[4:], f"the target {paper(90)}"), (questions[:4], "the other papers")):
        with pytest.raises(InvalidRequest, match=message):
            list(with_retrieval_questions([pool], missing, Degrees()))


def test_queries_of_similar_questions_are_chosen_with_the_pools(tmp_path: Path) -> None:
    papers = json_lines(
        tmp_path / "papers.jsonl",
        [{"paper": paper(n), "keywords": ["x" if n < 6 else "y"]} for n in range(12)],
    )
    relations = json_lines(
        tmp_path / "relations.jsonl",
        [
            {
                **{"query_id": "q1", "source": paper(0), "target": paper(1), "similarity": 0.9},
                "target_question": "How deep is the network?",
            }
        ],
    )
    asked = {
        0: ["How deep is the sorting network?"],
        1: ["How deep is the network?", "Which corpus of newspapers was annotated by hand?"],
        **{n: [f"How deep is the network of size {n}?"] for n in range(2, 6)},
    }
    questions = json_lines(
        tmp_path / "questions.jsonl",
        [{"paper": paper(n), "question": one} for n, some in asked.items() for one in some],
    )
    out, random = tmp_path / "pools.jsonl", tmp_path / "random.jsonl"
    arguments = ("construct", "pools", relations, papers, "--size", 5)
    refused = run_cli(*arguments, "--out", out)
    assert "The relation 'q1' has no query: give the papers' --questions." in refused.stderr
    for done in (
        run_cli(*arguments, "--questions", questions, "--out", out),
        run_cli(*arguments, "--questions", questions, "--random", "--out", random),
    ):
        assert done.returncode == 0, done.stderr
    row, other = json.loads(out.read_text()), json.loads(random.read_text())
    assert row["query"] == other["query"] == "Which corpus of newspapers was annotated by hand?"
    assert set(row["pool"]) == {paper(n) for n in range(1, 6)}
    assert paper(1) in other["pool"]
    assert set(other["pool"]) - set(row["pool"])
    assert "0 share keywords with their source, 4 are random" in done.stderr
