"""The report of a construction: pool recall by source, rewrite and hop; prefilter loss; disagreement; cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from msgspec.structs import asdict

from scholarbase_research.construction.judging import ADJUDICATION, FIRST
from scholarbase_research.construction.rewrites import KINDS
from scholarbase_research.construction.store import Store
from scholarbase_research.llm.base import Price

Pools = dict[str, dict[str, set[str]]]
"""The name of a source, a kind or a hop, to the papers that it found, by question."""


class _Pool(NamedTuple):
    """Results of one question that the library holds: source, kind and paper."""

    question: str
    source: str
    kind: str
    paper: str


def report(store: Store, prices: Mapping[str, Price]) -> dict[str, Any]:
    """All figures. Recall is the mean over questions of the share of reference answers in a set of papers.

    The reference are the known answers of the query file, if it has some that the library holds, else the answers of
    this construction.
    """
    known = _sets(store.rows("SELECT question, paper FROM known"))
    answers = _sets(store.rows("SELECT question, paper FROM decisions WHERE answer"))
    reference = known or answers
    return {
        "questions": _questions(store, answers),
        "reference": {
            "of": "known answers" if known else "answers of this construction",
            "questions": len(reference),
            "answers": sum(map(len, reference.values())),
        },
        "pool": _pool(store, reference),
        "prefilter": _prefilter(store, reference, answers),
        "judging": _judging(store),
        "cost": _cost(store, prices),
    }


def _sets(rows: Iterable[tuple[Any, ...]]) -> dict[str, set[str]]:
    by_question: dict[str, set[str]] = defaultdict(set)
    for question, paper in rows:
        by_question[question].add(paper)
    return dict(by_question)


def _questions(store: Store, answers: Mapping[str, set[str]]) -> dict[str, Any]:
    rows = store.rows("SELECT question, stop FROM questions ORDER BY number")
    sizes = [len(answers.get(question, ())) for question, _ in rows]
    return {
        "count": len(rows),
        "without_answers": sizes.count(0),
        "answers": sum(sizes),
        "answers_mean": round(fmean(sizes), 4),
        "stops": dict(sorted(Counter(stop for _, stop in rows).items())),
        "rewritten_by": dict(
            store.rows("SELECT origin, COUNT(*) FROM rewritten GROUP BY origin ORDER BY origin")
        ),
        "rewrites_failed": _count(store, "rewritten WHERE error IS NOT NULL"),
        "rewrites_mean": round(_count(store, "rewrites WHERE number > 0") / len(rows), 4),
    }


# -- the pool -------------------------------------------------------------------------------------------


def _pool(store: Store, reference: Mapping[str, set[str]]) -> dict[str, Any]:
    results = [
        _Pool(*row)
        for row in store.rows(
            "SELECT question, source, kind, paper FROM results JOIN rewrites USING (question) "
            "WHERE rewrites.number = results.rewrite"
        )
    ]
    sources = _by(results, "source", sorted({result.source for result in results}))
    kinds = _by(results, "kind", ["original", *KINDS])
    whole = _sets((result.question, result.paper) for result in results)
    plain = _sets(store.rows("SELECT question, paper FROM plain"))
    hops: Pools = {"retrieval": whole}
    for hop in (1, 2):
        rows = store.rows(
            "SELECT question, paper FROM expansions JOIN edges USING (question, seed, direction) WHERE hop = ?",
            (hop,),
        )
        if rows:
            hops[f"hop {hop}"] = _sets(rows)
    return {
        "papers_mean": round(sum(map(len, whole.values())) / _count(store, "questions"), 4),
        "recall": _recall(whole, reference),
        "plain_search_of_the_same_depth": {
            "recall": _recall(plain, reference),
            "found": _found(plain, reference),
        },
        "found": _found(whole, reference),
        "by_source": _table(sources, reference),
        "by_rewrite": _table(kinds, reference),
        "by_hop": _table(hops, reference),
        "searches": _count(store, "searches"),
        "results": _count(store, "results"),
        "expanded_seeds": _count(store, "(SELECT DISTINCT question, seed FROM expansions)"),
        "edges": _count(store, "edges"),
    }


def _count(store: Store, table: str) -> int:
    return int(store.rows(f"SELECT COUNT(*) FROM {table}")[0][0])


def _by(results: Iterable[_Pool], attribute: str, names: Sequence[str]) -> Pools:
    pools: Pools = {name: defaultdict(set) for name in names}
    for result in results:
        pools[getattr(result, attribute)][result.question].add(result.paper)
    return pools


def _recall(papers: Mapping[str, set[str]], reference: Mapping[str, set[str]]) -> float:
    shares = [
        len(papers.get(question, set()) & wanted) / len(wanted) for question, wanted in reference.items()
    ]
    return round(fmean(shares), 4) if shares else 0.0


def _found(papers: Mapping[str, set[str]], reference: Mapping[str, set[str]]) -> int:
    return sum(len(papers.get(question, set()) & wanted) for question, wanted in reference.items())


def _table(pools: Pools, reference: Mapping[str, set[str]]) -> list[dict[str, Any]]:
    """A row for each: what it finds alone, what no other finds, and what it adds to those before it."""
    rows = []
    before: dict[str, set[str]] = defaultdict(set)
    for name, papers in pools.items():
        others: dict[str, set[str]] = defaultdict(set)
        for other, its_papers in pools.items():
            if other != name:
                for question, of_question in its_papers.items():
                    others[question] |= of_question
        only = {question: of_question - others[question] for question, of_question in papers.items()}
        new = {question: of_question - before[question] for question, of_question in papers.items()}
        for question, of_question in papers.items():
            before[question] |= of_question
        rows.append(
            {
                "name": name,
                "papers": sum(map(len, papers.values())),
                "recall": _recall(papers, reference),
                "found": _found(papers, reference),
                "only": _found(only, reference),
                "added": _found(new, reference),
                "recall_so_far": _recall(before, reference),
            }
        )
    return rows


# -- judging --------------------------------------------------------------------------------------------


def _prefilter(
    store: Store, reference: Mapping[str, set[str]], answers: Mapping[str, set[str]]
) -> dict[str, Any]:
    """``lost`` is an estimate: of each question's dropped papers, the share of strict matches in its sample.

    ``lost`` and ``loss`` are None if papers were dropped and none of them has a valid verdict. ``not_sampled`` counts
    the dropped papers of questions without one, which the estimate leaves out.
    """
    dropped = _sets(store.rows("SELECT question, paper FROM candidates WHERE NOT kept"))
    sampled = store.rows(
        "SELECT question, COUNT(*), SUM(decision = 'strict') FROM candidates JOIN decisions USING (question, paper) "
        "WHERE NOT kept AND decision <> 'unjudged' GROUP BY question"
    )
    measured = bool(sampled) or not dropped
    lost = sum(len(dropped[question]) * strict / size for question, size, strict in sampled)
    answer_count = sum(map(len, answers.values()))
    strict = sum(row[2] for row in sampled)
    total = answer_count - strict + lost
    return {
        "candidates": _count(store, "candidates"),
        "dropped": sum(map(len, dropped.values())),
        "reasons": dict(
            store.rows("SELECT reason, COUNT(*) FROM candidates GROUP BY reason ORDER BY reason")
        ),
        "sampled": sum(row[1] for row in sampled),
        "sampled_strict": strict,
        "not_sampled": sum(map(len, dropped.values())) - sum(len(dropped[row[0]]) for row in sampled),
        "lost": round(lost, 4) if measured else None,
        "loss": (round(lost / total, 4) if total else 0.0) if measured else None,
        "reference_dropped": _found(dropped, reference),
    }


def _judging(store: Store) -> dict[str, Any]:
    decisions = dict(
        store.rows("SELECT decision, COUNT(*) FROM decisions GROUP BY decision ORDER BY decision")
    )
    flags = dict(
        store.rows("SELECT flag, COUNT(*) FROM decisions WHERE flag <> '' GROUP BY flag ORDER BY flag")
    )
    judges = [
        dict(zip(("judge", "round", "verdicts", "errors", "retried", "mean"), row, strict=True))
        for row in store.rows(
            "SELECT judge, round, COUNT(*), SUM(error IS NOT NULL), SUM(replies > 1), ROUND(AVG(score), 4) "
            "FROM verdicts GROUP BY judge, round ORDER BY round DESC, judge"
        )
    ]
    compared, unequal = store.rows(
        "SELECT COUNT(*), SUM(least < most) FROM (SELECT MIN(score) AS least, MAX(score) AS most FROM verdicts WHERE "
        "round = ? AND score IS NOT NULL GROUP BY question, paper HAVING COUNT(*) > 1)",
        (FIRST,),
    )[0]
    return {
        "papers": sum(decisions.values()),
        "decisions": decisions,
        "judges": judges,
        "compared": compared,
        "unequal": unequal or 0,
        "disagreement": round((unequal or 0) / compared, 4) if compared else 0.0,
        "uncertain": flags,
        "decided_by_adjudication": _count(store, f"decisions WHERE decided_by = '{ADJUDICATION}'"),
    }


def _cost(store: Store, prices: Mapping[str, Price]) -> dict[str, Any]:
    models = []
    total = 0.0
    for name, usage in store.usage().items():
        price = prices.get(name)
        cost = None if price is None else round(price.cost(usage), 6)
        total += cost or 0.0
        models.append(
            {
                "model": name,
                **asdict(usage),
                "cost": cost,
            }
        )
    return {
        "models": models,
        "total": round(total, 6),
        "without_price": ", ".join(model["model"] for model in models if model["cost"] is None),
    }
