"""The files of a construction: a query file in ScholarQuest's form, graded qrels, a manifest, a report."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.files import atomic_write
from scholarbase.models.queries import QuerySet
from scholarbase_research.construction.report import report
from scholarbase_research.construction.store import FORMAT, Store
from scholarbase_research.llm.base import Price

QUERIES: Final = "queries.jsonl"
METADATA: Final = "query_metadata.jsonl"
QRELS: Final = "qrels.tsv"
REPORT: Final = "report.json"
PAGE: Final = "report.md"
MANIFEST: Final = "manifest.json"
OUTPUTS: Final = (MANIFEST, QUERIES, METADATA, QRELS, REPORT, PAGE)


def write_outputs(
    folder: Path, store: Store, queries: QuerySet, identity: Mapping[str, Any], prices: Mapping[str, Price]
) -> dict[str, Any]:
    """Write all files, the manifest last. Returns the report. Equal rows give equal files.

    Raises:
        OSError: a file cannot be written.
    """
    figures = report(store, prices)
    answers: dict[str, list[str]] = defaultdict(list)
    for question, paper in store.rows(
        "SELECT question, paper FROM decisions WHERE answer ORDER BY question, paper"
    ):
        answers[question].append(paper)
    contents = {
        QUERIES: _lines(
            {
                "query_id": query.id,
                "final_query": query.text,
                "answer_arxiv_ids": [paper.removeprefix("arXiv:") for paper in answers[query.id]],
                "final_answer_count": len(answers[query.id]),
                **({"date": query.date} if query.date else {}),
            }
            for query in queries.queries
            if answers[query.id]
        ),
        QRELS: b"".join(
            f"{question}\t0\t{paper}\t{grade}\n".encode()
            for question, paper, grade in store.rows(
                "SELECT question, paper, grade FROM decisions JOIN questions USING (question) WHERE grade IS NOT NULL "
                "ORDER BY number, paper"
            )
        ),
        REPORT: orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        PAGE: page(figures).encode(),
    }
    if any(query.intent or query.category for query in queries.queries):
        contents[METADATA] = _lines(
            {
                "query_id": query.id,
                "final_query": query.text,
                "category": query.intent,
                "domain": query.category,
            }
            for query in queries.queries
        )
    for name, content in contents.items():
        with atomic_write(folder / name) as file:
            file.write(content)
    manifest = {
        "format": FORMAT,
        "queries": {"name": queries.name, "count": len(queries.queries), "notes": queries.notes},
        "identity": dict(identity),
        "counts": figures["questions"],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())},
    }
    with atomic_write(folder / MANIFEST) as file:
        file.write(orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return figures


def _lines(rows: Any) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


# -- the page -------------------------------------------------------------------------------------------

_COLUMNS: Final = ("name", "papers", "recall", "found", "only", "added", "recall_so_far")


def page(figures: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    questions, pool, judging = figures["questions"], figures["pool"], figures["judging"]
    prefilter, cost, reference = figures["prefilter"], figures["cost"], figures["reference"]
    plain = pool["plain_search_of_the_same_depth"]
    parts = [
        "# Answer sets",
        f"{questions['count']:,} questions, {questions['answers']:,} answers, {questions['answers_mean']:.1f} for "
        f"each; {questions['without_answers']:,} questions without answers.",
        _table(("stopped", "questions"), questions["stops"].items()),
        _rewrites(questions),
        "## The pool",
        f"Recall is the mean over {reference['questions']:,} questions of the share of their "
        f"{reference['answers']:,} {reference['of']}. The pool of a question has {pool['papers_mean']:.1f} papers and "
        f"a recall of {pool['recall']:.4f} ({pool['found']:,} answers). One plain search that returns as many papers "
        f"has a recall of {plain['recall']:.4f} ({plain['found']:,} answers).",
        *(
            f"### By {title}\n\n"
            + _table(_COLUMNS, ([row[key] for key in _COLUMNS] for row in pool[f"by_{title}"]))
            for title in ("source", "rewrite", "hop")
        ),
        "`found` counts reference answers, `only` those that no other row finds, `added` those that no row above "
        "finds.",
        f"{pool['searches']:,} searches, {pool['searches_missing']:,} without a record; {pool['results']['count']:,} "
        f"results, {pool['results']['by_id']:,} found by id, {pool['results']['by_title']:,} by title, "
        f"{pool['results']['not_held']:,} not in the library, "
        f"{pool['results']['later']:,} too late. {pool['expanded_seeds']:,} seeds were expanded to "
        f"{pool['edges']:,} citations and references.",
        "## The prefilter",
        f"{prefilter['dropped']:,} of {prefilter['candidates']:,} candidates were dropped. {_loss(prefilter)} "
        f"{prefilter['reference_dropped']:,} reference answers were dropped.",
        _table(("reason", "candidates"), prefilter["reasons"].items()),
        "## Judging",
        f"{judging['papers']:,} papers were judged.",
        _table(("decision", "papers"), judging["decisions"].items()),
        _table(
            ("judge", "round", "verdicts", "errors", "retried", "mean"),
            (list(row.values()) for row in judging["judges"]),
        ),
        f"Judges gave different scores to {judging['unequal']:,} of {judging['compared']:,} papers with two or more "
        f"valid verdicts ({judging['disagreement']:.1%}). Adjudication decided {judging['decided_by_adjudication']:,}.",
        _table(("uncertain for", "papers"), judging["uncertain"].items()),
        "## Cost",
        _table(
            ("model", "replies", "uncounted", "input tokens", "output tokens", "cost"),
            (list(row.values()) for row in cost["models"]),
        ),
        f"Total {cost['total']:,.4f}."
        + (f" No price is known for {', '.join(cost['without_price'])}." if cost["without_price"] else ""),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rewrites(questions: Mapping[str, Any]) -> str:
    origins = ", ".join(f"{count:,} by {name}" for name, count in questions["rewritten_by"].items())
    text = f"{questions['rewrites_mean']:.1f} rewrites for each question; questions rewritten: {origins}."
    if failed := questions["rewrites_failed"]:
        text += f" **{failed:,} of them by rules because the replies of the rewriter were malformed.**"
    return text


def _loss(prefilter: Mapping[str, Any]) -> str:
    if prefilter["lost"] is None:
        return "Their loss is not measured: none of them was judged (--sample, --max-judged)."
    text = (
        f"Of a sample of {prefilter['sampled']:,} that were judged, {prefilter['sampled_strict']:,} are strict "
        f"matches: an estimated {prefilter['lost']:.1f} lost answers, {prefilter['loss']:.1%} of all."
    )
    if prefilter["not_sampled"]:
        text += (
            f" {prefilter['not_sampled']:,} dropped papers of questions without a sample are left out of it."
        )
    return text


def _table(header: Sequence[str], rows: Any) -> str:
    """A table, empty without rows."""
    body = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if not body:
        return ""
    return "\n".join(["| " + " | ".join(header) + " |", "|---" * len(header) + "|", *body])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")
