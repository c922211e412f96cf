"""Measures, against pytrec_eval called directly and counts by hand."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import pytrec_eval

from scholarbase.errors import EvaluationError, InvalidRequest
from scholarbase_research.evaluation.measures import (
    default_measures,
    evaluate,
    parse_measure,
    recall_curve,
)
from scholarbase_research.evaluation.run_data import JudgedAnswer, RankedId, Run
from tests.extensions.research.evaluation.made import a_query, a_run

TREC_NAMES = {
    "R@25": "recall_25",
    "R@100": "recall_100",
    "R@All": "set_recall",
    "nDCG@10": "ndcg_cut_10",
    "nDCG": "ndcg",
    "P@10": "P_10",
    "Success@5": "success_5",
    "AP": "map",
    "AP@20": "map_cut_20",
    "RR": "recip_rank",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "SetP": "set_P",
    "SetF": "set_F",
}
Scores = dict[str, dict[str, float]]


def make_run(
    rankings: Mapping[str, Sequence[str | RankedId]],
    answers: Mapping[str, Mapping[str, int]],
    *,
    absent: frozenset[str] = frozenset(),
    limit: int | None = 1000,
) -> Run:
    """A run of these rankings; ``answers`` are grades by paper, ``absent`` the papers that the library lacks."""
    queries = []
    for name, grades in answers.items():
        query = a_query(name, grades)
        judged = tuple(
            replace(one, found="absent") if one.paper_id in absent else one for one in query.answers
        )
        queries.append(replace(query, answers=judged))
    search = None if limit is None else {"limit": limit, "mode": "sparse"}
    return a_run("made", queries, rankings, search=search)


def random_world(seed: int) -> tuple[Scores, dict[str, dict[str, int]]]:
    """Scores with ties, also such that only 32 bits make, and graded answers; queries with few or no results, and
    queries that the scores lack."""
    rnd = random.Random(seed)
    papers = [f"arXiv:{rnd.randrange(10**4):04}.{rnd.randrange(10**5):05}" for _ in range(150)]
    scores: Scores = {}
    answers: dict[str, dict[str, int]] = {}
    for number in range(12):
        query_id = f"q{number}"
        answers[query_id] = {paper: rnd.choice([-1, 0, 1, 1, 2, 3]) for paper in rnd.sample(papers, 20)}
        answers[query_id][papers[0]] = 1
        if number % 5 != 4:
            found = rnd.sample(papers, rnd.choice([0, 1, 7, 30, 130]))
            scores[query_id] = {paper: rnd.randrange(6) / 7 + rnd.choice([0, 1e-12, 0.01]) for paper in found}
    return scores, answers


def as_ranked(scores: Scores) -> dict[str, list[RankedId]]:
    return {
        query_id: sorted(
            (RankedId(paper, score) for paper, score in found.items()),
            key=lambda one: (np.float32(one.score), one.id.encode()),  # as trec_eval
            reverse=True,
        )
        for query_id, found in scores.items()
    }


def trec_values(scores: Scores, answers: Mapping[str, Mapping[str, int]], measure: str) -> dict[str, float]:
    """The values of pytrec_eval, and 0 for queries without results, which it leaves out."""
    found = pytrec_eval.RelevanceEvaluator(answers, {measure}).evaluate(
        {query_id: ranking for query_id, ranking in scores.items() if ranking}
    )
    name = measure.partition(".")[0]
    return {query_id: found.get(query_id, {}).get(name, 0.0) for query_id in answers}


@pytest.mark.parametrize("seed", range(4))
def test_a_measure_is_what_pytrec_eval_says_of_scores_with_ties(seed: int) -> None:
    scores, answers = random_world(seed)
    evaluation = evaluate(make_run(as_ranked(scores), answers), list(TREC_NAMES))
    for ours, name in TREC_NAMES.items():
        assert evaluation.values(ours) == pytest.approx(trec_values(scores, answers, name)), ours


@pytest.mark.parametrize("seed", range(3))
def test_a_paper_that_is_ranked_twice_counts_once_at_its_first_rank(seed: int) -> None:
    scores, answers = random_world(seed)
    rnd = random.Random(seed)
    once = {query_id: [result.id for result in ranking] for query_id, ranking in as_ranked(scores).items()}
    twice = {}
    for query_id, ranking in once.items():
        twice[query_id] = list(ranking)
        for _ in range(5 if ranking else 0):
            first = rnd.randrange(len(ranking))
            at = rnd.randrange(twice[query_id].index(ranking[first]) + 1, len(twice[query_id]) + 1)
            twice[query_id].insert(at, ranking[first])
    falling = {q: {paper: -float(place) for place, paper in enumerate(order)} for q, order in once.items()}
    evaluation = evaluate(make_run(twice, answers), list(TREC_NAMES))
    for ours, name in TREC_NAMES.items():
        assert evaluation.values(ours) == pytest.approx(trec_values(falling, answers, name)), ours


@pytest.mark.parametrize("seed", range(3))
def test_recall_of_all_and_over_held_answers_is_a_plain_count(seed: int) -> None:
    scores, answers = random_world(seed)
    absent = frozenset(
        random.Random(seed).sample(sorted({p for grades in answers.values() for p in grades}), 60)
    )
    ranked = as_ranked(scores)
    run = make_run(ranked, answers, absent=absent)
    evaluation = evaluate(run, ["R@All", "R@25"])
    for query_id, grades in answers.items():
        order = [result.id for result in ranked.get(query_id, [])]
        relevant = {paper for paper, grade in grades.items() if grade > 0}
        held = relevant - absent
        assert evaluation.values("R@All")[query_id] == pytest.approx(len(relevant & {*order}) / len(relevant))
        if held:
            expected = len(held & {*order[:25]}) / len(held)
            assert evaluation.values("R@25", "held")[query_id] == pytest.approx(expected)
        else:
            assert query_id in evaluation.unheld
            assert query_id not in evaluation.values("R@25", "held")


# -- by hand --------------------------------------------------------------------------------------------

BY_HAND = {
    "R@2": 1 / 4,  # d1 of four relevant
    "R@5": 3 / 4,
    "R@All": 3 / 4,
    "P@2": 1 / 2,
    "P@10": 3 / 10,  # the ranking has five, the measure ten places
    "Hit@1": 0.0,
    "Success@2": 1.0,
    "MRR@10": 1 / 2,
    "RR@1": 0.0,
    "AP": (1 / 2 + 2 / 4 + 3 / 5) / 4,
    "Rprec": 2 / 4,  # d1 and d2 in the first four
    "SetP": 3 / 5,
    # gains 1, 3, 1 at the ranks 2, 4 and 5, against 3, 1, 1, 1
    "nDCG@5": (1 / np.log2(3) + 3 / np.log2(5) + 1 / np.log2(6))
    / (3 + 1 / np.log2(3) + 1 / np.log2(4) + 1 / np.log2(5)),
}


def test_measures_counted_by_hand() -> None:
    ranking = ["x", "d1", "judged wrong", "d2", "d3"]
    run = make_run({"q": ranking}, {"q": {"d1": 1, "d2": 3, "d3": 1, "d4": 1, "judged wrong": 0}})
    for measure, expected in BY_HAND.items():
        assert evaluate(run, [measure]).values(measure)["q"] == pytest.approx(expected), measure


def test_queries_without_results_count_zero_and_those_without_answers_not_at_all() -> None:
    answers = {"found": {"a": 1}, "empty": {"b": 1}, "missing": {"c": 1}, "unjudged": {}, "wrong": {"e": 0}}
    run = make_run({"found": ["a"], "empty": [], "unjudged": ["a"], "wrong": ["e"]}, answers)
    evaluation = evaluate(run, ["R@All", "RR@10"])
    assert evaluation.values("RR@10") == {"found": 1.0, "empty": 0.0, "missing": 0.0}
    assert evaluation.mean("RR@10") == pytest.approx(1 / 3)
    assert evaluation.unjudged == ("unjudged", "wrong")


def test_a_library_that_holds_no_answer_has_no_mean_over_held() -> None:
    run = make_run({"q": ["a"]}, {"q": {"gone": 1}}, absent=frozenset({"gone"}))
    assert np.isnan(evaluate(run, ["R@All"]).mean("R@All", "held"))
    with pytest.raises(EvaluationError, match="holds no relevant answer"):
        recall_curve(run, "held")


def test_an_answer_listed_twice_has_its_highest_grade() -> None:
    run = make_run({"q": ["a", "b"]}, {"q": {"a": 2, "b": 1}})
    (query,) = run.queries
    for twice in ((*query.answers, JudgedAnswer("a", "id", 0)), (JudgedAnswer("a", "id", 0), *query.answers)):
        evaluation = evaluate(replace(run, queries=(replace(query, answers=twice),)), ["nDCG@10", "R@All"])
        assert evaluation.values("nDCG@10") == {"q": 1.0}
        assert evaluation.values("R@All") == {"q": 1.0}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("over", ["all", "held"])
def test_the_recall_curve_is_recall_at_every_depth(over: str, seed: int) -> None:
    scores, answers = random_world(seed)
    run = make_run(as_ranked(scores), answers, absent=frozenset(list(answers["q0"])[:10]))
    depths, recall = recall_curve(run, over)  # type: ignore[arg-type]
    assert depths.tolist() == list(range(1, run.depth + 1))
    assert all(a <= b for a, b in pairwise(recall))
    evaluation = evaluate(run, [f"R@{depth}" for depth in depths])
    for depth in depths.tolist():
        assert recall[depth - 1] == pytest.approx(evaluation.mean(f"R@{depth}", over))  # type: ignore[arg-type]


# -- names ----------------------------------------------------------------------------------------------


def test_a_measure_is_shown_under_its_own_name() -> None:
    names = {"Hit@5": "Success@5", "MRR@10": "RR@10", "MAP": "AP", "NDCG@10": "nDCG@10", "SetR": "R@All"}
    for alias, name in (names | {"Recall@100": "R@100", "Precision@10": "P@10", "RR": "RR"}).items():
        assert parse_measure(alias).name == name
        assert parse_measure(name).name == name


def test_an_invalid_measure_is_an_error_with_a_hint() -> None:
    for name, message in {
        "ndcg@10": "Did you mean nDCG@10?",
        "hit@3": "Did you mean Success@3?",
        "cleverness": "R@25, R@100",
        "": "R@25, R@100",
        "Hit": "no cutoff: give a rank, such as Success@10",
        "P@All": "only recall has @All",
        "R@0": "must be from 1 to",
        "R@99999999999999999999": "must be from 1 to",
        "Rprec@10": "use it without @10",
    }.items():
        with pytest.raises(InvalidRequest, match=re.escape(message)):
            parse_measure(name)


def test_a_cutoff_deeper_than_the_search_is_an_error() -> None:
    run = make_run({"q": ["a"]}, {"q": {"a": 1}}, limit=50)
    with pytest.raises(InvalidRequest, match=r"R@100 needs the first 100 results.*--limit 100"):
        evaluate(run, ["R@100"])
    assert default_measures(run) == ("R@25", "nDCG@10", "RR@10", "P@10")
    assert evaluate(run, default_measures(run)).notes == ()


def test_recall_of_the_whole_ranking_is_left_out_where_it_repeats_a_cutoff() -> None:
    for depth, limit, shown in ((100, 100, False), (101, 1000, True), (40, 40, True), (25, 40, False)):
        run = make_run({"q": [f"p{n}" for n in range(depth)]}, {"q": {"a": 1}}, limit=limit)
        assert ("R@All" in default_measures(run)) is shown
        assert evaluate(run, ["R@All"]).measures == ("R@All",)


def test_a_cutoff_deeper_than_an_imported_runs_rankings_has_a_note() -> None:
    run = make_run({"q": ["a", "b"]}, {"q": {"a": 1}}, limit=None)
    assert default_measures(run) == ("R@25", "R@100", "nDCG@10", "RR@10", "P@10")
    (note,) = evaluate(run, ["R@2", "R@100"]).notes
    assert note.startswith("R@100 is computed from rankings of at most 2 papers")


def test_a_run_without_any_relevant_answer_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="No query of the run 'made' has a relevant answer"):
        evaluate(make_run({"q": ["a"]}, {"q": {"a": 0}}))


def test_a_ranking_of_no_query_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="'other', which is not one of its queries"):
        evaluate(make_run({"q": ["a"], "other": ["a"]}, {"q": {"a": 1}}))


@pytest.mark.parametrize("measures", [[], "R@25"])
def test_measures_other_than_a_list_of_names_are_an_error(measures: Sequence[str]) -> None:
    with pytest.raises(InvalidRequest, match="give a list of names"):
        evaluate(make_run({"q": ["a"]}, {"q": {"a": 1}}), measures)


# -- ties -----------------------------------------------------------------------------------------------


def test_ties_that_providers_break_each_in_its_own_way_are_measured_as_ranked() -> None:
    for ranking, expected in ((["d1", "d3"], 1.0), (["d3", "d1"], 0.5)):
        tied = [RankedId(paper, 1.0) for paper in ranking]
        evaluation = evaluate(make_run({"q": tied}, {"q": {"d1": 1}}), ["RR", "RR@10"])
        assert evaluation.mean("RR") == expected
        assert evaluation.mean("RR@10") == expected


def test_a_cutoff_below_where_hybrid_paging_ends_has_a_note() -> None:
    """R@2000 of hybrid searches with --limit 2000 was shown as if 2,000 results had been there to find it in."""
    run = make_run({"q": ["a"]}, {"q": {"a": 1}}, limit=2000)
    search = {"limit": 2000, "mode": "hybrid", "ranking": {"fusion_depth": 1000}}
    hybrid = replace(run, manifest=replace(run.manifest, search=search))
    (note,) = evaluate(hybrid, ["R@1000", "R@2000"]).notes
    assert note.startswith("R@2000 is computed from rankings of at most")
    sparse = replace(run, manifest=replace(run.manifest, search=search | {"mode": "sparse"}))
    assert evaluate(sparse, ["R@2000"]).notes == ()


def test_other_reasons_for_a_low_figure_have_notes() -> None:
    run = make_run({"a": ["x"], "b": []}, {"a": {"x": 1, "y": 1}, "b": {"x": 1}})
    queries = tuple(replace(query, pool=("x",)) for query in run.queries)
    searched = replace(run.manifest, search={"limit": 1000, "pool": True})
    notes = evaluate(replace(run, queries=queries, manifest=searched), ["R@All"]).notes
    assert notes == (
        "made: 1 of 2 queries have no results, and count 0.",
        "made: 1 answer is outside the query's candidate pool, which no search returns.",
    )
