"""An agent without a language model: searches and expansions by a fixed policy, over HTTP, MCP and Python.

    python examples/scripted_agent.py --library DIR [--queries FILE] [--limit 10] [--form http|mcp|python|all]

Without --queries it has three questions about the sample's physics papers. It shows how an agent uses the tools, and
checks the recording: the three trajectories are equal, and each session's report has the figures that the agent
computes from its own log. Exits with status 1 if something differs.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from agent_forms import FORMS, Form, opened

from scholarbase.identifiers import parse
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase_research.evaluation.formats import read_queries

VARYING_KEYS = ("time", "ended", "seconds", "session")
"""Keys of a trajectory's line that differ from run to run."""
SEEDS, ANSWERED = 5, 100


class Question(NamedTuple):
    """A question and the library's ids of its answers."""

    id: str
    text: str
    answers: tuple[str, ...]


SAMPLE_QUESTIONS = (
    Question(
        "strings",
        "How is two-dimensional QCD related to string theory?",
        (
            *("arXiv:hep-th/9301003", "arXiv:hep-th/9301068", "arXiv:hep-th/9303046", "arXiv:hep-th/9303153"),
            *("arXiv:hep-th/9305097", "arXiv:hep-th/9306013", "arXiv:hep-th/9401041", "arXiv:hep-th/9403050"),
        ),
    ),
    Question(
        "duality",
        "Which papers study duality and monopole condensation in supersymmetric gauge theories?",
        (
            *("arXiv:hep-th/9402002", "arXiv:hep-th/9402032", "arXiv:hep-th/9402044", "arXiv:hep-th/9407087"),
            *("arXiv:hep-th/9408099", "arXiv:hep-th/9411057", "arXiv:hep-th/9411149"),
        ),
    ),
    Question(
        "black-holes",
        "Is information lost when black holes evaporate?",
        (
            *("arXiv:hep-th/9302022", "arXiv:hep-th/9302080", "arXiv:hep-th/9305040", "arXiv:hep-th/9306069"),
            *("arXiv:hep-th/9306083", "arXiv:hep-th/9403137", "arXiv:hep-th/9407008", "arXiv:hep-th/9412131"),
        ),
    ),
)


# -- the agent ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Called:
    """One call in the agent's log."""

    tool: str
    arguments: dict[str, Any]
    round: int
    content: dict[str, Any]

    @property
    def papers(self) -> list[dict[str, Any]]:
        """The returned papers, best first. get_papers returns bare papers, and null for a paper not in the library."""
        return [found.get("paper", found) for found in self.content["results"] if found is not None]


