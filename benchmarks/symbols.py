"""Searches for names with symbols: how many of the first ten results are relevant.

Each line of symbols.tsv has a query and a regular expression: a paper is relevant if the expression matches its stored
title or abstract. A query with fewer than ten relevant papers can find only those.

    python benchmarks/symbols.py --library my-library
"""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scholarbase.databases import open_immutable
from scholarbase.search.library import Library

QUERIES: Final = Path(__file__).with_suffix(".tsv")
RESULTS: Final = 10
WAYS: Final[dict[str, dict[str, Any]]] = {
    "sparse": {"mode": "sparse"},
    "fts5": {"mode": "sparse", "engine": "fts5"},
    "feedback": {"mode": "sparse", "engine": "feedback"},
    "dense": {"mode": "dense"},
    "hybrid": {"mode": "hybrid"},
}


def relevant(catalog: Path, patterns: dict[str, re.Pattern[str]]) -> dict[str, set[str]]:
    """The titles of the relevant papers of each query."""
    titles: dict[str, set[str]] = {query: set() for query in patterns}
    with closing(open_immutable(catalog)) as db:
        rows = db.execute("SELECT title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id")
        for title, abstract in rows:
            text = f"{title}\n{abstract or ''}"
            for query, pattern in patterns.items():
                if pattern.search(text):
                    titles[query].add(title)
    return titles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--library", type=Path, required=True)
    library_path = parser.parse_args().library
    lines = QUERIES.read_text().splitlines()
    patterns = {query: re.compile(pattern) for query, pattern in (line.split("\t") for line in lines)}
    titles = relevant(library_path / "catalog.sqlite", patterns)
    sums = dict.fromkeys((*WAYS, "possible"), 0)
    print("| query | relevant |", " | ".join(WAYS), "|")
    print("|---" * (2 + len(WAYS)) + "|")
    with Library.open(library_path) as library:
        for query in patterns:
            counts = []
            for name, options in WAYS.items():
                found = library.search(query, limit=RESULTS, **options).results
                counts.append(sum(hit.paper.title in titles[query] for hit in found))
                sums[name] += counts[-1]
            sums["possible"] += min(RESULTS, len(titles[query]))
            print(f"| `{query}` | {len(titles[query])} |", " | ".join(map(str, counts)), "|")
    print(f"| all {len(patterns)} | {sums['possible']} |", " | ".join(str(sums[name]) for name in WAYS), "|")


if __name__ == "__main__":
    main()
