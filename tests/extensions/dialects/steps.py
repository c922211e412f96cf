"""Requests to every dialect, and the papers that their answers show, read as clients do."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree import ElementTree

import httpx

from scholarbase.models.calls import CallKind
from scholarbase_dialects.all import DIALECTS
from scholarbase_dialects.openalex.ids import paper_id as openalex_paper_id
from tests.conftest import arxiv_rows, sample_rows

OF_METADATA = {name: dialect for name, dialect in DIALECTS.items() if name != "ar5iv"}
"""The dialects that the sample can answer: it has no full texts, with which ``test_ar5iv`` runs."""

Shown = Callable[[httpx.Response], list[Any]]
_ARXIV: Final = re.compile(r"(?<![\w-])([a-z-]+(?:\.[A-Z]{2})?/\d{7}|\d{4}\.\d{4,5})(?!\d)")
QUERY: Final = "knots and Feynman diagrams"
"""A topic of papers before and after June 1995."""
_TEXTS: Final = frozenset(("abstract", "summary", "content", "snippet", "abstract_inverted_index", "text"))
"""Keys of abstracts, which may name any paper."""


@dataclass(frozen=True)
class Subject:
    """The paper about which a client asks."""

    id: str
    title: str
    author: str

    @property
    def native(self) -> str:
        return f"arXiv:{self.id}"


EARLY: Final = Subject("hep-th/9408074", "A Strong Coupling Test of S-Duality", "name:edward witten")
"""A paper of August 1994 with references, and with citations from before and after June 1995."""


@dataclass(frozen=True)
class Step:
    """One request.

    Args:
        operation: the route below the dialect's prefix, as the dialect has it.
        kind: the kind of call that a session records; None if it records none.
        shown: the papers in the answer, in its order, by any of their ids.
        value: what the parameter of the path is.
    """

    method: str
    operation: str
    kind: CallKind | None
    shown: Shown
    value: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, http: httpx.Client, prefix: str, **headers: str) -> httpx.Response:
        path = re.sub(r"\{(?:media)(?::path)?\}", "application/x-bibtex", self.operation)
        path = re.sub(r"\{[^}]*\}", lambda _: self.value, path)
        return http.request(
            self.method,
            prefix + path,
            params=dict(self.parameters),
            json=self.json,
            data=None if self.form is None else dict(self.form),
            headers={**self.headers, **headers},
        )


def at(*path: str) -> Shown:
    """The values at the end of a path of keys, in which lists are followed item by item."""

    def read(response: httpx.Response) -> list[Any]:
        values = flat(response.json())
        for key in path:
            values = flat([value[key] for value in values])
        return values

    return read


def flat(value: Any) -> list[Any]:
    """The items of a list and of the lists in it."""
    return [one for item in value for one in flat(item)] if isinstance(value, list) else [value]


def entries(response: httpx.Response) -> list[Any]:
    names = {"a": "http://www.w3.org/2005/Atom"}
    return [one.text for one in ElementTree.fromstring(response.text).findall("a:entry/a:id", names)]


def each_once(response: httpx.Response) -> list[Any]:
    """The papers of several authors."""
    return list(dict.fromkeys(at("data", "papers", "paperId")(response)))


def ids_in_text(response: httpx.Response) -> list[Any]:
    return _ARXIV.findall(response.text)[:1]


def about(subject: Subject) -> dict[str, tuple[Step, ...]]:
    """The requests to each dialect, which every operation with papers answers."""

    def asked(response: httpx.Response) -> list[Any]:
        return [subject.id]

    def asked_and_papers(response: httpx.Response) -> list[Any]:
        return list(dict.fromkeys([subject.native, *at("data", "papers", "paperId")(response)]))

    title = {"query": subject.title}
    all_fields = {"fields": "title,citations.title,references.title"}
    text = {"query": QUERY}
    return {
        "semantic-scholar": (
            Step("GET", "/paper/search", "search", at("data", "paperId"), parameters=text | all_fields),
            Step("GET", "/paper/search/match", "match", at("data", "paperId"), parameters=title),
            Step("GET", "/paper/{paper_id:path}", "inspect", at("paperId"), f"ARXIV:{subject.id}", all_fields),
            Step("GET", "/paper/{paper_id:path}/citations", "expand", at("data", "citingPaper", "paperId"),
                 subject.native),
            Step("GET", "/paper/{paper_id:path}/references", "expand", at("data", "citedPaper", "paperId"),
                 subject.native),
            Step("GET", "/paper/{paper_id:path}/authors", "inspect", asked_and_papers, subject.native,
                 {"fields": "papers.title"}),
            Step("GET", "/paper/search/bulk", "search", at("data", "paperId"),
                 parameters={"query": "+string -membrane", "fields": "title,references.title"}),
            Step("GET", "/paper/autocomplete", "search", at("matches", "id"),
                 parameters={"query": "two dimensional stri"}),
            Step("POST", "/paper/batch", "inspect", at("paperId"), json={"ids": [subject.native]},
                 parameters=all_fields),
            Step("GET", "/author/{author_id:path}/papers", "search", at("data", "paperId"), subject.author, all_fields),
            Step("GET", "/snippet/search", "search", at("data", "paper", "paperId"),
                 parameters={"query": "black hole entropy"}),
            Step("GET", "/author/search", "search", each_once,
                 parameters={"query": "edward witten", "fields": "papers.title"}),
            Step("GET", "/author/{author_id:path}", "search", at("papers", "paperId"), subject.author,
                 {"fields": "papers.title"}),
            Step("POST", "/author/batch", "search", at("papers", "paperId"), json={"ids": [subject.author]},
                 parameters={"fields": "papers.title"}),
        ),
        "s2-recommendations": (
            Step("GET", "/papers/forpaper/{paper_id:path}", "expand", at("recommendedPapers", "paperId"),
                 subject.native, all_fields),
            Step("POST", "/papers", "expand", at("recommendedPapers", "paperId"),
                 json={"positivePaperIds": [subject.native]}),
        ),
        "s2-legacy": (
            Step("GET", "/v1/paper/{paper_id:path}", "expand", at("references", "arxivId"), subject.native),
        ),
        "arxiv": (
            Step("GET", "", "search", entries,
                 parameters={"search_query": "ti:string AND abs:theory", "max_results": 30}),
            Step("GET", "", "search", entries, parameters={"search_query": f'ti:"{subject.title}"'}),
            Step("GET", "", "search", entries, parameters={"id_list": f"{subject.id},hep-th/9302103"}),
            Step("POST", "", "search", entries, form={"search_query": "cat:hep-th", "sortBy": "submittedDate"}),
        ),
        "arxiv-search": (
            Step("GET", "", "match", found_in_page, parameters=title | {"searchtype": "title"}),
            Step("GET", "", "match", found_in_page,
                 parameters={"query": "theory", "searchtype": "title", "order": "-submitted_date"}),
        ),
        "openalex": (
            Step("GET", "/works", "search", at("results", "id"), parameters={"search": QUERY, "per-page": 30}),
            Step("GET", "/works", "search", at("results", "id"),
                 parameters={"filter": f"title.search:{subject.title}"}),
            Step("GET", "/works", "search", at("results", "id"),
                 parameters={"filter": f"cites:doi:10.48550/arxiv.{subject.id}"}),
            Step("GET", "/works/{work_id:path}", "inspect", at("id"), f"doi:10.48550/arxiv.{subject.id}"),
        ),
        "crossref": (
            Step("GET", "/works", "search", listed_works, parameters={"query": QUERY, "rows": 30}),
            Step("GET", "/works", "search", listed_works, parameters={"query.title": subject.title, "rows": 1}),
            Step("GET", "/works/{doi:path}", "inspect", at("message", "DOI"), f"10.48550/arxiv.{subject.id}"),
            Step("GET", "/works/{doi:path}/transform/{media:path}", "inspect", ids_in_text,
                 f"10.48550/arxiv.{subject.id}"),
            Step("GET", "/works/{doi:path}/transform", "inspect", at("DOI"), f"10.48550/arxiv.{subject.id}",
                 headers={"Accept": "application/vnd.citationstyles.csl+json"}),
            Step("GET", "/works/{doi:path}/agency", "inspect", at("message", "DOI"), f"10.48550/arxiv.{subject.id}"),
        ),
        "scholarbase": (
            Step("GET", "/paper/search", "search", at("data", "paperId"), parameters=text | {"limit": 30}),
            Step("GET", "/paper/search/title", "match", at("data", "paperId"), parameters=title),
            Step("GET", "/paper/search/title", "match", at("data", "paperId"),
                 parameters={"query": f"{subject.title}s", "limit": 1}),
            Step("GET", "/paper/{paper_id:path}", "inspect", at("paperId"), subject.id),
            Step("GET", "/paper/{paper_id:path}/citations", "expand", at("data", "citingPaper", "paperId"),
                 subject.id, {"limit": 1000}),
            Step("GET", "/paper/{paper_id:path}/references", "expand", at("data", "citedPaper", "paperId"), subject.id),
        ),
        "serper": (
            Step("POST", "/search", "search", at("organic", "link"), json={"q": f"{QUERY} site:arxiv.org", "num": 30}),
        ),
        "searxng": (
            Step("GET", "/search", "search", at("results", "url"), parameters={"q": QUERY, "format": "json"}),
            Step("POST", "/search", "search", at("results", "url"), form={"q": QUERY, "format": "json", "pageno": 2}),
        ),
        "paperscout": (
            Step("GET", "/search", "search", at("arxiv_id"), parameters={"q": QUERY, "top_k": 30}),
            Step("GET", "/search", "search", at("arxiv_id"), parameters={"q": QUERY, "filter": 'id like "hep-th/%"'}),
            Step("GET", "/query", "search", at("arxiv_id"), parameters={"filter": 'title like "Two%"', "top_k": 100}),
            Step("GET", "/lookup", "match", at("arxiv_id"), parameters={"title": subject.title}),
            Step("GET", "/paper/{arxiv_id:path}", "inspect", at("arxiv_id"), subject.id),
            Step("GET", "/paper/{arxiv_id:path}/fulltext", "expand", cited, subject.id),
        ),
        "search-r1": (Step("POST", "", "search", at("result", "id"), json={"queries": [QUERY], "topk": 30}),),
        "custom": (Step("GET", "", "search", at("url"), parameters={"query": QUERY, "limit": 30}),),
    }  # fmt: skip


def found_in_page(response: httpx.Response) -> list[Any]:
    return re.findall(r'<li class="arxiv-result">.*?>(arXiv:[^<]+)</a>', response.text, re.S)


def cited(response: httpx.Response) -> list[Any]:
    """The references of a full text, in the strings of its bibliography."""
    return [_ARXIV.findall(one["meta_string"])[-1] for one in response.json()["references"].values()]


def listed_works(response: httpx.Response) -> list[Any]:
    """Works by DOI and title, since two papers of the sample may have one DOI."""
    return [f"{one['DOI']} {one['title'][0]}" for one in response.json()["message"]["items"]]


def prefix_of(dialect: str) -> str:
    return DIALECTS[dialect].prefix


def by_doi() -> dict[str, str]:
    """The native ids of the sample's papers by their publishers' DOIs, and by DOI and title."""
    rows = [(row["doi"], row["title"], row["id"]) for row in arxiv_rows()]
    papers = sample_rows("papers")
    rows += [(row["externalids"]["DOI"], row["title"], row["externalids"]["ArXiv"]) for row in papers]
    known = {
        (doi.lower(), letters(title), f"arXiv:{one}")
        for dois, title, one in rows
        for doi in (dois or "").split()
    }
    counts = Counter(doi for doi, _ in {(doi, one) for doi, _, one in known})
    found = {f"{doi} {title}": one for doi, title, one in known}
    return found | {doi: one for doi, _, one in known if counts[doi] == 1}


def letters(title: str) -> str:
    """What two spellings of a title have in common."""
    return "".join(c for c in title.lower() if c.isalnum())


def native(text: str, dois: Mapping[str, str]) -> str | None:
    """The native id of a paper that an answer names by an id, a link, a DOI or a work's id."""
    name = text.lower().removeprefix("https://doi.org/")
    doi, _, title = name.partition(" ")
    for known in (f"{doi} {letters(title)}", doi):
        if known in dois:
            return dois[known]
    if re.fullmatch(r"(https://openalex\.org/)?W\d+", text):
        return openalex_paper_id(text)
    found = _ARXIV.search(text)
    return None if found is None else f"arXiv:{found[1]}"


def strings(value: Any) -> Iterator[str]:
    """All texts of a JSON value but abstracts: of a document, the line of its title."""
    if isinstance(value, str):
        yield value.partition("\n")[0]
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in _TEXTS:
                yield from strings(one)


def texts_of(response: httpx.Response) -> list[str]:
    """All texts of an answer that may name a paper."""
    if "xml" in response.headers["content-type"]:
        return entries(response)
    try:
        return list(strings(response.json()))
    except json.JSONDecodeError:
        return response.text.splitlines()
