"""Pages of arXiv's OAI-PMH server, written as its templates write them (github.com/arXiv/oaipmh, oaipmh/templates)."""

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ORDER = ("comments", "journal-ref", "doi", "license", "abstract")


def raw(line: Mapping[str, Any], *, withdrawn: bool = False) -> str:
    """A record in the format ``arXivRaw``, from a line of arXiv's metadata snapshot."""
    versions = "".join(
        f'<version version="{one["version"]}"><date>{one["created"]}</date><size>12kb</size>'
        + (
            f"<source_type>{'I' if withdrawn and one is line['versions'][-1] else 'D'}</source_type></version>"
        )
        for one in line.get("versions") or ()
    )
    fields = "".join(element(name, line.get(name)) for name in ("title", "authors", "categories", *ORDER))
    return record(
        line,
        f'<arXivRaw xmlns="http://arxiv.org/OAI/arXivRaw/"><id>{line["id"]}</id><submitter>A. Person</submitter>'
        f"{versions}{fields}</arXivRaw>",
    )


def parsed(line: Mapping[str, Any]) -> str:
    """A record in the format ``arXiv``."""
    authors = "".join(
        "<author>"
        + "".join(
            element(name, value)
            for name, value in zip(("keyname", "forenames", "suffix"), parts, strict=True)
            if value
        )
        + "</author>"
        for parts in line["authors_parsed"]
    )
    fields = "".join(element(name, line.get(name)) for name in ("title", "categories", *ORDER))
    return record(
        line,
        f'<arXiv xmlns="http://arxiv.org/OAI/arXiv/"><id>{line["id"]}</id><created>{line["created"]}</created>'
        f"<authors>{authors}</authors>{fields}</arXiv>",
    )


def deleted(identifier: str, day: str) -> str:
    return (
        f'<record><header status="deleted"><identifier>oai:arXiv.org:{identifier}</identifier>'
        f"<datestamp>{day}</datestamp></header></record>"
    )


def record(line: Mapping[str, Any], metadata: str) -> str:
    return (
        f"<record>\n<header><identifier>oai:arXiv.org:{line['id']}</identifier>"
        f"<datestamp>{line['update_date']}</datestamp><setSpec>cs:cs:CL</setSpec></header>\n"
        f"<metadata>{metadata}</metadata>\n</record>"
    )


def element(name: str, value: Any) -> str:
    return "" if value is None else f"<{name}>{escape(value)}</{name}>\n"


def page(records: Iterable[str]) -> str:
    listed = "\n".join(records)
    return document(f"<ListRecords>\n{listed}\n<resumptionToken cursor='0'/>\n</ListRecords>")


def document(inner: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">\n'
        f"<responseDate>2026-11-23T00:00:00Z</responseDate>\n<request>https://oaipmh.arxiv.org/oai</request>\n{inner}\n"
        "</OAI-PMH>\n"
    )


def write(path: Path, records: Iterable[str]) -> Path:
    """Write a page, as ``scholarbase download arxiv`` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(page(records).encode()))
    return path
