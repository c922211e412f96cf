"""The sums of a catalogue's tables, computed by a worker while the indexes are built.

Both Qdrant and the conversion of rows hold the GIL, so a thread would delay the indexing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from scholarbase.databases import open_for_reading
from scholarbase.indexes.content_hash import table_sums
from scholarbase.workers import Send, Worker, pays_off, work


@contextmanager
def hashed_tables(catalog: Path, papers: int) -> Iterator[Callable[[], dict[str, int]]]:
    """A function that returns the sums of the tables, which must not change any more. It raises VectorIndexError.

    They are computed meanwhile, if there are enough ``papers`` and cores, or else in the call.
    """
    if not pays_off(papers):
        yield lambda: _sums(catalog)
        return
    with closing(Worker(__name__, str(catalog))) as worker:

        def wait() -> dict[str, int]:
            [(sums, _)] = worker.messages("the tables' sums")
            return {name: int(total, 16) for name, total in sums.items()}

        yield wait


def _sums(catalog: Path) -> dict[str, int]:
    with closing(open_for_reading(catalog)) as db:
        return table_sums(db)


def _compute(catalog: str, send: Send) -> None:
    os.nice(10)  # use the time that the other processes leave
    send({name: f"{total:x}" for name, total in _sums(Path(catalog)).items()})


if __name__ == "__main__":
    work(_compute)
