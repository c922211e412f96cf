"""The parsers of untrusted text, and values to call them with, as strategies of hypothesis."""

from __future__ import annotations

import inspect
import os
import string
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from hypothesis import strategies as st
from starlette.datastructures import Headers

from scholarbase import identifiers
from scholarbase.api.access.keys import read_keys
from scholarbase.api.session_headers import session_headers
from scholarbase.bibliographies import read_bibliography
from scholarbase.indexes import query_syntax, titles
from scholarbase.ingest.sources import PARSERS as SOURCE_PARSERS
from scholarbase.ingest.sources import open_lines
from scholarbase.ingest.sources.detect import detect
from scholarbase.ingest.sources.vectors import open_vectors
from scholarbase.manifest import Manifest
from scholarbase.models.checks import as_of_day, check_categories, date_bounds
from scholarbase.models.requests import SearchRequest
from scholarbase.responses.pages import sentence_ends
from scholarbase.search.library import Library
from scholarbase.sessions.session import check_session_id
from scholarbase.settings import load_settings
from scholarbase.tools.definitions import TOOLS
from scholarbase_research.claims.drafts import read_draft
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.trajectory_lines import read_trajectory

TOKENS: Final = (
    *(
        '"',
        "AND ",
        "OR ",
        "NOT ",
        "NEAR(",
        "NEAR/3 ",
        "*",
        "(",
        ")",
        "title:",
        "abstract:",
        "-",
        "^",
        "+",
        "a",
        "ab* ",
    ),
    *(
        "10.1234/",
        "arXiv:",
        "hep-th/9301068",
        "https://doi.org/",
        "CorpusId:",
        "URL:",
        "2301.00001v2",
        "\\alpha",
        "<i>",
    ),
    *(
        "&amp;",
        "&#x41;",
        "$",
        "{",
        "}",
        "é",
        "e\u0301",
        "\u0315",
        "\u0300",
        "λ",
        "中",
        "\u202e",
        "\ufeff",
        "\x00",
        "\n",
        "\t",
    ),
    *(
        " ",
        ". ",
        ": ",
        "—",
        "?",
        "!",
        "'",
        "\u2019",
        "2021-02-30",
        "2021-13",
        "0000",
        "9" * 30,
        "\ud7ff",
        "\U0010ffff",
    ),
    *("\\begin{verbatim}", "\\[", "\\ref[", "\\cite{", "[", "]", "<!--", "[^", "@a", ";", "`", "%", "#"),
)
texts: Final = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from(TOKENS), max_size=60).map("".join),
    st.text(string.printable),
)
leaves: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.sampled_from((2**63, -(2**63), 2**70))
)
values: Final = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
KEYS: Final = (
    *(
        "corpusid",
        "title",
        "externalids",
        "authors",
        "year",
        "publicationdate",
        "venue",
        "citationcount",
        "url",
    ),
    *(
        "abstract",
        "citingcorpusid",
        "citedcorpusid",
        "contexts",
        "intents",
        "isinfluential",
        "sha",
        "primary",
        "id",
    ),
    *(
        "authorid",
        "name",
        "alternate_names",
        "text",
        "model",
        "_id",
        "categories",
        "versions",
        "authors_parsed",
        "doi",
    ),
    *(
        "query",
        "question",
        "answer",
        "answers",
        "query_id",
        "qid",
        "positives",
        "published_time",
        "tool",
        "arguments",
    ),
    *(
        "results",
        "session",
        "call",
        "began",
        "ended",
        "openaccessinfo",
        "journal-ref",
        "update_date",
        "metadata",
    ),
)
records: Final = st.dictionaries(st.sampled_from(KEYS), values, max_size=14) | values


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError):  # integers and surrogates that JSON lines cannot have
        return repr(value).encode(errors="surrogatepass")


