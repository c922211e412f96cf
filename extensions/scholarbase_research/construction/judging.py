"""A panel of judges: first verdicts, and adjudication of errors, disagreements and borderline scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.models.papers import Paper
from scholarbase_research.llm.judges import Judge, Verdict
from scholarbase_research.llm.rubrics import Rubric, written

Decided = Literal["strict", "partial", "mismatch", "unjudged"]
FIRST: Final = "first"
ADJUDICATION: Final = "adjudication"


class Decision(NamedTuple):
    """What is decided of a paper. ``score`` and ``grade`` are None where no verdict is valid.

    ``flag`` says why it was judged again (``error``, ``disagreement``, ``borderline``, or empty), ``decided_by`` whose
    verdicts count.
    """

    paper: str
    score: float | None
    grade: int | None
    decision: Decided
    flag: str
    decided_by: str


class Panel:
    """Judges and adjudicators with one rubric.

    Args:
        judges: those of the first verdicts, at least one, with different names.
        adjudicators: those who judge again; empty for none.

    Raises:
        InvalidRequest: there are no judges, or two with one name.
    """

    def __init__(self, rubric: Rubric, judges: Sequence[Judge], adjudicators: Sequence[Judge] = ()) -> None:
        for group, option in ((judges, "--judge"), (adjudicators, "--adjudicator")):
            names = [judge.name for judge in group]
            if len(set(names)) < len(names):
                raise InvalidRequest(f"{option} names {names[0]} twice: judges need different names.")
        if not judges:
            raise InvalidRequest("There are no judges: give --judge.")
        self.rubric = rubric
        self.judges = tuple(judges)
        self.adjudicators = tuple(adjudicators)

    @property
    def identity(self) -> dict[str, object]:
        return {
            "rubric": self.rubric.name,
            "rubric_sha256": self.rubric.sha256,
            "judges": [judge.name for judge in self.judges],
            "adjudicators": [judge.name for judge in self.adjudicators],
        }

    def flag(self, verdicts: Sequence[Verdict]) -> str:
        """Why first verdicts need an adjudication; empty if they do not."""
        scores = [verdict.score for verdict in verdicts if verdict.score is not None]
        if len(scores) < len(verdicts):
            return "error"
        if self.rubric.disagree(scores):
            return "disagreement"
        return "borderline" if self.rubric.is_borderline(self.rubric.aggregate(scores)) else ""

    def decide(self, paper: str, first: Sequence[Verdict], again: Sequence[Verdict]) -> Decision:
        """The adjudicators' valid verdicts decide, else the first ones."""
        flag = self.flag(first)
        for verdicts, by in ((again, ADJUDICATION), (first, FIRST)):
            scores = [verdict.score for verdict in verdicts if verdict.score is not None]
            if scores:
                score = self.rubric.aggregate(scores)
                grade = self.rubric.grade(score)
                strict = score >= self.rubric.threshold
                decided: Decided = "strict" if strict else "partial" if grade > 0 else "mismatch"
                return Decision(paper, score, grade, decided, flag, by)
        return Decision(paper, None, None, "unjudged", flag, "none")


class Verdicts:
    """The verdicts on the papers of one question: those that are stored, and new ones, which ``keep`` stores."""

    def __init__(
        self,
        panel: Panel,
        question: Mapping[str, str],
        stored: dict[tuple[str, str, str], Verdict],
        keep: Callable[[str, str, Verdict], None],
        executor: Executor,
    ) -> None:
        self._panel = panel
        self._question = question
        self._stored = stored
        self._keep = keep
        self._executor = executor

    def decide(self, papers: Sequence[Paper]) -> list[Decision]:
        """Judge papers, and those again that need it.

        Raises:
            ModelError: a judge cannot be used. Verdicts so far are stored.
        """
        self._judge([(paper, judge, None) for paper in papers for judge in self._panel.judges], FIRST)
        flagged = [paper for paper in papers if self._panel.flag(self._of(paper.id, FIRST))]
        shown = {paper.id: self._written(paper.id) for paper in flagged}
        self._judge(
            [(paper, judge, shown[paper.id]) for paper in flagged for judge in self._panel.adjudicators],
            ADJUDICATION,
        )
        return [
            self._panel.decide(paper.id, self._of(paper.id, FIRST), self._of(paper.id, ADJUDICATION))
            for paper in papers
        ]

    def _of(self, paper: str, turn: str) -> list[Verdict]:
        judges = self._panel.judges if turn == FIRST else self._panel.adjudicators
        keys = [(paper, turn, judge.name) for judge in judges]
        return [self._stored[key] for key in keys if key in self._stored]

    def _judge(self, tasks: Sequence[tuple[Paper, Judge, str | None]], turn: str) -> None:
        missing = [task for task in tasks if (task[0].id, turn, task[1].name) not in self._stored]

        def run(task: tuple[Paper, Judge, str | None]) -> None:
            paper, judge, verdicts = task
            verdict = judge.judge(self._item(paper), verdicts)
            self._keep(paper.id, turn, verdict)
            self._stored[paper.id, turn, judge.name] = verdict

        futures = [self._executor.submit(run, task) for task in missing]
        failed = None
        for future in futures:
            if failed is not None and future.cancel():
                continue
            failed = failed or future.exception()
        if failed is not None:
            raise failed

    def _item(self, paper: Paper) -> dict[str, str]:
        facts = [str(paper.year or ""), paper.venue or "", ", ".join(paper.categories)]
        return {
            **self._question,
            "paper": paper.id,
            "title": paper.title or "",
            "abstract": paper.abstract or "(no abstract)",
            "metadata": "; ".join(fact for fact in facts if fact) or "(none)",
        }

    def _written(self, paper: str) -> str:
        """The first verdicts as a text. Judges are numbered, so that their names do not weigh."""
        lines = []
        for number, verdict in enumerate(self._of(paper, FIRST), 1):
            label = "no valid verdict" if verdict.score is None else f"{written(verdict.score)}"
            lines.append(f"Judge {number}: {label}" + (f" ({verdict.reason})" if verdict.reason else ""))
        return "\n".join(lines)