def run_agent(form: Form, question: Question) -> list[Called]:
    """Search for one question in four rounds and answer it. Returns the log."""
    log: list[Called] = []

    def call(round_: int, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        log.append(Called(tool, arguments, round_, form.call(tool, arguments, round_)))
        return log[-1].papers

    found = call(1, "search_papers", q=question.text, limit=20)
    seeds = [paper["id"] for paper in found[:SEEDS]]
    if seeds:
        call(2, "expand_papers", seeds=seeds, direction="references", limit=50)
        call(2, "expand_papers", seeds=seeds, direction="citations", limit=50)
        call(3, "search_papers", q=" ".join(rare_words(question.text, found)), limit=20, exclude_seen=True)
        best = fused(log)[:SEEDS]
        [title] = [paper["title"] for one in log for paper in one.papers if paper["id"] == best[0]][:1]
        call(3, "search_papers", q=" ".join(words(title)), limit=20, exclude_seen=True)
        call(4, "get_papers", ids=fused(log)[:SEEDS])
    form.answer(fused(log)[:ANSWERED])
    return log


def fused(log: Sequence[Called]) -> list[str]:
    """Reciprocal rank fusion of all lists, ties by id."""
    scores: dict[str, float] = defaultdict(float)
    for called in log:
        if called.tool != "get_papers":
            for place, paper in enumerate(called.papers, 1):
                scores[paper["id"]] += 1 / (60 + place)
    return sorted(scores, key=lambda paper_id: (-scores[paper_id], paper_id))


def rare_words(question: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The half of a question's words that are rarest in the papers found, in the question's order."""
    texts = [set(words(f"{paper['title']} {paper.get('abstract') or ''}")) for paper in found]
    distinct = list(dict.fromkeys(words(question)))
    rare = sorted(distinct, key=lambda word: sum(word in text for text in texts))[: (len(distinct) + 1) // 2]
    return [word for word in distinct if word in rare] or [question]


def words(text: str) -> list[str]:
    """The words of a text without stop words."""
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in STOP_WORDS]


# -- checks ---------------------------------------------------------------------------------------------


def own_figures(question: Question, log: Sequence[Called]) -> dict[str, Any]:
    """The figures of the session's report, computed from the agent's log."""
    relevant = set(question.answers)
    kinds = {"search_papers": "search", "expand_papers": "expand", "get_papers": "inspect"}
    candidates: dict[str, None] = {}
    curve = []
    for called in log:
        if called.tool != "get_papers":
            candidates |= dict.fromkeys(paper["id"] for paper in called.papers)
        curve.append(len(relevant & candidates.keys()) / len(relevant))
    ranking = list(dict.fromkeys([*fused(log)[:ANSWERED], *candidates]))
    recall_100 = len(relevant.intersection(ranking[:100])) / len(relevant)
    return {
        "query_id": question.id,
        "calls": len(log) + 1,  # the answer is a call, and a round
        "rounds": len({called.round for called in log}) + 1,
        **{f"{kind}_calls": sum(kinds[c.tool] == kind for c in log) for kind in kinds.values()},
        "failed_calls": 0,
        "candidates": len(candidates),
        "recall": len(relevant.intersection(ranking)) / len(relevant),
        "recall_100": recall_100,
        "recall_100_per_100": recall_100 / (len(candidates) / 100) if candidates else None,
        "recall_after": [*curve, len(relevant.intersection(ranking)) / len(relevant)],
        "answers": len(relevant),
        "tokens": sum(tokens(called.content) for called in log),
    }


def tokens(content: Mapping[str, Any]) -> int:
    """The server's estimate: a token per 4.5 lower-case letters or spaces, or 1.5 other bytes, rounded up."""
    body = orjson.dumps(content)
    letters = len(re.findall(rb"[a-z ]", body))
    return -(-(letters + 3 * (len(body) - letters)) * 2 // 9)


def differences(question: Question, runs: Mapping[str, tuple[list[Called], Form]]) -> list[str]:
    """Differences between the reports and the agent's figures, and between the trajectories."""
    found = []
    trajectories = {}
    for name, (log, form) in runs.items():
        reported = form.report(question.answers)
        for key, own in own_figures(question, log).items():
            if reported[key] != own:
                found.append(f"{question.id}, {name}: the report has {key} {reported[key]}, the agent {own}")
        lines = form.trajectory()
        trajectories[name] = [{k: v for k, v in line.items() if k not in VARYING_KEYS} for line in lines]
    first, *others = trajectories
    for other in others:
        for one, two in zip(trajectories[first], trajectories[other], strict=False):
            for key in sorted(one.keys() | two.keys()):
                if one.get(key) != two.get(key):
                    found.append(f"{question.id}, call {one['call']}: {key} differs, {first} and {other}")
        if len(trajectories[first]) != len(trajectories[other]):
            found.append(f"{question.id}: {first} and {other} differ in the number of calls")
    return found


# -- command line ---------------------------------------------------------------------------------------


def questions_of(path: Path | None, limit: int) -> list[Question]:
    """The first questions of a query file of any supported format, or of the sample."""
    if path is None:
        return list(SAMPLE_QUESTIONS[:limit])
    return [
        Question(query.id, query.text, tuple(str(parse(a.id)) for a in query.answers if a.id is not None))
        for query in read_queries(path).queries[:limit]
    ]


def compare(forms: Mapping[str, Form], questions: Sequence[Question]) -> list[str]:
    """Run the agent on each question over each form, and print a table. Returns the differences."""
    print(f"{'question':<28} {'calls':>5} {'candidates':>10} {'recall':>6} {'R@100':>6}  {', '.join(forms)}")
    found = []
    for question in questions:
        runs = {}
        for name, form in forms.items():
            form.open(question.id, question.text)
            runs[name] = (run_agent(form, question), form)
        different = differences(question, runs)
        own = own_figures(question, next(iter(runs.values()))[0])
        print(
            f"{question.id:<28} {own['calls']:>5} {own['candidates']:>10} {own['recall']:>6.3f} "
            f"{own['recall_100']:>6.3f}  {f'{len(different)} DIFFERENCES' if different else 'the same'}"
        )
        found += different
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="An agent without a language model, over three forms.")
    parser.add_argument("--library", type=Path, required=True, help="such as that of the sample")
    parser.add_argument("--queries", type=Path, help="a query file; by default three questions on the sample")
    parser.add_argument("--limit", type=int, default=10, help="questions (%(default)s)")
    parser.add_argument("--form", choices=[*FORMS, "all"], default="all")
    options = parser.parse_args(arguments)
    questions = questions_of(options.queries, options.limit)
    names = FORMS if options.form == "all" else (options.form,)
    with (
        tempfile.TemporaryDirectory() as sessions,
        opened(names, options.library, Path(sessions)) as forms,
    ):
        found = compare(forms, questions)
    for difference in found:
        print(difference, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
