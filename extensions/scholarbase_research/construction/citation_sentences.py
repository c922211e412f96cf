"""Relations of papers by sentences with a single citation mark, as AIM-SciQA (section 4.3) makes them for CIM-SciQA.

Such a sentence states something of exactly one paper: that of the bibliography's entry. Sentences come from the main
full texts of a library.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from scholarbase.errors import DocumentNotFound
from scholarbase.models.checks import check_whole
from scholarbase.models.document_responses import CitationContext
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.construction.pools import Pool, Relation

MIN_CITED: Final = 3
"""Papers of the library that a source cites: AIM-SciQA keeps papers with three or more."""
_MIN_WORDS: Final = 4
_PAGE: Final = 100
_PAPERS: Final = 1_000
_SEVERAL: Final = re.compile(r"\d[a-z]?\s*[,;\u2012-\u2015-]\s*\[?\d|;")
"""A mark of several references, such as [3, 5], [3-5] or (Abel, 2001; Noether, 1921)."""
_MARKS: Final = re.compile(
    r"\[(?:\?|\d{1,4}[a-z]?(?:\s*[,;\u2012-\u2015-]\s*\d{1,4}[a-z]?)*)\]|\([A-Z][^()]{0,200}\b(?:19|20)\d\d[a-z]?\)"
)
"""Marks that the source did not link to its bibliography, such as [?], [7] or (Noether, 1921)."""


class CitationRelation(NamedTuple):
    """A sentence of the source whose only citation mark is of the target.

    ``query`` is the sentence without the mark. ``start`` and ``end`` are the sentence's offsets in the source's text.
    """

    query_id: str
    query: str
    source: str
    target: str
    sentence: str
    mark: str
    start: int
    end: int
    section: str | None
    reference: str | None


class CitationRelations:
    """The relations of a library's full texts.

    Attributes:
        counts: of the papers with a text (``papers``), those with fewer than ``min_cited`` cited papers
            (``papers_left_out``), the ``sentences`` with marks of the others, and of these the ones with ``several``
            marks, with an ``unlinked`` mark beside the one, ``not_held`` (the cited paper is not in the library),
            ``own`` (it is the paper itself), too ``short`` (fewer than four words), and the ``relations``.
        cited: the papers of the library that each source with relations cites.
    """

    def __init__(
        self, source: Source, *, min_cited: int = MIN_CITED, reporter: Reporter | None = None
    ) -> None:
        """
        Raises:
            InvalidRequest: ``min_cited`` is out of range.
        """
        self._source = source
        self._min_cited = check_whole(min_cited, "min_cited", 1, 1_000)
        self._reporter = reporter or SilentReporter()
        self.counts: Counter[str] = Counter()
        self.cited: dict[str, tuple[str, ...]] = {}

    def __iter__(self) -> Iterator[CitationRelation]:
        """Yield the relations in the order of the papers' ids, then of their texts.

        Raises:
            DocumentNotFound: the library has no full texts.
            SqlOff: the server runs no SQL, by which the papers with texts are listed.
            ScholarBaseError: a request fails.
        """
        self.counts.clear()
        self.cited.clear()
        total = self._source.sql("SELECT count(DISTINCT paper_id) FROM documents").rows[0][0]
        if not total:
            raise DocumentNotFound("The library has no full texts: ingest it with --documents.")
        with self._reporter.stage("sentences", "papers", int(total)) as tracker:
            for number, paper in enumerate(self._papers(), 1):
                yield from self._of_paper(paper)
                tracker.advance(1)
                tracker.at(number)

    def pools(self, relations: list[CitationRelation]) -> Iterator[Pool]:
        """The pool of each relation: the papers of the library that its source cites."""
        for relation in relations:
            papers = self.cited[relation.source]
            yield Pool(
                Relation(relation.query_id, relation.query, relation.source, relation.target),
                papers,
                len(papers) - 1,
                0,
            )

    def _papers(self) -> Iterator[str]:
        last = ""
        while True:
            after = last.replace("'", "''")
            response = self._source.sql(
                f"SELECT DISTINCT paper_id FROM documents WHERE paper_id > '{after}' ORDER BY paper_id",
                limit=_PAPERS,
            )
            for row in response.rows:
                last = str(row[0])
                yield last
            if not response.truncated:
                return

    def _of_paper(self, paper: str) -> Iterator[CitationRelation]:
        contexts = self._contexts(paper)
        cited = {context.paper.id for context in contexts if context.paper is not None} - {paper}
        self.counts["papers"] += 1
        if len(cited) < self._min_cited:
            self.counts["papers_left_out"] += 1
            return
        for _, group in groupby(contexts, lambda context: context.passage.start):
            self.counts["sentences"] += 1
            outcome = _relation(paper, list(group))
            if isinstance(outcome, str):
                self.counts[outcome] += 1
                continue
            self.counts["relations"] += 1
            self.cited[paper] = tuple(sorted(cited))
            yield outcome

    def _contexts(self, paper: str) -> list[CitationContext]:
        contexts: list[CitationContext] = []
        offset: int | None = 0
        while offset is not None:
            page = self._source.citation_contexts(
                paper, direction="references", limit=_PAGE, offset=offset, fields=["id"]
            )
            contexts += page.results
            offset = page.next_offset
        return contexts


def _relation(paper: str, marks: list[CitationContext]) -> CitationRelation | str:
    """The relation of a sentence with these marks, or why it has none."""
    context = marks[0]
    text = context.passage.text
    position = text.find(context.mark)
    # A mark that is a bare number may also occur elsewhere in the sentence.
    if len(marks) > 1 or text.count(context.mark) != 1 or _SEVERAL.search(context.mark):
        return "several"
    rest = text[:position] + " " + text[position + len(context.mark) :]
    if _MARKS.search(rest):
        return "unlinked"
    if context.paper is None:
        return "not_held"
    if context.paper.id == paper:
        return "own"
    query = re.sub(r"\s+([.,;:!?)\]])", r"\1", " ".join(rest.split()))
    if len(re.findall(r"[^\W\d_]{2,}", query)) < _MIN_WORDS:
        return "short"
    start, end = context.passage.start, context.passage.end
    return CitationRelation(
        f"{paper}#{start}",
        query,
        paper,
        context.paper.id,
        text,
        context.mark,
        start,
        end,
        context.passage.section,
        context.reference,
    )
