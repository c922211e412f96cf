"""Small papers of unarXive, made from words."""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson


def record(
    number: int, sections: Iterable[tuple[str, str]], *, cites: Iterable[int] = (), version: int = 1
) -> dict[str, Any]:
    """Paper ``2001.NUMBER`` with sections of a title and a text; ``{{cite:N}}`` in it cites paper N."""
    arxiv_id = f"2001.{number:05d}"
    created = f"Wed, {number % 28 + 1} Jan 2020 10:00:00 GMT"
    return {
        "paper_id": arxiv_id,
        "metadata": {
            "id": arxiv_id,
            "title": f"The paper of number {number}",
            "authors_parsed": [["Author", f"A{number}", ""]],
            "abstract": f"The abstract of number {number}.",
            "categories": "cs.CL",
            "versions": [{"version": f"v{one + 1}", "created": created} for one in range(version)],
        },
        "abstract": {"section": "Abstract", "text": f"The abstract of number {number}."},
        "body_text": [
            {
                "section": title,
                "sec_number": str(place),
                "sec_type": "section",
                "content_type": "paragraph",
                "text": text,
                "cite_spans": [],
                "ref_spans": [],
            }
            for place, (title, text) in enumerate(sections, 1)
        ],
        "bib_entries": {
            str(cited): {
                "bib_entry_raw": f"A. Author. The paper of number {cited}. 2020.",
                "ids": {"arxiv_id": f"2001.{cited:05d}"},
            }
            for cited in cites
        },
        "ref_entries": {},
    }


def write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    """Write records as JSON lines, compressed with gzip."""
    path.write_bytes(gzip.compress(b"".join(orjson.dumps(one) + b"\n" for one in records), mtime=0))
    return path


def papers(count: int) -> list[dict[str, Any]]:
    """Papers of which each cites the one before it."""
    words = [
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"),
        *("iota", "kappa", "lambda", "mu", "nu", "xi", "omicron"),
    ]
    return [
        record(
            number,
            [
                (
                    "Introduction",
                    f"We study {words[number % 15]} and {words[number % 7]} of number {number}.",
                ),
                (
                    "Method",
                    f"As shown before {{{{cite:{number - 1}}}}}, {words[number % 11]} grows. It then stops.",
                ),
            ],
            cites=[number - 1] if number > 1 else [],
        )
        for number in range(1, count + 1)
    ]
