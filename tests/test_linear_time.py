"""Parsers of user input take linear time, measured in CPU time as a ratio of two sizes.

A word of 9,990 letters took half a second in the query syntax, and 20,000 combining marks half a minute in a title.
"""

import contextlib
import io
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
import pytest

from scholarbase.bibliographies import read_bibliography
from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.csl import read_csl
from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.lines import guessed_title, read_lines
from scholarbase.bibliographies.names import split_names
from scholarbase.bibliographies.references import PAPERS
from scholarbase.bibliographies.ris import read_ris
from scholarbase.bibliographies.years import years_in
from scholarbase.errors import ScholarBaseError
from scholarbase.identifiers import dois, parse
from scholarbase.indexes import query_syntax
from scholarbase.indexes.titles import main_title, normalize_title
from scholarbase.indexes.vectors.bm25 import without_shortened
from scholarbase.ingest.sources.json_records import json_records
from scholarbase.markup import plain, plain_abstract, searchable
from scholarbase.models.status import is_withdrawn
from scholarbase.responses.pages import sentence_ends
from scholarbase.search import exclusions
from scholarbase.search.known_items import MAY_BE_ID
from scholarbase.tools.definitions import tool_named
from tests.conftest import HAS_EXTENSIONS

SMALL = 2_000
FACTOR = 8
MOST = 4 * FACTOR
"""The larger text may take this many times longer: quadratic time would be 64."""
FLOOR = 0.001
"""Seconds below which times are not compared."""

