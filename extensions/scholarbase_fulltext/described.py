"""What a person says about a document: metadata in front of Markdown, or in a JSON file beside a document.

The file may have the keys of the metadata of AirQA's papers (arXiv:2509.16952, appendix A.2).
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.documents.model import BadDocument, Metadata, arxiv_version
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import Identifier, parse, stored_identifier
from scholarbase_fulltext.building import clean

KEYS: Final = ("title", "authors", "doi", "arxiv", "id", "version", "date", "venue", "abstract")
_AIRQA: Final = ("uuid", "conference", "conference_full", "year", "volume", "tldr", "tags", "pdf_url")
MAX_FRONT_MATTER: Final = 1000
"""Lines of metadata in front of Markdown."""
_LINE: Final = re.compile(r"([A-Za-z_-]{1,40})[ \t]*:(?:[ \t]+(.*))?$")
_DATE: Final = re.compile(r"[12]\d{3}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?")
_VERSION: Final = re.compile(r"v?([1-9]\d{0,3})", re.IGNORECASE)


class Described(NamedTuple):
    """The paper of a document, its version, and what else is known of it."""

    ids: tuple[str, ...] = ()
    version: int | None = None
    metadata: Metadata = Metadata()


def read_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The metadata in front of a Markdown text, as values of its keys, and the text after them.

    A value is a string, a list in brackets, or items on lines ``- item``. Other YAML is refused.

    Raises:
        BadDocument: a line has another form.
    """
    lines = text.split("\n", MAX_FRONT_MATTER)
    if lines[0].rstrip() != "---":
        return {}, text
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return {}, text  # a horizontal rule
    values: dict[str, Any] = {}
    key = ""
    for number, line in enumerate(lines[1:end], 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is not None:
            key = match[1].lower()
            values[key] = _value((match[2] or "").strip())
        elif key and line.lstrip().startswith("- ") and not (isinstance(values[key], str) and values[key]):
            values[key] = [*(values[key] or []), _unquoted(line.lstrip()[2:].strip())]
        elif key and line[0].isspace() and isinstance(values[key], str):
            values[key] = f"{values[key]} {line.strip()}".strip()
        else:
            raise BadDocument(
                "bad-metadata",
                f"Line {number} of the metadata is not `key: value`: {line.strip()[:100]!r}. Keys are "
                f"{', '.join(KEYS)}.",
            )
    return values, "\n".join(lines[end + 1 :])


def read_sidecar(data: bytes) -> dict[str, Any]:
    """The values in a JSON file beside a document.

    Raises:
        BadDocument: it is not a JSON object.
    """
    try:
        values = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadDocument(
            "bad-metadata", f"The JSON file beside the document is not valid: {error}."
        ) from error
    if not isinstance(values, dict):
        raise BadDocument("bad-metadata", "The JSON file beside the document is not an object.")
    return {str(key).lower(): value for key, value in values.items()}


def described(values: dict[str, Any]) -> Described:
    """The paper that the values describe. Unknown keys are ignored, as Markdown has many.

    Raises:
        BadDocument: an id, a version, a title, a year or a date is invalid.
    """
    ids: list[str] = []
    version: int | None = None
    for key, prefix in (("arxiv", "arXiv:"), ("doi", "DOI:"), ("id", "")):
        for name in _strings(values.get(key)):
            whole = name if ":" in name or not prefix else f"{prefix}{name}"
            ids.append(str(_parsed(whole, key)))
            version = version or arxiv_version(whole)
    # Links to PDFs of arXiv and the ACL Anthology have the paper's id.
    for name in (*_strings(values.get("uuid")), *_strings(values.get("pdf_url"))):
        known = stored_identifier(name)
        if known is not None and known.scheme != "URL":
            ids.append(str(known))
            version = version or arxiv_version(name.removesuffix(".pdf"))
    written = " ".join(_strings(values.get("version")))
    if written:
        match = _VERSION.fullmatch(written)
        if match is None:
            raise BadDocument("bad-metadata", f"The version {written[:40]!r} is invalid: write 1, 2, ...")
        version = int(match[1])
    year = " ".join(_strings(values.get("year")))
    if year and not _DATE.fullmatch(year):
        raise BadDocument("bad-metadata", f"The year {year[:40]!r} is invalid: write YYYY.")
    if not isinstance(values.get("title"), str | list | None):
        raise BadDocument(
            "bad-metadata", f"The title {str(values['title'])[:40]} is no text: write it in quotes."
        )
    date = " ".join(_strings(values.get("date"))) or year
    if date and not _DATE.fullmatch(date):
        raise BadDocument(
            "bad-metadata", f"The date {date[:40]!r} is invalid: write YYYY, YYYY-MM or YYYY-MM-DD."
        )
    authors = values.get("authors", values.get("author"))
    names = _strings(authors)
    if len(names) == 1 and isinstance(authors, str):
        names = [name.strip() for name in re.split(r";| and ", names[0]) if name.strip()]
        names = [part.strip() for part in names[0].split(",")] if len(names) == 1 else names
    text = {key: " ".join(" ".join(_strings(values.get(key))).split()) or None for key in (*KEYS, *_AIRQA)}
    metadata = Metadata(
        text["title"],
        text["abstract"],
        tuple(filter(None, names)),
        date or None,
        text["venue"] or text["conference"] or text["conference_full"],
        text["conference_full"],
        text["volume"],
        text["tldr"],
        tuple(_strings(values.get("tags"))),
        text["pdf_url"],
    )
    return Described(tuple(dict.fromkeys(ids)), version, metadata)


def _parsed(name: str, key: str) -> Identifier:
    try:
        return parse(name)
    except InvalidRequest as error:
        raise BadDocument("bad-metadata", f"The {key} in the metadata is invalid: {error}") from error


def _strings(value: object) -> list[str]:
    if isinstance(value, bool | dict) or value is None:
        return []
    if isinstance(value, int | float):
        return [str(value)]
    if isinstance(value, str):
        return [clean(value).strip()] if value.strip() else []
    if isinstance(value, list):
        return [text for item in value if not isinstance(item, list) for text in _strings(item)]
    return []


def _value(text: str) -> str | list[str]:
    if text in (">", ">-", "|", "|-"):
        return ""
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
