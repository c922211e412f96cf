"""Requests of full texts and passages."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_filled, check_text, check_whole, elements, shown
from scholarbase.models.limits import DEFAULT_RESULTS, MAX_QUERY_LENGTH, Mode, Syntax
from scholarbase.models.requests import Filters, ResponseOptions, Timed
from scholarbase.models.values import AsOf, ExcludeSeen, FieldNames, Offset, PaperId, whole_of

MAX_PASSAGES: Final = 100
"""Passages on a page. One has some thousand characters."""
MAX_PASSAGE_DEPTH: Final = 1000
"""The last passage that a search can page to: ``offset + limit``."""
MAX_CONTEXTS: Final = 100
MAX_PATTERN_LENGTH: Final = 1000
MAX_SURROUNDINGS: Final = 2000
PASSAGE_FIELDS: Final = ("id", "title", "year")
"""The fields of a passage's paper, unless the request names others."""

Chunking = Literal["tokens-512", "sentences-512", "sentences-10-1", "paragraphs"]
CHUNKINGS: Final[tuple[Chunking, ...]] = get_args(Chunking)
InPaperEngine = Literal["bm25", "dense", "hybrid"]
FindSyntax = Literal["words", "phrase", "regex"]
ContextDirection = Literal["citations", "references"]

Version = Annotated[
    int | None,
    *whole_of(
        "version",
        1,
        "The version of the paper; by default the one that an arXiv id names (`v1`), or else the latest one whose text "
        "the library has.",
        1,
        1_000_000,
    ),
]
PassageLimit = Annotated[
    int,
    *whole_of("limit", 5, f"The number of results, at most {MAX_PASSAGES}.", 1, MAX_PASSAGES),
]
PassageFields = Annotated[FieldNames, Field(description="The fields of each passage's paper.")]


Question = Annotated[
    str,
    Field(
        description="A question or words.",
        examples=["How large is the training set?"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_QUERY_LENGTH},
    ),
    AfterValidator(lambda text: check_filled(text, "q", MAX_QUERY_LENGTH, "the words to search for")),
]


class TextParameters(ResponseOptions, Timed):
    """What to read of a paper: without a section or an offset, the outline."""

    section: str | None = Field(
        default=None,
        description="Read this section with its subsections: its number (`2.1`), its title, or `#` and its place in "
        "the outline.",
        examples=["Introduction"],
        max_length=500,
    )
    from_offset: Annotated[
        int | None,
        *whole_of(
            "from_offset",
            0,
            "Read from this character of the text on: 0 is the start. Continue with `next_offset`.",
            0,
            2**31,
        ),
    ] = None
    version: Version = None
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.section is not None:
            check_text(self.section, "section")
            if not self.section.strip():
                raise InvalidRequest(
                    "section is empty: give a number, a title, or leave it out for the outline."
                )
        return self


class TextBody(TextParameters):
    """The outline of a paper's full text, or a part of the text."""

    paper_id: PaperId


class FindParameters(ResponseOptions, Timed):
    q: Annotated[
        str,
        Field(
            description="Words, a phrase, or a regular expression in the syntax of RE2.",
            examples=["learning rate"],
            json_schema_extra={"minLength": 1, "maxLength": MAX_PATTERN_LENGTH},
        ),
    ]
    syntax: FindSyntax = Field(
        default="phrase",
        description="How `q` is read: as a phrase, as words of which any may match, or as a regular expression. Case "
        "is ignored, except in a regular expression.",
        examples=["phrase"],
    )
    limit: PassageLimit = DEFAULT_RESULTS
    offset: Offset = 0
    context: Annotated[
        int,
        *whole_of(
            "context",
            200,
            f"Characters before and after a match, at most {MAX_SURROUNDINGS}.",
            0,
            MAX_SURROUNDINGS,
        ),
    ] = 200
    version: Version = None
    as_of: AsOf = None
    fields: PassageFields = PASSAGE_FIELDS

    @model_validator(mode="after")
    def _check_pattern(self) -> Self:
        check_filled(self.q, "q", MAX_PATTERN_LENGTH, "a word, a phrase or a regular expression")
        return self


class FindBody(FindParameters):
    """Where a text has words, a phrase or a pattern."""

    paper_id: PaperId


class PaperPassagesParameters(ResponseOptions, Timed):
    q: Question
    limit: PassageLimit = DEFAULT_RESULTS
    engine: InPaperEngine | None = Field(
        default=None,
        description="By words (bm25), by meaning (dense), or both (hybrid). By default hybrid if the library "
        "supports it, else bm25.",
        examples=["bm25"],
    )
    chunker: Chunking | None = Field(
        default=None,
        description="How the text is cut into passages; by default as in the index of the library.",
        examples=["sentences-10-1"],
    )
    offset: Offset = 0
    version: Version = None
    as_of: AsOf = None
    fields: PassageFields = PASSAGE_FIELDS


class PaperPassagesBody(PaperPassagesParameters):
    """The passages of one paper that answer a question."""

    paper_id: PaperId


