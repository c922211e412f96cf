"""Relations of papers by the similarity of questions about them, as AIM-SciQA (section 4.3) makes them.

A section is the questions that it answers. The similarity of two sections is the sum of the cosines of their questions,
over the pairs with a cosine above a threshold: each pair counts with its cosine as its weight. (Whether the paper's
equation 5 weighs pairs in another way cannot be read from its text.) Of each two papers the pairs of sections with the
highest sums remain, and each is represented by its most similar questions; of each source the most similar ones remain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.encoders.base import Encoder
from scholarbase.errors import InvalidRequest, QueryFileError, RunExists
from scholarbase.files import atomic_write, storage_errors
from scholarbase.models.checks import check_text, check_type, check_whole
from scholarbase.models.limits import MAX_QUERY_LENGTH
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.construction.rows import paper_field, rows, text_field

THRESHOLD: Final = 0.7
TOP_SECTIONS: Final = 3
PER_PAPER: Final = 3
"""Relations of a source: AIM-SciQA keeps at most three."""
MAX_QUESTIONS: Final = 500_000
MAX_PER_PAPER: Final = 2_000
"""Questions of a paper, so that those of two papers always fit into a block."""
_BLOCK: Final = 4_000_000
"""Pairs of questions that are compared at once: 16 MB, and some 100 bytes for each pair above the threshold."""
_ROUNDING: Final = 1e-5


class PaperQuestion(NamedTuple):
    """A question that a section of a paper answers. ``section`` and ``answer`` are empty where they are unknown."""

    paper: str
    section: str
    question: str
    answer: str = ""


class QuestionRelation(NamedTuple):
    """Two papers whose sections answer similar questions.

    ``similarity`` is the cosine of the two questions, and ``score`` the sum over all pairs of questions of the two
    sections above the threshold. The question that finds the target is chosen with its pool
    (:mod:`.retrieval_questions`).
    """

    query_id: str
    source: str
    target: str
    source_question: str
    target_question: str
    source_section: str
    target_section: str
    similarity: float
    score: float


def relate_questions(
    questions: Iterable[PaperQuestion],
    encoder: Encoder,
    *,
    threshold: float = THRESHOLD,
    top_sections: int = TOP_SECTIONS,
    per_paper: int = PER_PAPER,
    candidates: Mapping[str, Collection[str]] | None = None,
    reporter: Reporter | None = None,
) -> Iterator[QuestionRelation]:
    """Yield the relations of each source, in the order of the sources' ids, the most similar questions first.

    The result does not depend on the order of the questions; a repeated question of a section counts once. Cosines are
    rounded to six decimals; ties break by sum, then by paper, section and question.

    Args:
        threshold: pairs of questions with a higher cosine count, 0 to below 1. It depends on the encoder.
        top_sections: pairs of sections of each two papers.
        per_paper: relations of each source.
        candidates: the papers that may be targets of a source; None for all. A source without an entry has none.

    Raises:
        InvalidRequest: an argument is out of range, or there are too many questions.
        EncoderError: the encoder fails.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold < 1:
        raise InvalidRequest(f"threshold is {threshold!r}: it must be 0 or more, and below 1.")
    check_whole(top_sections, "top_sections", 1)
    check_whole(per_paper, "per_paper", 1, 1_000)
    if candidates is not None:
        check_type(candidates, Mapping, "candidates", "the candidates of each source")
    ordered = sorted({question._replace(answer="") for question in questions})
    if len(ordered) > MAX_QUESTIONS:
        raise InvalidRequest(
            f"There are {len(ordered):,} questions: at most {MAX_QUESTIONS:,} are compared. Divide the papers."
        )
    table = _Table(ordered)
    return _relations(table, encoder, threshold, top_sections, per_paper, candidates, reporter)


