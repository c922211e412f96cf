"""What jobs share: checks of the folders that they write, and questions in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import TypeVar

from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase_research.evaluation.queries import Query

T = TypeVar("T")


def check_outputs(folder: Path, mark: str, outputs: Iterable[str], error: type[ScholarBaseError]) -> None:
    """Raise ``error`` if ``folder`` has files with the names of a job's outputs that the job did not write.

    ``mark`` is the file that the job creates in its folder before any output.
    """
    if (folder / mark).exists():
        return
    for name in outputs:
        if (folder / name).exists():
            raise error(
                f"{folder / name} is not of an earlier run, as {folder} has no {mark}, and would be overwritten: use "
                "another --out, or move the file."
            )


def check_inputs(folder: Path, outputs: Iterable[str], inputs: Iterable[Path | None]) -> None:
    """Raise InvalidRequest if an input of a job is one of the files that the job writes in ``folder``."""
    for name in outputs:
        for path in inputs:
            if (
                path is not None
                and path.exists()
                and (folder / name).exists()
                and path.samefile(folder / name)
            ):
                raise InvalidRequest(f"{path} is read, and would be overwritten: use another --out.")


def in_threads(
    run: Callable[[Query], T],
    queries: Sequence[Query],
    concurrency: int,
    done: int,
    total: int,
    *,
    kept: str = "done and kept",
    ended: Event | None = None,
) -> Iterator[T]:
    """Run a function on questions, several at once, and yield the results as they come.

    After an error no further question is started, ``ended`` is set, and those that run are finished first.

    Raises:
        ScholarBaseError: a question failed. The message says how many are ``kept``.
    """
    failed: BaseException | None = None
    ended = ended or Event()
    with ThreadPoolExecutor(concurrency, "question") as pool:
        waiting = {pool.submit(run, query) for query in queries}
        try:
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    if (error := future.exception()) is None:
                        done += 1
                        yield future.result()
                        continue
                    if failed is None or isinstance(error, ScholarBaseError):
                        failed = error
                    ended.set()
                    waiting = {other for other in waiting if not other.cancel()}
        finally:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
    if isinstance(failed, ScholarBaseError):
        hint = f"{done} of {total} questions are {kept}: the same command continues."
        raise type(failed)(f"{failed} {hint}") from failed
    if failed is not None:
        raise failed