lines: Final = st.one_of(st.binary(max_size=300), records.map(_dumped))
files: Final = st.one_of(
    st.binary(max_size=500),
    st.lists(lines, max_size=5).map(b"\n".join),
    st.lists(
        st.sampled_from(
            [
                token.encode(errors="replace")
                for token in (
                    *TOKENS,
                    "<top>",
                    "</top>",
                    "<num>",
                    "<title>",
                    "1 0 a 1\n",
                    "query,answer\n",
                    "id\ttext\n",
                    "<topic number='1'>",
                    "</topic>",
                )
            ]
        ),
        max_size=40,
    ).map(b"".join),
)


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser, and the values that it is called with. ``pumped`` makes such a value from a text."""

    call: Callable[[Any], Any]
    inputs: st.SearchStrategy[Any]
    pumped: Callable[[str], Any] | None = None


def _of_file(read: Callable[[Path], Any], suffix: str) -> Callable[[bytes], Any]:
    def call(content: bytes) -> Any:
        descriptor, name = tempfile.mkstemp(suffix=suffix)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            return read(Path(name))
        finally:
            Path(name).unlink()

    return call


def _filled(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def call(line: bytes) -> Any:
        found = parse(line)
        assert found is not None
        return found

    return call


def _headers(pairs: list[tuple[str, str]]) -> Any:
    raw = [(name.lower().encode(errors="replace"), value.encode(errors="replace")) for name, value in pairs]
    return {
        name: check_session_id(value) for name, value in session_headers(Headers(raw=raw)).items() if value
    }


def _whole(text: str) -> str:
    return text


def parsers() -> dict[str, Parser]:
    """Every parser of untrusted text by name."""
    found = {
        "identifiers.parse": Parser(identifiers.parse, texts, _whole),
        "query_syntax.is_syntax": Parser(query_syntax.is_syntax, texts, _whole),
        "query_syntax.compile": Parser(query_syntax.compile, texts, _whole),
        "query_syntax.words": Parser(query_syntax.words, texts, _whole),
        "query_syntax.terms": Parser(lambda text: query_syntax.terms(text, syntax=True), texts, _whole),
        "query_syntax.free_text": Parser(query_syntax.free_text, texts, _whole),
        "titles.normalize_title": Parser(titles.normalize_title, texts, _whole),
        "titles.main_title": Parser(titles.main_title, texts, _whole),
        "sentences": Parser(lambda text: list(sentence_ends(text)), texts, _whole),
        "draft": Parser(read_draft, texts, lambda text: f"[@a{text}"),
        "draft in LaTeX": Parser(
            lambda text: read_draft(text, "latex"), texts, lambda text: rf"\cite{{a}}{text}"
        ),
        "bibliography": Parser(read_bibliography, texts, lambda text: f"@a{{b, title={{{text}}}}}"),
        "dates": Parser(date_bounds, texts | values, _whole),
        "as_of": Parser(as_of_day, texts | values, _whole),
        "categories": Parser(check_categories, texts | st.lists(texts, max_size=4), _whole),
        "SearchRequest": Parser(
            lambda given_: SearchRequest.of(**given_),
            st.dictionaries(st.sampled_from(list(SearchRequest.model_fields)), values | texts, max_size=6),
            lambda text: {"q": text},
        ),
        "session id": Parser(check_session_id, texts | values, _whole),
        "session headers": Parser(
            _headers,
            st.lists(
                st.tuples(
                    st.sampled_from(("X-ScholarBase-Session", "X-ScholarBase-Parent", "Idempotency-Key")),
                    texts,
                ),
                max_size=4,
            ),
        ),
        "manifest": Parser(lambda data: Manifest.from_bytes(data, Path("manifest.json")), lines),
        "key file": Parser(_of_file(read_keys, ".json"), files | st.lists(records, max_size=3).map(_dumped)),
        "trajectory file": Parser(_of_file(read_trajectory, ".jsonl"), files),
        "vector file": Parser(_of_file(lambda path: list(open_vectors(path)), ".npy"), files),
        "source file": Parser(_of_file(lambda path: list(open_lines(path)), ".gz"), files),
        "setting": Parser(
            lambda pair: load_settings(**{pair[0]: pair[1]}),
            st.tuples(
                st.sampled_from(("cors_origins", "fusion_weights", "port", "host", "keep", "rrf_k")),
                texts | leaves,
            ),
            lambda text: ("cors_origins", text),
        ),
        "dataset": Parser(lambda found_: detect(found_, "corpus.jsonl"), st.lists(lines, max_size=5)),
    }
    for suffix in (".jsonl", ".json", ".tsv", ".csv", ".txt", ".xml", ".jsonl.gz"):
        pumped = (lambda text: text.encode(errors="replace")) if suffix in (".txt", ".tsv", ".csv") else None
        found[f"query file {suffix}"] = Parser(_of_file(read_queries, suffix), files, pumped)
    for dataset, parse in SOURCE_PARSERS.items():
        found[f"source line of {dataset}"] = Parser(_filled(parse), lines, _line_of)
    for tool in TOOLS:
        found[f"arguments of {tool.name}"] = Parser(
            tool.canonical,
            st.dictionaries(
                st.sampled_from(("q", "from", "ids", "seeds", "titles", "limit", "fields", "max_tokens"))
                | texts,
                values | texts,
                max_size=5,
            ),
            lambda text: {"q": text, "ids": text, "from": text, text: 1},
        )
    return found


def _line_of(text: str) -> bytes:
    """A record in which every key has the text."""
    record: dict[str, Any] = dict.fromkeys(KEYS, text) | {
        "corpusid": 1,
        "citingcorpusid": 1,
        "citedcorpusid": 2,
    }
    record |= {
        "id": "0704.0001",
        "_id": text,
        "externalids": {"ArXiv": text, "DOI": text},
        "authors": [{"name": text}],
    }
    return orjson.dumps(record)


METHODS: Final = (
    *(
        "search",
        "search_batch",
        "match_title",
        "match_titles",
        "check_references",
        "paper",
        "papers",
        "citations",
        "references",
        "similar",
        "expand",
    ),
)


def of_library(library: Library) -> Parser:
    """Calls of a library's methods with values of any type."""
    names = st.sampled_from(
        ("limit", "offset", "fields", "from_", "as_of", "category", "exclude", "within", "hops")
    )
    calls = st.tuples(st.sampled_from(METHODS), values | texts, st.dictionaries(names, values, max_size=2))

    def call(given_: tuple[str, Any, dict[str, Any]]) -> Any:
        name, value, others = given_
        method = getattr(library, name)
        known = inspect.signature(method).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        return method(value, **{key: other for key, other in others.items() if takes_any or key in known})

    return Parser(call, calls)