TEXTS: dict[str, Callable[[int], str]] = {
    "a word": lambda n: "a" * n,
    "a prefix": lambda n: "a" * n + "*",
    "an inner star": lambda n: "a" * n + "*a",
    "another script": lambda n: "é" * n,
    "combining marks": lambda n: "a" + "\u0315\u0300" * (n // 2),
    "dots": lambda n: "." * n,
    "dots and quotes": lambda n: "." * (n // 2) + "'" * (n // 2),
    "ideographic stops": lambda n: "。" * n,
    "quotation marks": lambda n: '"' * n,
    "columns": lambda n: "title:" * (n // 6),
    "prefixes": lambda n: "ab* " * (n // 4),
    "operators": lambda n: "a AND " * (n // 6),
    "hyphens": lambda n: "-" * n,
    "tags": lambda n: "<i " * (n // 3),
    "dollars": lambda n: "$" * n,
    "dollars apart": lambda n: "$ x_" * (n // 4),
    "braces": lambda n: "{" * n,
    "braces in braces": lambda n: "{" * (n // 2) + "}" * (n // 2),
    "styles": lambda n: "<i>" * (n // 3),
    "raised text": lambda n: "<sup>" * (n // 5) + "</sup>",
    "formulas of MathML": lambda n: "<math>" * (n // 6),
    "nested MathML": lambda n: "<math>" + "<mrow>" * (n // 13) + "</mrow>" * (n // 13) + "</math>",
    "formulas of JATS": lambda n: "<tex-math>" * (n // 10),
    "documents of TeX": lambda n: "<tex-math>" + "\\begin{document}" * (n // 16) + "</tex-math>",
    "scripts of HTML": lambda n: "<script>" * (n // 8),
    "options": lambda n: "\\a[" * (n // 3),
    "headings": lambda n: "<b>" * (n // 2) + "Abstract" + "</b>" * (n // 4),
    "comments": lambda n: "<!--" * (n // 4),
    "entities": lambda n: "&amp;" * (n // 5),
    "escaped entities": lambda n: "&" + "amp;" * (n // 4),
    "begins of formulas": lambda n: "\\(" * (n // 2),
    "ends of formulas": lambda n: "\\)" + "\\(" * (n // 2),
    "fractions": lambda n: "$" + "\\frac" * (n // 5) + "$",
    "scripts": lambda n: "$" + "^{" * (n // 2) + "$",
    "tildes": lambda n: "a~" * (n // 2),
    "copyrights": lambda n: "Copyright (c) 2000 " * (n // 19),
    "commands": lambda n: "\\a" * (n // 2),
    "a DOI": lambda n: "10.1234/" + "a." * (n // 2),
    "commas": lambda n: "," * n,
    "backslashes": lambda n: "\\" * n,
    "a link": lambda n: "https://a.org/" + "/" * n,
    "capitals": lambda n: "aA" * (n // 2),
    "spaces": lambda n: "a." + " " * n,
    "parentheses": lambda n: "(" * n,
    "ranges": lambda n: "submittedDate:[1993 TO 1994] " * (n // 29),
    "spaces in front": lambda n: " " * n + "a b",
    "links of Markdown": lambda n: "[" + "](" * (n // 2) + ") " * (n // 2) + "a",
    "digits": lambda n: "2021-" * (n // 5),
    "names": lambda n: "A and " * (n // 6),
    "accents": lambda n: "\\'{" * (n // 3),
    "blocks of BibTeX": lambda n: "@a{" * (n // 3),
    "abbreviations": lambda n: "@string{a = a # a}\n" * (n // 19) + "@misc{k, title = a}",
    "ends of records": lambda n: "ER  - \n" * (n // 7),
    "numbered lines": lambda n: "[1]\n" * (n // 4),
    "brackets": lambda n: "[" * n,
    "pairs of parentheses": lambda n: "(" * (n // 2) + ")" * (n // 2),
    "years in parentheses": lambda n: "(1999" * (n // 5),
    "objects": lambda n: '[{"a":[}\n' * (n // 9),
    "pages": lambda n: '{"data":[{"message":{' * (n // 21),
    "parts of names": lambda n: "family=A, " * (n // 10),
    "exclusions": lambda n: "but not x, " * (n // 11),
    "other exclusions": lambda n: "other than, " * (n // 12),
    "negations": lambda n: "not " * (n // 4),
    "negations without end": lambda n: "without " * (n // 8),
    "negations in parentheses": lambda n: "(not (" * (n // 6),
    "short words": lambda n: "a " * (n // 2),
    "topics": lambda n: "<top>" * (n // 5),
    "a topic without a number": lambda n: "<top><num>" + " " * n + "</top>",
    "withdrawals": lambda n: "this paper has been " * (n // 20),
}
PARSERS: dict[str, Callable[[str], Any]] = {
    "is_prose": query_syntax.is_prose,
    "without_shortened": without_shortened,
    "is_syntax": query_syntax.is_syntax,
    "compile": query_syntax.compile,
    "free_text": query_syntax.free_text,
    "normalize_title": normalize_title,
    "main_title": main_title,
    "sentence_ends": lambda text: list(sentence_ends(text)),
    "parse": parse,
    "dois": lambda text: dois(f"10.1000/1 {text}"),
    "read_bibliography": lambda text: read_bibliography(text, most=None),
    "read_bibtex": lambda text: read_bibtex("@misc{key, title = {" + text + "}}"),
    "authors": lambda text: read_bibtex("@misc{key, author = {" + text + "}}", PAPERS),
    "json_records": lambda text: list(json_records(io.BytesIO(f'[{{"a": "b", {text}'.encode()))),
    "read_csl": lambda text: read_csl(orjson.dumps([{"title": text, "note": text}]).decode()),
    "read_ris": lambda text: read_ris("TY  - JOUR\nTI  - " + text + "\n" + text.replace(" ", "\n")),
    "read_lines": read_lines,
    "find_ids": find_ids,
    "plain": plain,
    "plain_abstract": plain_abstract,
    "searchable": searchable,
    "split_names": split_names,
    "guessed_title": guessed_title,
    "years_in": years_in,
    "is_withdrawn": lambda text: is_withdrawn(text + " withdrawn"),
    "exclusions": exclusions.read,
    "MAY_BE_ID": MAY_BE_ID.fullmatch,
    "arguments": lambda text: tool_named("search_papers").canonical({"q": text, text: text, "from": text}),
}


def read_topics(text: str) -> None:
    from scholarbase_research.evaluation.formats import trec

    with NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        list(trec.read_topics(Path(file.name)))


if HAS_EXTENSIONS:
    PARSERS["topics"] = read_topics


def seconds(parser: Callable[[str], Any], text: str) -> float:
    began = time.process_time()
    with contextlib.suppress(ScholarBaseError):
        parser(text)
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_text_eight_times_as_long_takes_linear_time(parser: Callable[[str], Any]) -> None:
    for name, text in TEXTS.items():
        short, long = text(SMALL), text(SMALL * FACTOR)
        if seconds(parser, long) > MOST * FLOOR:
            least = min(seconds(parser, short) for _ in range(2))
            assert min(seconds(parser, long) for _ in range(2)) <= MOST * max(least, FLOOR), name
