"""Convert tool arguments, as models write them, to the tool's names and types.

Another name or type is accepted where it can have only one meaning: ``query`` for ``q``, ``"5"`` for 5. Everything else
is left as it is, and the request rejects it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson
from rapidfuzz.distance import OSA

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import is_id, shown

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "q": "query question search_query query_text",
    "query": "q question search_query query_text text",
    "sql": "query statement sql_query",
    "page_number": "page page_num page_no",
    "bounding_box": "box bbox",
    "limit": "top_k topk top_n k n max_results num_results n_results result_limit page_size",
    "from": "from_ from_date date_from start_date from_year year_from start_year min_year year_min min_date date_min "
    "since",
    "to": "to_ to_date date_to end_date to_year year_to end_year max_year year_max max_date date_max until",
    "category": "categories arxiv_category arxiv_categories",
    "venue": "venues",
    "type": "types publication_type publication_types document_type paper_type",
    "author": "authors author_name author_names",
    "min_citations": "min_citation_count minimum_citations citation_count_min",
    "mode": "search_mode search_type",
    "exclude": "exclude_phrases exclude_terms exclude_topics",
    "exclude_ids": "exclude_papers exclude_paper_ids excluded_ids",
    "max_tokens": "token_limit max_response_tokens",
    "offset": "from_offset next_offset start_offset",
    "section": "section_number section_title section_name heading",
    "find": "find_text search_text phrase",
    "within": "ids paper_id paper_ids papers",
    "per_paper": "max_per_paper passages_per_paper per_document",
    "fields": "include_fields return_fields",
    "sort": "sort_by order_by",
    "hops": "num_hops max_hops depth",
    "paper_id": "id paper arxiv_id paper_ids ids",
    "ids": "id paper paper_id arxiv_id arxiv_ids paper_ids papers",
    "seeds": "id ids paper paper_id paper_ids papers seed seed_id seed_ids seed_papers",
    "titles": "title paper_title paper_titles",
    "references": "reference bibliography citations bibtex refs text",
}
"""Names that models write for an argument. A tool uses those of its own arguments."""
_PAGE: Final = ("offset", "offset, the number of results to skip")
_YEARS: Final = ("from", "from and to")
_FROM: Final = ("from", "from, the first date")
_TO: Final = ("to", "to, the last date")
_HINTS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("page", "start"), _PAGE),
    **dict.fromkeys(("year", "years", "date", "date_range", "year_range"), _YEARS),
    **dict.fromkeys(("after", "after_date", "after_year", "published_after"), _FROM),
    **dict.fromkeys(("before", "before_date", "before_year", "published_before"), _TO),
    "keywords": ("q", "q"),
}
"""Names that can have several meanings: an argument to use instead, and how a message names it."""
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]+")
_TIME: Final = r"[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?"
_DATE: Final = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})(?:[-/.](\d{{1,2}})(?:{_TIME})?)?", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_DATES: Final = frozenset({"from", "to", "as_of"})
COMMA_SEPARATED: Final = frozenset({"category", "type", "fields", "status"})
"""Arguments, and parameters of a URL, that accept values separated by commas."""
_IDS: Final = frozenset({"ids", "seeds", "exclude_ids", "within"})
_NULLS: Final = frozenset({"", "null", "none"})
_LEFT_OUT: Final = _NULLS | {"all"}
"""Texts that models write for an optional argument that they do not use."""


def canonical(
    arguments: Mapping[str, Any],
    kinds: Mapping[str, Mapping[str, Any]],
    tool: str,
    shown: Mapping[str, str],
    required: Collection[str],
) -> dict[str, Any]:
    """The arguments of a call under the names of the tool, with the types of its request, without nulls.

    Args:
        arguments: what a model wrote.
        kinds: the tool's arguments, and the type of each in JSON Schema.
        tool: the tool's name, for messages.
        shown: the arguments that its schema has.
        required: those that it needs, whose text is taken as it is.

    Raises:
        InvalidRequest: they are not an object, an argument is unknown, or two name the same one.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidRequest(f"The arguments of {tool} are not a JSON object: send an object.")
    values: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        key = _known_name(name, kinds)
        if key is None:
            raise InvalidRequest(_unknown(name, kinds, tool, shown))
        if key not in required:
            if _is_one_of(value, _LEFT_OUT):
                continue
        elif isinstance(value, str) and not value and (key != "q" or key in values):
            continue
        converted = _converted(key, value, kinds[key])
        if key not in required and isinstance(converted, list) and converted:
            converted = [item for item in converted if item is not None and not _is_one_of(item, _NULLS)]
            if not converted or (len(converted) == 1 and _is_one_of(converted[0], _LEFT_OUT)):
                continue
        if values.get(key, "") not in ("", converted):
            raise InvalidRequest(f"{written[key]!r} and {name!r} are the same argument: send {key} alone.")
        values[key], written[key] = converted, name
    return values


