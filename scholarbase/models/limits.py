"""Allowed values of requests: modes, engines, sorts, and the maximum size of lists, texts and pages."""

from __future__ import annotations

from typing import Final, Literal, get_args

Mode = Literal["hybrid", "sparse", "dense"]
Engine = Literal["bm25", "feedback", "fts5", "learned"]
Fusion = Literal["scores", "rrf"]
KeepRule = Literal["text", "arxiv", "title"]
Profile = Literal["default", "scholarquest"]
Syntax = Literal["auto", "plain", "query"]
Negation = Literal["auto", "off"]
Prefer = Literal["none", "recent", "cited"]
Direction = Literal["citations", "references", "both"]
CitationSort = Literal["-citation_count", "citation_count", "-date", "date"]
TotalRelation = Literal["eq", "gte"]
Counted = Literal["filters", "results", "matches"]
ReferenceFormat = Literal["auto", "bibtex", "ris", "csl-json", "text"]
ReferenceStatus = Literal["held", "near", "withdrawn", "retracted", "not_in_snapshot", "unreadable"]
ExportFormat = Literal["bibtex", "ris", "csl", "csv"]
ResponseFormat = Literal["json", "text", "bibtex", "ris", "csl", "csv"]
SchemaForm = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp"]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)
SYNTAXES: Final[tuple[Syntax, ...]] = get_args(Syntax)
SCHEMA_FORMS: Final[tuple[SchemaForm, ...]] = get_args(SchemaForm)
EXPORT_FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
REFERENCE_FORMATS: Final[tuple[ReferenceFormat, ...]] = get_args(ReferenceFormat)
REFERENCE_STATUSES: Final[tuple[ReferenceStatus, ...]] = get_args(ReferenceStatus)
CITATION_SORTS: Final[tuple[CitationSort, ...]] = get_args(CitationSort)

DEFAULT_RESULTS: Final = 10
"""Results of a search, unless the request says otherwise: the same over HTTP, in Python, in tools and commands."""
DEFAULT_FACET_VALUES: Final = 20
"""Categories and venues of facets by default."""
FACET_RESULTS: Final = 1000
"""First results of a search that facets count."""
DEFAULT_EDGES: Final = 25
"""Citations, references or neighbours on a page by default."""
DEFAULT_MATCHES: Final = 5
"""Matches of a title by default; in a batch of titles, one each."""
MAX_LIMIT: Final = 1000
"""Results per page."""
MAX_DEPTH: Final = 10_000
"""The last result that a sparse or dense search can page to: ``offset + limit``."""
DEFAULT_RERANK_DEPTH: Final = 50
"""First papers of a search that a reranker sorts, unless the request says otherwise."""
MAX_RERANK_DEPTH: Final = 200
"""First papers of a search that a reranker sorts at most. A cross-encoder takes milliseconds for each."""
MAX_RERANK_MS: Final = 600_000
"""The longest time budget of a reranker in milliseconds."""
MAX_RERANKER_NAME: Final = 64
"""Characters of a reranker's name."""
MAX_QUERY_LENGTH: Final = 10_000
"""Characters of a query. A whole abstract fits."""
MAX_IDS: Final = 10_000
"""Ids in one list: of a batch, ``within``, ``exclude_ids`` or the seeds of an expansion."""
MAX_AUTHORS: Final = 500
"""Authors in one batch."""
MAX_PHRASES: Final = 20
"""Phrases in one ``exclude``."""
MAX_PHRASE_LENGTH: Final = 500
"""Characters of a phrase to exclude."""
MAX_BATCH: Final = 100
"""Searches in one HTTP request."""
MAX_PAPERS: Final = 10_000
"""Papers in one response. A search has at most 1,000; the limits of a batch are added up."""
MAX_TITLES: Final = 1000
"""Titles in one HTTP request."""
MAX_TITLE_LENGTH: Final = 2000
"""Characters of a title that is matched; of longer titles of papers, the first."""
MAX_NAME_LENGTH: Final = 500
"""Characters of a category, a venue or an author's name."""
MAX_AUTHOR_ID_LENGTH: Final = MAX_NAME_LENGTH + len("name:")
"""Characters of an author's id."""
MAX_TITLE_MATCHES: Final = 100
"""Matches of one title."""
MIN_TITLE_SCORE: Final = 0.7
"""The default similarity of titles; :mod:`scholarbase.indexes.titles` has the measurements."""
MAX_REFERENCES: Final = 1000
"""References that one HTTP request checks."""
MAX_REFERENCE_BYTES: Final = 1_000_000
"""Bytes of these references in UTF-8."""
MAX_NEAR: Final = 3
"""Papers that are shown for a reference that is near several."""
MAX_TIMEOUT: Final = 3600
"""Seconds that a request may ask for. A server's limit is usually lower."""
MAX_GRAPH_WEIGHT: Final = 10
MIN_TOKENS: Final = 100
"""The smallest ``max_tokens``: a response without papers fits."""
MAX_TOKENS: Final = 1_000_000
"""The largest ``max_tokens``."""
