"""Papers and their authors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import listed
from scholarbase.models.status import Notice, PaperStatus

EXAMPLE_ID: Final = "arXiv:hep-th/9301068"


class Author(msgspec.Struct, frozen=True):
    name: str
    author_id: str | None = None
    is_group: Annotated[
        bool | UnsetType,
        Meta(
            description="Present, and true, where a bibliography marks the name as that of an organisation."
        ),
    ] = UNSET


class Journal(msgspec.Struct, frozen=True):
    """Where a paper was published; a part that the source does not know is None."""

    name: str | None = None
    volume: str | None = None
    pages: str | None = None


class AsWritten(msgspec.Struct, frozen=True):
    """The title and the abstract of a paper with the TeX or MathML of their formulas, as its source has them; None for
    a text without formulas."""

    title: str | None = None
    abstract: str | None = None


class Paper(msgspec.Struct, frozen=True):
    """A paper. Fields that are unknown or were not requested are None or empty.

    ``citation_count`` and ``reference_count`` are the source's worldwide counts, and None with ``as_of``. The ``total``
    of a citations or references response is the number of edges in this library.
    """

    id: Annotated[str, Meta(description="The canonical id.", examples=[EXAMPLE_ID])]
    corpus_id: Annotated[int | None, Meta(description="Semantic Scholar's corpus id.")] = None
    external_ids: Annotated[
        dict[str, str],
        Meta(description="Ids by scheme; every request accepts `scheme:value` as an id."),
    ] = {}
    title: str | None = None
    abstract: str | None = None
    tldr: Annotated[
        str | None, Meta(description="A one-sentence summary of the paper, by Semantic Scholar.")
    ] = None
    authors: Annotated[
        tuple[Author, ...],
        Meta(description="In a response with `max_tokens`, and in those of tools, one line of text."),
    ] = ()
    year: int | None = None
    publication_date: Annotated[str | None, Meta(description="YYYY-MM-DD.")] = None
    venue: str | None = None
    journal: Annotated[
        Journal | None,
        Meta(description="From Semantic Scholar, else arXiv's journal reference as its `name` alone."),
    ] = None
    publication_types: Annotated[
        tuple[str, ...],
        Meta(description="From Semantic Scholar or OpenAlex, such as `JournalArticle` or `Review`."),
    ] = ()
    status: Annotated[
        PaperStatus | None,
        Meta(
            description="`withdrawn` by its authors or arXiv, or `retracted` by its publisher; null for other papers. "
            "With `as_of`, only a retraction of a known date counts."
        ),
    ] = None
    categories: Annotated[tuple[str, ...], Meta(description="arXiv categories.")] = ()
    fields_of_study: Annotated[
        tuple[str, ...],
        Meta(description="From Semantic Scholar, such as `Physics`, or the topics of OpenAlex."),
    ] = ()
    is_open_access: Annotated[
        bool | None,
        Meta(description="True for papers on arXiv, else from the source; null if unknown."),
    ] = None
    comment: Annotated[
        str | None, Meta(description="The authors' comment on arXiv, such as the number of pages.")
    ] = None
    versions: Annotated[
        tuple[str | None, ...],
        Meta(
            description="The times of the versions on arXiv, first to last: `2007-04-02T19:18:42Z`, `2007-04-02` if "
            "the source has only the day, null if it has none."
        ),
    ] = ()
    update_date: Annotated[
        str | None, Meta(description="The day of arXiv's last change of the record, YYYY-MM-DD.")
    ] = None
    citation_count: Annotated[
        int | None, Meta(description="Worldwide, from the source; null if unknown, or with `as_of`.")
    ] = None
    reference_count: Annotated[
        int | None, Meta(description="From the source; null if unknown, or with `as_of`.")
    ] = None
    url: str | None = None
    as_written: Annotated[
        AsWritten | UnsetType | None,
        Meta(
            description="The texts with formulas as their author wrote them; null if there are none. Only where "
            "`fields` names it."
        ),
    ] = UNSET
    notices: Annotated[
        tuple[Notice, ...] | UnsetType,
        Meta(
            description="Retractions, corrections, expressions of concern and reinstatements, the earliest first; with "
            "`as_of` those up to that day. Only where `fields` names it."
        ),
    ] = UNSET

    @property
    def retraction_date(self) -> str | None:
        """The day of a retracted paper's last retraction, ``YYYY-MM-DD``; None if ``notices`` have none."""
        if self.status != "retracted" or isinstance(self.notices, UnsetType):
            return None
        return next((notice.date for notice in reversed(self.notices) if notice.kind == "retraction"), None)

    def to_dict(self, fields: Sequence[str] | None = None) -> dict[str, Any]:
        """The paper's JSON, with all fields or only those in ``fields``."""
        content: dict[str, Any] = orjson.loads(msgspec.json.encode(self))
        return content if fields is None else {name: content.get(name) for name in fields}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Paper:
        """Parse a paper's JSON. Unknown keys, which a newer server may send, are ignored.

        Raises:
            ValueError: a key is missing or has the wrong type.
        """
        return msgspec.convert(data, cls)


ALL_FIELDS: Final = Paper.__struct_fields__
PAPER_FIELDS: Final = tuple(name for name in ALL_FIELDS if name not in {"as_written", "notices"})
"""The fields of a paper in a response to a request that names none."""


def check_fields(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """The requested fields in the order of :class:`Paper`, always with ``id``; those of :data:`PAPER_FIELDS` if None.

    A string is one name, or several separated by commas.

    Raises:
        InvalidRequest: not a list of strings, or a name is not a field of a paper.
    """
    if names is None:
        return PAPER_FIELDS
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    names = listed(names, "fields")
    unknown = [name for name in names if name not in ALL_FIELDS]
    if unknown:
        raise InvalidRequest(f"Unknown field {unknown[0]!r} in fields: a paper has {', '.join(ALL_FIELDS)}.")
    wanted = {"id", *names}
    checked = tuple(name for name in ALL_FIELDS if name in wanted)
    return PAPER_FIELDS if checked == PAPER_FIELDS else checked