def _is_one_of(value: object, texts: Collection[str]) -> bool:
    return isinstance(value, str) and value.strip().lower() in texts


def _known_name(name: str, kinds: Mapping[str, Any]) -> str | None:
    if name in kinds:
        return name
    plain = _WORDS.sub("_", str(name).strip()).lower()
    if plain in kinds:
        return plain
    keys = [key for key in kinds if plain in _OTHER_NAMES.get(key, "").split()]
    if len(keys) > 1 and "within" in keys:
        keys.remove("within")  # the ids that a tool requires
    return keys[0] if len(keys) == 1 else None


def _unknown(name: str, kinds: Mapping[str, Any], tool: str, shown: Mapping[str, str]) -> str:
    plain = _WORDS.sub("_", str(name).strip()).lower()
    known = {other: key for key in kinds for other in (key, *_OTHER_NAMES.get(key, "").split())}
    argument, hint = _HINTS.get(plain, ("", None))
    if argument not in kinds:
        hint = None
    if hint is None:
        hint = next((known[other] for other in known if _is_typo(plain, other)), None)
    use = "" if hint is None else f"use {hint}. "
    return f"Unknown argument {str(name)[:100]!r}: {use}{tool} takes {', '.join(shown)}."


def _is_typo(written: str, name: str) -> bool:
    """Whether two names differ by one letter, or two neighbours are exchanged. With more, ``max_citations`` would be
    ``min_citations``."""
    return len(written) > 2 and OSA.distance(written, name, score_cutoff=1) <= 1


def _converted(name: str, value: Any, kind: Mapping[str, Any]) -> Any:
    """A value with the type of its argument, or unchanged."""
    if name in _DATES:
        return _date(value)
    text = value.strip() if isinstance(value, str) else None
    result = value
    match kind.get("type"):
        case "integer":
            result = _integer(value)
        case "boolean" if text is not None:
            result = {"true": True, "false": False}.get(text.lower(), value)
        case "array" if text is not None:
            result = _list(name, text)
        case "array" if name == "ids" and isinstance(value, list):
            # What is no text is not an id either; each has its own error.
            result = [
                "" if item is None else shown(item) if isinstance(item, int | float) else item
                for item in value
            ]
        case "string" if isinstance(value, list) and len(value) == 1:
            [result] = value
        case "string" if name == "section" and isinstance(value, int | float) and not isinstance(value, bool):
            result = shown(value)
        case "string" if name == "references" and isinstance(value, list | dict):
            result = _references(value)
        case "string" if text is not None and "enum" in kind:
            result = text.lower() if text.lower() in kind["enum"] else value
    return result


def _references(value: list[Any] | dict[str, Any]) -> Any:
    """References as one text: a list of texts by lines, items of CSL-JSON as JSON."""
    if isinstance(value, list) and all(isinstance(reference, str) for reference in value):
        return "\n".join(
            reference if reference.lstrip()[:1] in ("@", "T") else " ".join(reference.split())
            for reference in value
        )
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return value


def _integer(value: Any) -> Any:
    """A whole number that is written as a text or with a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value)
    return value


def _date(value: Any) -> Any:
    """A year as a number, and dates such as 2021/3/5 and 2021-03-05T00:00:00Z, as YYYY, YYYY-MM or YYYY-MM-DD."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return shown(value)
    match = _DATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return value.strip() if isinstance(value, str) else value
    return "-".join(part.zfill(2) for part in match.groups() if part)


def _list(name: str, text: str) -> list[Any]:
    """The list in a text: JSON, values between commas, or one value."""
    if text.startswith("["):
        try:
            return list(orjson.loads(text))
        except orjson.JSONDecodeError:
            return [text]
    parts = [part.strip() for part in text.split(",")]
    # Phrases, titles, venues and DOIs may contain commas.
    if name in COMMA_SEPARATED or (name in _IDS and not is_id(text)):
        return parts
    return [text]