class _Table:
    """Questions sorted by paper and section. ``first`` has the position of each paper's first question, and the end."""

    def __init__(self, questions: Sequence[PaperQuestion]) -> None:
        self.questions = questions
        papers: dict[str, int] = {}
        sections: dict[tuple[str, str], int] = {}
        self.first: list[int] = []
        for position, (paper, section, *_) in enumerate(questions):
            if papers.setdefault(paper, len(papers)) == len(self.first):
                self.first.append(position)
            sections.setdefault((paper, section), len(sections))
        self.first.append(len(questions))
        self.papers = list(papers)
        self.number = papers
        self.section = np.array(
            [sections[question.paper, question.section] for question in questions], dtype=np.int64
        )
        self.sections = len(sections)
        self.paper_of_section = np.array([papers[paper] for paper, _ in sections], dtype=np.int64)
        for number, paper in enumerate(self.papers):
            if len(self.of(number)) > MAX_PER_PAPER:
                raise InvalidRequest(
                    f"{paper} has {len(self.of(number)):,} questions: a paper has at most {MAX_PER_PAPER:,}."
                )

    def of(self, number: int) -> range:
        """The positions of a paper's questions."""
        return range(self.first[number], self.first[number + 1])


class _Found(NamedTuple):
    """A relation as it is sorted: the negative cosine and sum, and the positions of the two questions."""

    cosine: float
    total: float
    target: int
    source: int


def _relations(
    table: _Table,
    encoder: Encoder,
    threshold: float,
    top_sections: int,
    per_paper: int,
    candidates: Mapping[str, Collection[str]] | None,
    reporter: Reporter | None,
) -> Iterator[QuestionRelation]:
    if not table.questions:
        return
    reporter = reporter or SilentReporter()
    with reporter.stage("encode", "questions", len(table.questions)) as tracker:
        vectors = encoder.encode_queries([question.question for question in table.questions]).dense
        tracker.advance(len(table.questions))
    if not vectors.shape[1]:
        raise InvalidRequest(f"The encoder {encoder.spec.name} makes no dense vectors: use another one.")
    with reporter.stage("compare", "papers", len(table.papers)) as tracker:
        for number, paper in enumerate(table.papers):
            if candidates is None:
                targets: Iterable[int] = range(len(table.papers))
            else:
                wanted = candidates.get(paper, ())
                targets = sorted(table.number[target] for target in wanted if target in table.number)
            best: list[_Found] = []
            for block in _blocks(table, number, targets):
                best += _best(table, vectors, number, block, threshold, top_sections)
                best = sorted(best)[:per_paper]
            for rank, pair in enumerate(best, 1):
                yield _relation(table, f"{paper}#{rank}", pair)
            tracker.advance(1)
            tracker.at(number + 1)


def _blocks(table: _Table, source: int, targets: Iterable[int]) -> Iterator[npt.NDArray[np.int64]]:
    """The positions of the targets' questions, in blocks of whole papers."""
    most = _BLOCK // len(table.of(source))
    block: list[range] = []
    size = 0
    for target in targets:
        positions = table.of(target)
        if target == source:
            continue
        if block and size + len(positions) > most:
            yield np.concatenate([np.arange(span.start, span.stop) for span in block])
            block, size = [], 0
        block.append(positions)
        size += len(positions)
    if block:
        yield np.concatenate([np.arange(span.start, span.stop) for span in block])


