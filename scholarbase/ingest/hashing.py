"""The hashes of a catalogue's tables, computed in a subprocess while the indexes are built.

Both Qdrant and the conversion of rows hold the GIL, so a thread would delay the indexing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from scholarbase.databases import open_for_reading
from scholarbase.indexes.content_hash import table_hashes
from scholarbase.ingest import terms


@contextmanager
def hashed_tables(catalog: Path, papers: int) -> Iterator[Callable[[], dict[str, str]]]:
    """A function that returns the hashes of the tables, which must not change any more.

    They are computed meanwhile, if there are enough ``papers`` and cores, or else in the call.
    """
    if papers < terms.SUBPROCESS_PAPERS or not sys.executable or len(os.sched_getaffinity(0)) == 1:
        yield lambda: _hashes(catalog)
        return
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(catalog)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment,
        process_group=0,  # Ctrl-C ends the job, which ends it
    ) as process:

        def wait() -> dict[str, str]:
            output, _ = process.communicate()
            hashes: dict[str, str] = orjson.loads(output) if process.returncode == 0 else _hashes(catalog)
            return hashes

        try:
            yield wait
        finally:
            process.kill()


def _hashes(catalog: Path) -> dict[str, str]:
    with closing(open_for_reading(catalog)) as db:
        return table_hashes(db)


def _main(catalog: str) -> None:
    os.nice(10)  # use the time that the other processes leave
    output: Any = sys.stdout.buffer
    with suppress(BrokenPipeError):
        output.write(orjson.dumps(_hashes(Path(catalog))))
        output.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
