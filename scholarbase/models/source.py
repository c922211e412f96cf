"""``Source``: what can be queried, an open library or a server through the client."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from scholarbase.models.author_source import AuthorSource, PageArguments, arguments_of
from scholarbase.models.checks import check_ids
from scholarbase.models.document_source import DocumentSource
from scholarbase.models.facet_source import FacetSource
from scholarbase.models.limits import (
    DEFAULT_EDGES,
    DEFAULT_MATCHES,
    DEFAULT_RERANK_DEPTH,
    DEFAULT_RESULTS,
    MIN_TITLE_SCORE,
    CitationSort,
    Direction,
    Engine,
    Mode,
    ReferenceFormat,
    Syntax,
)
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    PaperBody,
    SearchRequest,
    SimilarBody,
    TitleParameters,
    search_request,
    search_requests,
)
from scholarbase.models.responses import (
    CheckResponse,
    Citation,
    CitationsResponse,
    ExpandResponse,
    Hit,
    SearchResponse,
    SimilarResponse,
    TitleMatchResponse,
)
from scholarbase.models.sql import DEFAULT_ROWS, SqlBody, SqlResponse


class SearchArguments(TypedDict, total=False):
    """The arguments of ``iter_search`` that it passes to ``search``, which describes them."""

    syntax: Syntax
    mode: Mode | None
    engine: Engine | None
    fields: Sequence[str] | None
    from_: str | None
    to: str | None
    category: Sequence[str]
    venue: Sequence[str]
    author: Sequence[str]
    min_citations: int | None
    status: Sequence[str]
    exclude: Sequence[str]
    exclude_ids: Sequence[str]
    within: Sequence[str] | None
    as_of: str | None
    exact: bool
    min_similarity: float | None
    explain: bool
    rerank: str | None
    rerank_depth: int
    partial: bool
    timeout: float | None


class SimilarArguments(TypedDict, total=False):
    """The arguments of ``iter_similar`` that it passes to ``similar``, which describes them."""

    from_: str | None
    to: str | None
    category: Sequence[str]
    venue: Sequence[str]
    author: Sequence[str]
    min_citations: int | None
    status: Sequence[str]
    exclude: Sequence[str]
    exclude_ids: Sequence[str]
    within: Sequence[str] | None
    as_of: str | None
    exact: bool
    explain: bool
    fields: Sequence[str] | None
    timeout: float | None


class EdgeArguments(PageArguments, total=False):
    """The arguments of ``iter_citations`` and ``iter_references`` that they pass to ``citations``."""

    author: Sequence[str]


class Source(AuthorSource, DocumentSource, FacetSource):
    """The methods that ``Library`` and ``Client`` share: keyword arguments to requests.

    Subclasses run the requests.
    """

    @abstractmethod
    def run(self, request: SearchRequest) -> SearchResponse:
        """Run one :class:`SearchRequest`. Raises as ``search``."""

    @abstractmethod
    def run_searches(self, requests: Sequence[SearchRequest]) -> list[SearchResponse]: ...

    @abstractmethod
    def run_title(self, request: TitleParameters) -> TitleMatchResponse: ...

    @abstractmethod
    def _match_all(self, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]: ...

    @abstractmethod
    def _check_all(self, **arguments: Any) -> CheckResponse: ...

    @abstractmethod
    def _paper(self, request: PaperBody) -> Paper: ...

    @abstractmethod
    def _papers(self, request: PaperBatchBody) -> list[Paper | None]: ...

    @abstractmethod
    def run_similar(self, request: SimilarBody) -> SimilarResponse: ...

    @abstractmethod
    def run_citations(self, request: EdgeBody) -> CitationsResponse: ...

    @abstractmethod
    def run_references(self, request: EdgeBody) -> CitationsResponse: ...

    @abstractmethod
    def run_expand(self, request: ExpandBody) -> ExpandResponse: ...

    @abstractmethod
    def run_sql(self, request: SqlBody) -> SqlResponse: ...

    @abstractmethod
    def sql_schema(self) -> dict[str, Any]:
        """The views, functions and limits of SQL statements, for a model to read."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the ranking settings, the rerankers and the manifest."""

    @abstractmethod
    def close(self) -> None:
        """Release what is open. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- search -----------------------------------------------------------------------------------------

    def search(
        self,
        q: str,
        *,
        syntax: Syntax = "auto",
        mode: Mode | None = None,
        engine: Engine | None = None,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        fields: Sequence[str] | None = None,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        author: Sequence[str] = (),
        min_citations: int | None = None,
        status: Sequence[str] = (),
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        exact: bool = False,
        min_similarity: float | None = None,
        explain: bool = False,
        rerank: str | None = None,
        rerank_depth: int = DEFAULT_RERANK_DEPTH,
        partial: bool = False,
        timeout: float | None = None,
    ) -> SearchResponse:
        """Search for papers. For every list, one string is accepted too.

        Args:
            q: a question or words, a title, an id or a link, or query syntax: ``"a phrase"``, AND, OR, NOT,
                ``prefix*``, ``title:word``.
            syntax: ``plain`` reads ``q`` as words, ``query`` as query syntax. ``auto`` reads it as query syntax if it
                contains some; if that is invalid, or prose that fewer than ten papers match, it ranks the words and
                the response has a warning.
            mode: ``sparse`` (by words), ``dense`` (by meaning) or ``hybrid`` (both). None: hybrid if the library
                supports it, else sparse.
            engine: the sparse leg: ``bm25``, ``feedback``, ``fts5`` or ``learned``. None: fts5 for query syntax, else
                bm25.
            limit: the number of results, 1 to 1000.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            fields: the fields of each paper, such as ``["title", "year"]``; None returns all. ``id`` is always there.
            from_: only papers from this date on: YYYY, YYYY-MM or YYYY-MM-DD.
            to: only papers up to this date.
            category: only papers in one of these arXiv categories (``cs.CL``) or archives (``cs``).
            venue: only papers from one of these venues, by any of their names.
            author: only papers by one of these authors: an id, or a name, which stands for all authors that
                ``search_authors`` finds by it. Authors that the library does not have are named in the ``warnings``
                of the response.
            min_citations: only papers with at least this many citations worldwide.
            status: only papers with one of these statuses: ``active`` (neither withdrawn nor retracted), ``withdrawn``
                or ``retracted``.
            exclude: leave out papers whose title or abstract contains one of these phrases.
            exclude_ids: leave out these papers, by ids of any form. Ids that the library does not hold are named in
                the ``warnings`` of the response.
            within: search only these papers, by ids of any form, or those of a named set, as ``set:NAME``.
            as_of: the library on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM), without later papers.
            exact: search dense vectors without approximation, and count every match.
            min_similarity: the least cosine of a dense result, -1 to 1, in place of the library's own limit.
            explain: show what each leg contributed to a result, and which words of ``q`` the paper contains.
            rerank: the name of a reranker that the library was opened with, which sorts the first papers again by
                their titles and abstracts.
            rerank_depth: the number of first papers that it sorts, 1 to 200.
            partial: if a leg or the reranker fails, return the results of the others and name it in ``failed_legs``.
            timeout: seconds that the search may take. A server has a limit of its own.

        Raises:
            InvalidRequest: an argument is invalid.
            UnsupportedMode: this library has no index for the mode or engine.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold a paper in ``within`` (as of ``as_of``).
            EncoderError, VectorIndexError, LibraryCorrupt, RerankerError: a leg or the reranker failed, and
                ``partial`` is off.
            TimeLimit: the search took longer than its time limit.
        """
        return self.run(search_request(**arguments_of(locals())))

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]:
        """Run many searches, in order. A client sends up to 100 in one HTTP request.

        Args:
            requests: each a :class:`SearchRequest` or the arguments of one ``search``.

        Raises: as ``search``, for the first request that fails. The message names it.
        """
        return self.run_searches(search_requests(requests))

    def iter_search(
        self, q: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[SearchArguments]
    ) -> Iterator[Hit]:
        """The results of a search, page by page, each paper once.

        Args:
            q: a question, words or query syntax.
            limit: the number of results; None for all that paging reaches: 10,000, or ``fusion_depth`` in a hybrid
                search.
            offset: the number of results to skip.
            arguments: the other arguments of ``search``.

        Raises: as ``search``.
        """
        return self._pages(
            lambda size, start: self.search(q, limit=size, offset=start, **arguments), limit, offset
        )

    # -- titles and papers ------------------------------------------------------------------------------

    def match_title(
        self,
        title: str,
        *,
        limit: int = DEFAULT_MATCHES,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> TitleMatchResponse:
        """The papers with this title, then papers with similar titles, best match first.

        Args:
            title: the title, possibly with typing errors or without its subtitle.
            limit: the number of matches, 1 to 100.
            min_score: the minimum similarity, above 0 and at most 1 (the same title).
            as_of: only papers published up to this day (YYYY-MM-DD) or month (YYYY-MM).
            fields: the fields of each paper; None returns all.
            timeout: seconds that the title match may take.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: the title match took longer than its time limit.
        """
        return self.run_title(TitleParameters.of(**arguments_of(locals())))

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> list[TitleMatchResponse]:
        """Match many titles, in order.

        Args:
            titles: the titles.
            limit: the number of matches for each title, 1 to 100.
            min_score, as_of, fields: as in ``match_title``.
            timeout: seconds that each request of up to 1,000 titles may take.

        Raises: as ``match_title``. The message names the title.
        """
        options = {"limit": limit, "min_score": min_score, "as_of": as_of, "fields": fields}
        return self._match_all(titles, **options, timeout=timeout)

    def check_references(
        self,
        references: str,
        *,
        input_format: ReferenceFormat = "auto",
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> CheckResponse:
        """Find the paper that each reference of a bibliography means, and where the two differ.

        Args:
            references: BibTeX, RIS or CSL-JSON, or one reference, DOI or id per line, of any length.
            input_format: ``bibtex``, ``ris``, ``csl-json`` or ``text``; ``auto`` looks at the content.
            as_of: only papers published up to this day (YYYY-MM-DD) or month (YYYY-MM).
            fields: the fields of each paper; None returns all.
            timeout: seconds that each request of up to 1,000 references may take.

        Raises:
            InvalidRequest: an argument is invalid, or the text has no references in this format. An entry that cannot
                be read is a result with the status ``unreadable``.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: a reference took longer than the time limit.
        """
        return self._check_all(**arguments_of(locals()))

    def paper(
        self,
        paper_id: str,
        *,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Paper:
        """The paper with an id of any form.

        Args:
            paper_id: such as ``arXiv:1706.03762``, ``DOI:...``, ``CorpusId:...`` or a link.
            as_of: as if on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM).
            fields: the fields of the paper; None returns all.
            timeout: seconds that the look-up may take.

        Raises:
            InvalidRequest: the id or another argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
        """
        return self._paper(PaperBody.of(**arguments_of(locals())))

    def papers(
        self,
        ids: Sequence[str],
        *,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> list[Paper | None]:
        """Many papers, in order; None for a paper that the library does not hold (as of ``as_of``).

        Args:
            ids: ids of any form.
            as_of, fields, timeout: as in ``paper``.

        Raises:
            InvalidRequest: an id is invalid.
            NothingLeft: ``as_of`` is before every paper.
        """
        listed = check_ids(ids, "ids")
        if not listed:
            return []
        return self._papers(PaperBatchBody.of(ids=listed, as_of=as_of, fields=fields, timeout=timeout))

    def similar(
        self,
        paper_id: str,
        *,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        author: Sequence[str] = (),
        min_citations: int | None = None,
        status: Sequence[str] = (),
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        exact: bool = False,
        explain: bool = False,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> SimilarResponse:
        """The papers similar to a paper, without the paper itself: those nearest to its dense vector, fused by
        reciprocal rank with those most often cited together with it.

        A library without dense vectors has only the latter, one without citations only the former.

        Args:
            paper_id: an id of any form.
            limit: the number of results, 1 to 1000.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            from_, to, category, venue, author, min_citations, status, exclude, exclude_ids, within: as in ``search``,
                for the results.
            as_of: as if on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM), without later papers, also
                among those that cite both.
            exact: compare with every vector, without approximation.
            explain: show what the legs ``dense`` (a cosine) and ``cocitation`` (the number of papers that cite both)
                contributed to a result.
            fields: the fields of each paper; None returns all.
            timeout: seconds that the request may take.

        Raises:
            InvalidRequest: an argument is invalid.
            UnsupportedMode: the library has neither dense vectors nor citations.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper or one in ``within`` (as of ``as_of``).
            VectorIndexError, LibraryCorrupt: a leg failed.
            TimeLimit: the request took longer than its time limit.
        """
        return self.run_similar(SimilarBody.of(**arguments_of(locals())))

    def iter_similar(
        self,
        paper_id: str,
        *,
        limit: int | None = None,
        offset: int = 0,
        **arguments: Unpack[SimilarArguments],
    ) -> Iterator[Hit]:
        """All similar papers, page by page, up to ``limit`` or ``fusion_depth``. The other arguments are those of
        ``similar``."""
        return self._pages(
            lambda size, start: self.similar(paper_id, limit=size, offset=start, **arguments), limit, offset
        )

    # -- citations --------------------------------------------------------------------------------------

    def citations(
        self,
        paper_id: str,
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        author: Sequence[str] = (),
        status: Sequence[str] = (),
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> CitationsResponse:
        """The papers of this library that cite the paper.

        Args:
            paper_id: an id of any form.
            limit: the number of results, 1 to 1000.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            sort: ``-citation_count`` (most cited first), ``-date`` (newest first), ``citation_count`` or ``date``.
                None: most cited first, or newest first with ``as_of``.
            from_: only papers from this date on: YYYY, YYYY-MM or YYYY-MM-DD.
            to: only papers up to this date.
            author: only papers by one of these authors, as in ``search``.
            status: only papers with one of these statuses, as in ``search``.
            as_of: as if on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM).
            fields: the fields of each paper; None returns all.
            timeout: seconds that the request may take.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
            TimeLimit: the request took longer than its time limit.
        """
        return self.run_citations(EdgeBody.of(**arguments_of(locals())))

    def references(
        self,
        paper_id: str,
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        author: Sequence[str] = (),
        status: Sequence[str] = (),
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> CitationsResponse:
        """The papers of this library that the paper cites. Arguments and errors are those of ``citations``."""
        return self.run_references(EdgeBody.of(**arguments_of(locals())))

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[EdgeArguments]
    ) -> Iterator[Citation]:
        """All citations, page by page, up to ``limit``. The other arguments are those of ``citations``."""
        return self._pages(
            lambda size, start: self.citations(paper_id, limit=size, offset=start, **arguments), limit, offset
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[EdgeArguments]
    ) -> Iterator[Citation]:
        """All references, page by page, up to ``limit``. The other arguments are those of ``citations``."""
        return self._pages(
            lambda size, start: self.references(paper_id, limit=size, offset=start, **arguments),
            limit,
            offset,
        )

    def expand(
        self,
        seeds: Sequence[str],
        *,
        direction: Direction = "both",
        hops: int = 1,
        citations_per_seed: int | None = None,
        references_per_seed: int | None = None,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        author: Sequence[str] = (),
        min_citations: int | None = None,
        status: Sequence[str] = (),
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> ExpandResponse:
        """The neighbours of a set of papers in the citation graph, each once, without the seeds.

        Papers that most seeds reach come first.

        Args:
            seeds: the papers to start from, by ids of any form.
            direction: follow ``citations`` (papers that cite the seeds), ``references`` (papers that the seeds cite)
                or ``both``.
            hops: 1, or 2 for the neighbours of neighbours too.
            citations_per_seed, references_per_seed: at most this many citing papers and references of each seed, and
                with two hops of each paper that a seed reaches: the most cited that pass the filters, or the newest
                with ``as_of``. None follows all.
            limit: the number of results, 1 to 1000.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            from_, to, category, venue, author, min_citations, status, exclude, exclude_ids, within: as in ``search``,
                for the neighbours.
            as_of: as if on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM).
            fields: the fields of each paper; None returns all.
            timeout: seconds that the expansion may take.

        Raises:
            TimeLimit: the expansion took longer than its time limit.
            InvalidRequest: an argument is invalid, or there are too many edges to follow.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold a seed or a paper in ``within`` (as of ``as_of``).
        """
        return self.run_expand(ExpandBody.of(**arguments_of(locals())))

    # -- SQL --------------------------------------------------------------------------------------------

    def sql(
        self,
        query: str,
        *,
        limit: int = DEFAULT_ROWS,
        as_of: str | None = None,
        timeout: float | None = None,
    ) -> SqlResponse:
        """The rows of one SELECT over the views of ``sql_schema``, in SQLite's dialect.

        Args:
            query: one SELECT, WITH ... SELECT or VALUES.
            limit: the most rows, 1 to 10,000.
            as_of: only papers published up to this day (YYYY-MM-DD) or month (YYYY-MM).
            timeout: seconds that the statement may take; on a library by default the setting ``timeout``.

        Raises:
            InvalidSql: the statement is malformed, not allowed, or needs too much memory.
            InvalidRequest: another argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            SqlOff: the server runs no SQL.
            TimeLimit: the statement took longer than its time limit.
            Busy: too many statements run.
        """
        return self.run_sql(SqlBody.of(**arguments_of(locals())))
