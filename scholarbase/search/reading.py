"""How the text of a search is read: as words, or as query syntax.

With ``syntax=auto`` a text that contains query syntax is read strictly, with two exceptions: invalid syntax, and prose
that fewer than :data:`FEW` papers match. Quotation marks, parentheses and capitals in a pasted question or abstract are
seldom meant as operators. Such a text is ranked by its words, after the papers that match it strictly, and the response
has a warning.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.models.limits import Syntax
from scholarbase.search.lookup import MAX_SYNTAX_MATCHES

FEW: Final = 10
"""Matches that prose in query syntax must have."""


class Reading(NamedTuple):
    """A text as query syntax."""

    expression: str | None = None
    """The FTS5 expression; None if the text is ranked by its words."""
    matches: frozenset[int] | None = None
    """The papers that match the expression and pass the filters, if a hybrid search needs them."""
    warnings: tuple[str, ...] = ()
    first: str | None = None
    """The FTS5 expression of the few papers that come before a ranking by words."""


def read(q: str, syntax: Syntax, filters: ResolvedFilters, papers: Catalog, *, hybrid: bool) -> Reading:
    """Read a text with ``syntax`` auto or query.

    Raises:
        InvalidRequest: ``syntax`` is query, and the text is malformed or matches too many papers.
    """
    if syntax == "auto" and not query_syntax.is_syntax(q):
        return Reading()
    try:
        expression = query_syntax.compile(q)
        matches = _matches(expression, filters, papers) if hybrid else None
    except InvalidRequest as error:
        if syntax == "query":
            raise
        return Reading(warnings=(f"q is ranked as plain text, because its query syntax is invalid. {error}",))
    if syntax == "auto" and query_syntax.is_prose(q):
        some = papers.matching_ids(expression, FEW, filters) if matches is None else matches
        if len(some) < FEW:
            count = {0: "no paper matches", 1: "only 1 paper matches"}.get(
                len(some), f"only {len(some)} papers match"
            )
            first = {0: "", 1: ", which comes first"}.get(len(some), ", which come first")
            warning = (
                f"q is ranked as plain text, because {count} it as query syntax{first}: "
                "use syntax=query for those alone."
            )
            return Reading(warnings=(warning,), first=expression if some else None)
    return Reading(expression, matches)


def _matches(expression: str, filters: ResolvedFilters, papers: Catalog) -> frozenset[int]:
    """The papers to which a hybrid search limits its dense leg."""
    matches = papers.matching_ids(expression, MAX_SYNTAX_MATCHES + 1, filters)
    if len(matches) > MAX_SYNTAX_MATCHES:
        raise InvalidRequest(
            f"The query matches more than {MAX_SYNTAX_MATCHES:,} papers, too many for a hybrid search: "
            "use mode 'sparse', or add required words."
        )
    return frozenset(matches)
