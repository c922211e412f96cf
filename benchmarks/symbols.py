"""Searches for names with symbols: how many of the first ten results are relevant.

Each line of symbols.tsv has a query and a regular expression: a paper is relevant if the expression matches its title
or abstract. Prints a table, whose last line has the sums. Few papers are relevant for some queries.

    python benchmarks/symbols.py --library my-library
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--library", type=Path, required=True)
    folder = parser.parse_args().library
    sums = dict.fromkeys(WAYS, 0)
    print("| query |", " | ".join(WAYS), "|")
    print("|---" * (1 + len(WAYS)) + "|")
    with Library.open(folder) as library:
        for line in QUERIES.read_text(encoding="utf-8").splitlines():
            query, pattern = line.split("\t")
            is_relevant = re.compile(pattern).search
            counts = {}
            for name, options in WAYS.items():
                papers = [hit.paper for hit in library.search(query, limit=RESULTS, **options).results]
                counts[name] = sum(
                    bool(is_relevant(f"{paper.title}\n{paper.abstract or ''}")) for paper in papers
                )
                sums[name] += counts[name]
            print(f"| `{query}` |", " | ".join(map(str, counts.values())), "|")
    print("| all |", " | ".join(map(str, sums.values())), "|")


if __name__ == "__main__":
    main()