class ReadBody(ResponseOptions, Timed):
    """What to read of a paper's full text: the outline, a section, from an offset on, the places of a text, or the
    passages that answer a question. Tools alone have it: the native routes have a request for each."""

    paper_id: PaperId
    section: str | None = Field(default=None, description="As in `text`.")
    find: str | None = Field(default=None, description="Show where the text has this.")
    syntax: FindSyntax | None = Field(default=None, description="How `find` is read, as in `find`.")
    q: str | None = Field(default=None, description="Show the passages that answer this question.")
    limit: int | None = Field(default=None, description="The number of places or passages.")
    offset: int | None = Field(
        default=None,
        description="The `next_offset` of the response before: of the text in characters, of places and passages their "
        "number.",
    )
    version: Version = None
    as_of: AsOf = None
    fields: PassageFields = ("id",)

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        named = [name for name in ("section", "find", "q") if getattr(self, name) is not None]
        if len(named) > 1:
            raise InvalidRequest(f"{' and '.join(named)} cannot be combined: send one of them.")
        if self.offset is not None:
            check_whole(self.offset, "offset", 0, 2**31)
        if self.limit is not None:
            check_whole(self.limit, "limit", 1, MAX_PASSAGES)
        if self.find is None and self.syntax is not None:
            raise InvalidRequest(
                f"syntax {self.syntax!r} says how find is read: send find too, or leave it out."
            )
        if self.find is None and self.q is None and self.limit is not None:
            raise InvalidRequest(
                f"limit is {self.limit}: it applies to find and q. Limit the size of a text with max_tokens."
            )
        return self

    @property
    def part(self) -> FindBody | PaperPassagesBody | TextBody:
        """The native request that reads this.

        Raises:
            InvalidRequest: a value is invalid.
        """
        same = {name: getattr(self, name) for name in ("paper_id", "version", "as_of", "timeout")}
        if self.find is None and self.q is None:
            return TextBody.of(section=self.section, from_offset=self.offset, **same)
        same |= {"fields": self.fields, "offset": self.offset or 0}
        same |= {} if self.limit is None else {"limit": self.limit}
        if self.q is not None:
            return PaperPassagesBody.of(q=self.q, **same)
        return FindBody.of(q=self.find, syntax=self.syntax or "phrase", **same)


class PassageSearch(Filters, Timed):
    """A search of the passages of all papers."""

    q: Question
    syntax: Syntax = Field(
        default="auto",
        description="How `q` is read: as words (plain), as query syntax (query), or as query syntax if it contains "
        "some (auto).",
        examples=["plain"],
    )
    mode: Mode | None = Field(
        default=None,
        description="By words (sparse), by meaning (dense), or both (hybrid). By default hybrid if the library "
        "supports it, else sparse.",
        examples=["hybrid"],
    )
    limit: PassageLimit = DEFAULT_RESULTS
    offset: Offset = 0
    per_paper: Annotated[
        int | None,
        *whole_of(
            "per_paper",
            1,
            "At most so many passages of a paper, which come together; papers are in the order of their best passages. "
            "By default passages are in the order of their own scores.",
            1,
            MAX_PASSAGES,
        ),
    ] = None
    exact: bool = Field(
        default=False, description="Search dense vectors without approximation.", examples=[False]
    )
    fields: PassageFields = PASSAGE_FIELDS

    @model_validator(mode="after")
    def _check_page(self) -> Self:
        if self.offset + self.limit > MAX_PASSAGE_DEPTH:
            raise InvalidRequest(
                f"offset {self.offset} and limit {self.limit} end after passage {MAX_PASSAGE_DEPTH:,}: narrow the "
                "search with filters instead."
            )
        if self.syntax == "query" and self.mode == "dense":
            raise InvalidRequest(
                "syntax 'query' cannot be combined with mode 'dense', which has no query syntax: leave one out."
            )
        return self


class PassageSearchBody(PassageSearch, ResponseOptions):
    exclude_seen: ExcludeSeen = False


class ContextParameters(ResponseOptions, Timed):
    direction: ContextDirection = Field(
        default="citations",
        description="What other papers say where they cite this one (citations), or what this paper says where it "
        "cites others (references).",
        examples=["citations"],
    )
    limit: Annotated[
        int,
        *whole_of("limit", 10, f"The number of results, at most {MAX_CONTEXTS}.", 1, MAX_CONTEXTS),
    ] = DEFAULT_RESULTS
    offset: Offset = 0
    version: Version = None
    as_of: AsOf = None
    fields: PassageFields = PASSAGE_FIELDS


class ContextBody(ContextParameters):
    """The sentences around citation marks."""

    paper_id: PaperId


def _box(value: Any) -> Any:
    """A box from four numbers, or from a string of them with commas."""
    if value is None:
        return None
    parts = value.split(",") if isinstance(value, str) else elements(value)
    if parts is not None and len(parts) == 1 and isinstance(parts[0], str):
        parts = parts[0].split(",")
    try:
        numbers = tuple(float(part) for part in parts or ())
    except (TypeError, ValueError):
        numbers = ()
    if parts is not None and not parts:
        return None
    if len(numbers) != 4 or any(isinstance(part, bool) for part in parts or ()):
        raise InvalidRequest(
            f"box is {shown(value)}: it must be x,y,width,height in points, such as 72,72,300,200."
        )
    return numbers


Box = Annotated[
    tuple[float, float, float, float] | None,
    BeforeValidator(_box),
    Field(
        description="The part of the page to draw: x, y, width and height in points from its top left corner. By "
        "default the whole page.",
        examples=["72,72,300,200"],
    ),
]


class PageParameters(Timed):
    box: Box = None
    version: Version = None
    as_of: AsOf = None


class PageBody(PageParameters):
    """The image of a page."""

    paper_id: PaperId
    page: Annotated[
        int,
        Field(description="The number of the page, from 1.", examples=[1]),
        AfterValidator(lambda value: check_whole(value, "page", 1, 1_000_000)),
    ]
