"""Draw the titles of ``scholarbase/ingest/background.txt``: one of each arXiv category, so that most are unrelated.

python benchmarks/background.py ../shared/data/arxiv/arxiv-metadata-oai-snapshot.json.xz
"""

from __future__ import annotations

import lzma
import random
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

import orjson

FILE: Final = Path(__file__).resolve().parent.parent / "scholarbase" / "ingest" / "background.txt"
_PLAIN: Final = re.compile(r"[A-Za-z0-9',:()?-]+( [A-Za-z0-9',:()?-]+){4,15}")
"""A title of 5 to 16 words, without formulas."""


def main() -> None:
    titles = defaultdict(set)
    with lzma.open(sys.argv[1]) as lines:
        for line in lines:
            record = orjson.loads(line)
            title = " ".join(record["title"].split())
            if record["categories"] and _PLAIN.fullmatch(title):
                titles[record["categories"].split()[0]].add(title)
    draw = random.Random(0)
    FILE.write_text("".join(f"{draw.choice(sorted(titles[name]))}\n" for name in sorted(titles)))


if __name__ == "__main__":
    main()