def _best(
    table: _Table,
    vectors: npt.NDArray[np.float32],
    number: int,
    columns: npt.NDArray[np.int64],
    threshold: float,
    top_sections: int,
) -> list[_Found]:
    """The relations of a source with the papers of a block: the top pairs of sections of each paper."""
    span = table.of(number)
    first, last = int(columns[0]), int(columns[-1]) + 1
    others = vectors[first:last] if last - first == len(columns) else vectors[columns]
    cosines = vectors[span.start : span.stop] @ others.T
    left, right = np.nonzero(cosines > threshold - _ROUNDING)
    values = cosines[left, right].astype(np.float64).round(6)
    above = values > threshold
    if not above.any():
        return []
    values, left, right = values[above], left[above] + span.start, columns[right[above]]
    pairs, group = np.unique(table.section[right] * table.sections + table.section[left], return_inverse=True)
    totals = np.bincount(group, weights=values).round(6)
    # The first of each group in this order is the most similar pair of questions.
    order = np.lexsort((left, right, -values, group))
    best = order[np.searchsorted(group[order], np.arange(len(pairs)))]
    papers = table.paper_of_section[pairs // table.sections]
    ranked = np.lexsort((pairs, -totals, papers))
    rank = np.arange(len(ranked)) - np.searchsorted(papers[ranked], papers[ranked])
    kept = ranked[rank < top_sections]
    return [
        _Found(
            -float(values[best[pair]]), -float(totals[pair]), int(right[best[pair]]), int(left[best[pair]])
        )
        for pair in kept
    ]


def _relation(table: _Table, query_id: str, pair: _Found) -> QuestionRelation:
    source, target = table.questions[pair.source], table.questions[pair.target]
    return QuestionRelation(
        query_id,
        source.paper,
        target.paper,
        source.question,
        target.question,
        source.section,
        target.section,
        round(-pair.cosine, 6),
        round(-pair.total, 6),
    )


# -- files ----------------------------------------------------------------------------------------------


def read_paper_questions(path: Path) -> list[PaperQuestion]:
    """Read CSV, TSV or JSON lines with ``question``, ``paper`` (or ``pmcid``) and, if known, ``section``.

    ``id``, ``answer``, ``evidence`` and ``title`` of AIM-SciQA's single-hop questions may stand beside them; the answer
    is read.

    Raises:
        QueryFileError: the file cannot be read, or a line is invalid.
    """
    questions: list[PaperQuestion] = []
    optional = ("paper", "pmcid", "section", "id", "answer", "evidence", "title")
    for where, row in rows(path, ("question",), optional):
        if (row.get("paper") is None) == (row.get("pmcid") is None):
            raise QueryFileError(f"{where} must have the paper's id, as paper or as pmcid.")
        if row.get("paper") is None:
            number = text_field(row, "pmcid", where).upper().removeprefix("PMC")
            paper = paper_field({"pmcid": f"PMCID:{number}"}, "pmcid", where)
        else:
            paper = paper_field(row, "paper", where)
        question = " ".join(text_field(row, "question", where).split())
        if len(question) > MAX_QUERY_LENGTH:
            raise QueryFileError(
                f"{where}: the question has {len(question):,} characters: at most {MAX_QUERY_LENGTH:,}."
            )
        try:
            check_text(question, "question")
        except InvalidRequest as error:
            raise QueryFileError(f"{where}: {error}") from error
        if len(questions) == MAX_QUESTIONS:
            raise QueryFileError(f"{where} is one question too many: at most {MAX_QUESTIONS:,} are compared.")
        section = "" if row.get("section") in (None, "") else text_field(row, "section", where)
        answer = "" if row.get("answer") in (None, "") else text_field(row, "answer", where)
        questions.append(PaperQuestion(paper, section, question, answer))
    if not questions:
        raise QueryFileError(f"{path} has no questions: give one in each line.")
    return questions


class SharingKeywords(Mapping[str, set[str]]):
    """For each paper, the others that share a keyword with it: computed when it is read, since all together may be many
    times larger than the papers."""

    def __init__(self, keywords: Mapping[str, Collection[str]]) -> None:
        self._keywords = keywords
        self._papers: dict[str, set[str]] = {}
        for paper, paper_keywords in keywords.items():
            for keyword in paper_keywords:
                self._papers.setdefault(keyword, set()).add(paper)

    def __getitem__(self, paper: str) -> set[str]:
        return set().union(*(self._papers[keyword] for keyword in self._keywords[paper])) - {paper}

    def __iter__(self) -> Iterator[str]:
        return iter(self._keywords)

    def __len__(self) -> int:
        return len(self._keywords)


def write_relations(relations: Iterable[Any], path: Path) -> int:
    """Write relations, NamedTuples, as JSON lines that ``construct pools`` reads. Returns their number.

    Raises:
        RunExists: the file exists.
        StorageError: it cannot be written.
    """
    if path.exists():
        raise RunExists(f"{path} already exists: give another file.")
    count = 0
    with storage_errors(path), atomic_write(path) as file:
        for relation in relations:
            fields = {name: value for name, value in relation._asdict().items() if value is not None}
            file.write(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count
