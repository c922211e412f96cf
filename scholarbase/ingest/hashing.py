"""The sums of a catalogue's tables, computed in a subprocess while the indexes are built.

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
from scholarbase.indexes.content_hash import table_sums
from scholarbase.workers import end_with_parent, module_command, module_environment, pays_off


@contextmanager
def hashed_tables(catalog: Path, papers: int) -> Iterator[Callable[[], dict[str, int]]]:
    """A function that returns the sums of the tables, which must not change any more.

    They are computed meanwhile, if there are enough ``papers`` and cores, or else in the call.
    """
    if not pays_off(papers):
        yield lambda: _sums(catalog)
        return
    with subprocess.Popen(
        module_command(__name__, str(catalog)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=module_environment(),
        process_group=0,  # Ctrl-C ends the job, which ends it
    ) as process:

        def wait() -> dict[str, int]:
            output, _ = process.communicate()
            if process.returncode != 0:
                return _sums(catalog)
            return {name: int(total, 16) for name, total in orjson.loads(output).items()}

        try:
            yield wait
        finally:
            process.kill()


def _sums(catalog: Path) -> dict[str, int]:
    with closing(open_for_reading(catalog)) as db:
        return table_sums(db)


def _main(catalog: str) -> None:
    end_with_parent()
    os.nice(10)  # use the time that the other processes leave
    output: Any = sys.stdout.buffer
    with suppress(BrokenPipeError):
        output.write(orjson.dumps({name: f"{total:x}" for name, total in _sums(Path(catalog)).items()}))
        output.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
