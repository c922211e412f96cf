"""Native calls of a dialect's request: one method per kind, with the date of the request, and what they returned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scholarbase.api.admission import Load
from scholarbase.errors import InvalidRequest, NothingLeft, PaperNotFound, TimeLimit
from scholarbase.indexes import query_syntax
from scholarbase.indexes.query_syntax import MAX_WORDS
from scholarbase.models.author_requests import AuthorPapersBody, AuthorSearchParameters
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.checks import check_author_id, date_bounds
from scholarbase.models.limits import MAX_AUTHORS, MAX_IDS, MAX_LIMIT, MAX_QUERY_LENGTH, MAX_TITLE_LENGTH
from scholarbase.models.papers import PAPER_FIELDS, Paper
from scholarbase.models.requests import (
    EdgeBody,
    PaperBatchBody,
    Request,
    SearchBody,
    SimilarBody,
    TitleBatchBody,
)
from scholarbase.models.responses import (
    AuthorPapersResponse,
    AuthorsResponse,
    CheckedReference,
    CitationsResponse,
    Hit,
    SearchResponse,
    SimilarResponse,
    TitleMatch,
    Unfinished,
)
from scholarbase.search.library import Library
from scholarbase.tools.definitions import SIMILAR, tool_named
from scholarbase.tools.tool import Tool
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import Among, Condition, ListOrder, Text, every

SAME_TITLE: Final = 0.95
"""The least similarity of a title that a text is taken for."""
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def plain_query(text: str) -> str:
    """A query without characters that no text has, as long as one may be; empty if nothing is left."""
    return _UNREADABLE.sub(" ", text).strip()[:MAX_QUERY_LENGTH]


@dataclass(slots=True)
class Calls:
    """The native calls of one request of a dialect. Their papers are those of the session's call.

    Args:
        as_of: the date of the request, from its header or its session.
        load: what the server does besides.
        begun: the recorded arguments, and the ids and scores of the papers, of each call of the session.
    """

    library: Library
    as_of: str | None = None
    load: Load = field(default_factory=Load)
    begun: list[tuple[Mapping[str, Any], list[str], list[float]]] = field(default_factory=list)

    def unrecorded(self) -> Calls:
        """Calls on the same library as of the same date, whose papers are not those of the session's call."""
        return Calls(self.library, self.as_of)

    def show(self, ids: Sequence[str], **arguments: Any) -> None:
        """Record that the answer shows only these papers of the last call.

        Args:
            arguments: those with which a native call would return them.
        """
        recorded, returned, scores = self.begun.pop()
        known = dict(zip(returned, scores, strict=True)) if len(scores) == len(returned) else {}
        self.begun.append(
            ({**recorded, **arguments}, list(ids), [known[paper_id] for paper_id in ids if paper_id in known])
        )

    def search(self, q: str, **arguments: Any) -> SearchResponse:
        """Search for a text, which is read as plain words, exclusions too. Raises as ``Library.search``.

        A text without readable characters finds nothing, and so do dates that exclude each other.
        """
        text = plain_query(q)
        arguments = {
            "syntax": "plain",
            "negation": "off",
            **arguments,
            "as_of": self._date(arguments.pop("as_of", None)),
        }
        if not text or _excludes_all(arguments):
            recorded = {name: value for name, value in {"q": q, **arguments}.items() if value}
            self.begun.append((recorded, [], []))
            return SearchResponse(self.library.snapshot_id, "sparse", None, 0, "eq", None, ())
        request = SearchBody.of(q=text, **{k: v for k, v in arguments.items() if v is not None})
        response: SearchResponse = self._run(tool_named("search_papers"), request)
        return response

    def search_meeting(
        self,
        q: str,
        condition: Condition,
        recorded: Mapping[str, Any],
        *,
        limit: int,
        fields: Sequence[str],
        **filters: Any,
    ) -> tuple[int, list[Hit]]:
        """The results of a search that meet a condition, of the whole ranking, and their number. Raises as
        :meth:`search`.

        The first ``MAX_LIMIT`` results are compared with the condition. If at least ``limit`` of them meet it, the
        number is of these. Else all papers that do are searched, or if these are more than ``MAX_IDS``, those with a
        word of the query come last, with score 0.

        Args:
            recorded: the arguments that a session records.
            filters: those of the native search. The condition includes them.
        """
        begun = len(self.begun)
        hits = self.search(q, limit=MAX_LIMIT, fields=fields, **filters).results
        known = self.meeting([hit.paper.id for hit in hits], condition)
        kept = [hit for hit in hits if hit.paper.id in known]
        total = len(kept)
        if total < limit and hits:
            others: Sequence[Hit] = ()
            count, ids = self._ids(condition)
            if count <= MAX_IDS and ids:
                within = self.search(q, limit=MAX_LIMIT, fields=fields, within=sorted(ids), **filters)
                total, others = within.total, within.results
            elif words := query_syntax.free_text(" ".join(plain_query(q).split()[:MAX_WORDS])):
                total, papers = self.listed(every([Text(words), condition]), {}, limit=limit, fields=fields)
                others = [Hit(0.0, paper) for paper in papers]
            kept += [hit for hit in others if hit.paper.id not in known]
            total = max(total, len(kept))
        del self.begun[begun:]
        kept = kept[:limit]
        arguments = {"q": q, **recorded, "limit": limit, **({"as_of": self.as_of} if self.as_of else {})}
        self.begun.append((arguments, [hit.paper.id for hit in kept], [hit.score for hit in kept]))
        return total, kept

    def meeting(self, ids: Sequence[str], condition: Condition) -> set[str]:
        """Those of some papers, by canonical ids, that meet a condition. Not recorded."""
        numbers = lists.held(self.library, ids, as_of=self.as_of)
        return self._ids(Among("id", numbers), condition)[1] if numbers else set()

    def _ids(self, *conditions: Condition) -> tuple[int, set[str]]:
        """How many papers meet all conditions, and the ids of ``MAX_IDS`` of them at most."""
        total, hits = lists.listed(
            self.library, every(conditions), order="place", limit=MAX_IDS, fields=("id",), as_of=self.as_of
        )
        return total, {hit.paper.id for hit in hits}

    def listed(
        self, condition: Condition | None, recorded: Mapping[str, Any], **page: Any
    ) -> tuple[int, list[Paper]]:
        """The papers of :meth:`hits`, which takes the same arguments."""
        total, hits = self.hits(condition, recorded, **page)
        return total, [hit.paper for hit in hits]

    def hits(
        self,
        condition: Condition | None,
        recorded: Mapping[str, Any],
        *,
        order: ListOrder | Sequence[ListOrder] = "-relevance",
        limit: int = MAX_LIMIT,
        offset: int = 0,
        fields: Sequence[str] = PAPER_FIELDS,
        first: Sequence[str] = (),
    ) -> tuple[int, list[Hit]]:
        """The number of papers that meet a condition, and a page of them; none without a condition.

        Args:
            recorded: the arguments that a session records.
            first: as of ``Library.listed``.
        """
        total = 0
        hits: list[Hit] = []
        if condition is not None:
            total, hits = lists.listed(
                self.library,
                condition,
                order=order,
                limit=limit,
                offset=offset,
                fields=fields,
                first=first,
                as_of=self.as_of,
            )
        arguments = {name: value for name, value in {**recorded, "as_of": self.as_of}.items() if value}
        self.begun.append((arguments, [hit.paper.id for hit in hits], [hit.score for hit in hits]))
        return total, hits

    def meant(self, text: str) -> list[str]:
        """The ids of the papers whose title a text is, else of the paper that it means as a reference."""
        title = " ".join(plain_query(text).split())
        if not title or len(title) > MAX_TITLE_LENGTH:
            return []
        matches = self.library.match_title(
            title, limit=3, min_score=SAME_TITLE, as_of=self.as_of, fields=("id",)
        ).results
        if matches:
            return [match.paper.id for match in matches]
        checked = self.library.check_references(
            title, input_format="text", as_of=self.as_of, fields=("id",)
        ).results
        return [
            reference.paper.id
            for reference in checked
            if isinstance(reference, CheckedReference) and reference.paper is not None
        ]

    def match(self, titles: Sequence[str], **arguments: Any) -> tuple[tuple[TitleMatch, ...], ...]:
        """The best matches of each title. A title without readable characters matches nothing.

        Raises:
            TimeLimit: a title takes longer than the time limit.
        """
        texts = [plain_query(title)[:MAX_TITLE_LENGTH].strip() for title in titles]
        readable = [text for text in texts if text]
        if not readable:
            self.begun.append(({"titles": list(titles)}, [], []))
            return ((),) * len(texts)
        request = TitleBatchBody.of(titles=readable, as_of=self.as_of, **arguments)
        all_matches = iter(self._run(tool_named("match_titles"), request).results)
        results: list[tuple[TitleMatch, ...]] = []
        for text in texts:
            matches = next(all_matches) if text else ()
            if isinstance(matches, Unfinished):
                raise TimeLimit(matches.error)
            results.append(matches)
        return tuple(results)

    def papers(self, ids: Sequence[str], **arguments: Any) -> tuple[Paper | None, ...]:
        """Papers in order; None for one that the library does not have, or whose id is malformed."""
        request = PaperBatchBody.of(ids=ids, as_of=self.as_of, **arguments)
        results = self._run(tool_named("get_papers"), request).results
        return tuple(paper if isinstance(paper, Paper) else None for paper in results)

    def paper(self, paper_id: str, **arguments: Any) -> Paper:
        """The paper with this id.

        Raises:
            PaperNotFound: the library does not have it, or the id is malformed.
        """
        paper = self.papers([paper_id], **arguments)[0] if paper_id.strip() else None
        if paper is None:
            raise PaperNotFound(f"Paper with id {paper_id} not found in this snapshot.")
        return paper

    def citations(self, paper_id: str, **arguments: Any) -> CitationsResponse:
        """Papers that cite a paper. Raises PaperNotFound; InvalidRequest for a malformed id."""
        return self._edges("get_citations", paper_id, arguments)

    def references(self, paper_id: str, **arguments: Any) -> CitationsResponse:
        """Papers that a paper cites. Raises as :meth:`citations`."""
        return self._edges("get_references", paper_id, arguments)

    def similar(self, paper_id: str, **arguments: Any) -> SimilarResponse:
        """Papers similar to a paper. Raises as :meth:`citations`."""
        if _excludes_all({**arguments, "as_of": self.as_of}):
            self.unrecorded().paper(paper_id, fields=())
            self.begun.append(({"paper_id": paper_id}, [], []))
            return SimilarResponse(self.library.snapshot_id, 0, "eq", None, ())
        request = SimilarBody.of(paper_id=paper_id, as_of=self.as_of, **arguments)
        response: SimilarResponse = self._run(SIMILAR, request)
        return response

    def search_authors(self, name: str, **arguments: Any) -> AuthorsResponse:
        """Authors with a name. A text without a word of two letters is nobody's name."""
        try:
            return self.library.run_author_search(
                AuthorSearchParameters.of(q=name, as_of=self.as_of, **arguments)
            )
        except NothingLeft:
            raise
        except InvalidRequest:
            return AuthorsResponse(self.library.snapshot_id, 0, None, ())

    def authors(self, ids: Sequence[str]) -> list[AuthorProfile | None]:
        """Authors in order; None for one of whom the library holds no paper, or whose id is malformed."""
        readable = [author_id for author_id in dict.fromkeys(ids) if is_author_id_valid(author_id)]
        profiles: dict[str, AuthorProfile | None] = {}
        for start in range(0, len(readable), MAX_AUTHORS):
            batch = readable[start : start + MAX_AUTHORS]
            profiles.update(zip(batch, self.library.authors(batch, as_of=self.as_of), strict=True))
        return [profiles.get(author_id) for author_id in ids]

    def author_papers(self, author_id: str, **arguments: Any) -> AuthorPapersResponse:
        """Papers of an author. Raises AuthorNotFound."""
        if _excludes_all({**arguments, "as_of": self.as_of}):
            self.begun.append(({"author": [author_id]}, [], []))
            return AuthorPapersResponse(self.library.snapshot_id, 0, None, ())
        request = AuthorPapersBody.of(author_id=author_id, as_of=self.as_of, **arguments)
        response = self.library.run_author_papers(request)
        recorded = {"author": [author_id], **arguments}
        recorded.pop("fields", None)
        self.begun.append((recorded, [paper.id for paper in response.results], []))
        return response

    def _edges(self, tool: str, paper_id: str, arguments: Mapping[str, Any]) -> CitationsResponse:
        if _excludes_all({**arguments, "as_of": self.as_of}):
            self.unrecorded().paper(paper_id, fields=())
            self.begun.append(({"paper_id": paper_id, **arguments}, [], []))
            return CitationsResponse(self.library.snapshot_id, 0, None, ())
        request = EdgeBody.of(paper_id=paper_id, as_of=self.as_of, **arguments)
        response: CitationsResponse = self._run(tool_named(tool), request)
        return response

    def _date(self, requested: str | None) -> str | None:
        """The earlier of two dates."""
        if requested is None or self.as_of is None:
            return requested or self.as_of
        return min(requested, self.as_of, key=lambda date: date_bounds(date)[1])

    def _run(self, tool: Tool, request: Request) -> Any:
        response: Any = tool.run(self.library, request)
        ids: list[str] = []
        scores: list[float] = []
        _gather(response.results, ids, scores)
        self.begun.append((tool.arguments_for(request), ids, scores))
        return response


def is_author_id_valid(text: str) -> bool:
    """Whether a look-up of authors accepts a text as an id."""
    try:
        check_author_id(text, "id")
    except InvalidRequest:
        return False
    return True


def _excludes_all(arguments: Mapping[str, Any]) -> bool:
    """Whether no date is in the range of a search."""
    first = arguments.get("from_")
    lasts = [arguments[name] for name in ("to", "as_of") if arguments.get(name) is not None]
    return first is not None and any(date_bounds(first)[0] > date_bounds(last)[1] for last in lasts)


def _gather(items: Sequence[Any], ids: list[str], scores: list[float]) -> None:
    for item in items:
        if isinstance(item, tuple):
            _gather(item, ids, scores)
        elif isinstance(item, Paper):
            ids.append(item.id)
        elif hasattr(item, "paper"):
            ids.append(item.paper.id)
            if hasattr(item, "score"):
                scores.append(item.score)
