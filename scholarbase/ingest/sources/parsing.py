"""Parses the lines of a snapshot: those of a large file in a process of its own, if a core is free for it.

Parsing and cleaning a line takes as long as writing its record, so the two run beside each other. The first lines are
parsed here while the process starts.
"""

from __future__ import annotations

import marshal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args

from scholarbase.errors import SourceError
from scholarbase.ingest.batches import batched
from scholarbase.ingest.records import Record, Reject
from scholarbase.ingest.sources import arxiv, beir, openalex, s2ag
from scholarbase.ingest.sources.cleaning import cleaning
from scholarbase.ingest.sources.detect import Dataset
from scholarbase.memory import rare_collections
from scholarbase.workers import Send, Worker, WorkerEnded, pays_off, requests

PARSERS: Final[Mapping[Dataset, Callable[[bytes], Record | Reject]]] = {
    Dataset.PAPERS: cleaning(s2ag.parse_papers),
    Dataset.PAPER_IDS: s2ag.parse_paper_ids,
    Dataset.ABSTRACTS: cleaning(s2ag.parse_abstracts),
    Dataset.PUBLICATION_VENUES: cleaning(s2ag.parse_publication_venues),
    Dataset.AUTHORS: cleaning(s2ag.parse_authors),
    Dataset.TLDRS: cleaning(s2ag.parse_tldrs),
    Dataset.ARXIV: cleaning(arxiv.parse_arxiv),
    Dataset.OPENALEX: cleaning(openalex.parse_works),
    Dataset.BEIR: cleaning(beir.parse_beir),
    Dataset.CITATIONS: s2ag.parse_citations,
}
"""The parser of each dataset whose records are lines: from one line to one record or reject."""

WORKER: Final = "scholarbase.ingest.parse_worker"
_LONG: Final = {Dataset.PAPERS, Dataset.ABSTRACTS, Dataset.ARXIV, Dataset.OPENALEX, Dataset.BEIR}
"""Datasets whose lines take longer to parse than to send to another process."""
_LINE_BYTES: Final = 1_000
"""About the least bytes of their lines, so that the size of a file says how many it has at most."""
_LINES_AT_ONCE: Final = 10_000
_BYTES_AT_ONCE: Final = 1_000_000
_FIRST: Final = 4
"""Batches that are parsed and written in about the half second in which a process starts."""
_AHEAD: Final = 6
"""Batches that are parsed while records are written: more bytes than one transaction takes."""


def worker_pays_off(dataset: Dataset, size: int) -> bool:
    """Whether a file of ``size`` bytes is parsed sooner by a process of its own."""
    return dataset in _LONG and pays_off(size // _LINE_BYTES)


class Parsed(NamedTuple):
    """A line's record, after the number of the line and the line, as they were given."""

    line: int
    content: bytes
    record: Record | Reject


Line = tuple[int, bytes | Reject]
"""The number of a line, and the line, or the reject that it is already."""


def parsed(dataset: Dataset, lines: Iterable[Line], *, in_worker: bool) -> Iterator[Parsed]:
    """The records of numbered lines of ``dataset``, in their order. A line that is a reject already stays one.

    Args:
        in_worker: parse in a process of its own, ahead of the caller.

    Raises:
        SourceError: this process ended early.
    """
    yield from (_in_worker if in_worker else _here)(dataset, lines)


def _here(dataset: Dataset, lines: Iterable[Line]) -> Iterator[Parsed]:
    parse = PARSERS[dataset]
    for line, content in lines:
        yield _reject(line, content) if isinstance(content, Reject) else Parsed(line, content, parse(content))


def _reject(line: int, reject: Reject) -> Parsed:
    return Parsed(line, b"", reject)


def _in_worker(dataset: Dataset, lines: Iterable[Line]) -> Iterator[Parsed]:
    # The worker is killed before the thread that waits for it is joined.
    with ThreadPoolExecutor(1) as thread, closing(Worker(WORKER, str(dataset))) as worker:

        def parse(contents: list[bytes]) -> bytes:
            try:
                worker.send(None, marshal.dumps(contents))
                return worker.receive()[1]
            except WorkerEnded as ended:
                raise SourceError(
                    f"The process that parses {dataset} ended with status {ended.status}: see its messages above, and "
                    "run the same command again to continue."
                ) from None

        ahead: deque[tuple[list[Line], Future[bytes]]] = deque()
        batches = batched(lines, _LINES_AT_ONCE, _BYTES_AT_ONCE, _size)
        first = deque(islice(batches, _FIRST))
        for batch in batches:
            contents = [content for _, content in batch if not isinstance(content, Reject)]
            ahead.append((batch, thread.submit(parse, contents)))
            if first:
                yield from _here(dataset, first.popleft())
            elif len(ahead) > _AHEAD:
                yield from _joined(*ahead.popleft())
        yield from _here(dataset, chain.from_iterable(first))
        while ahead:
            yield from _joined(*ahead.popleft())


def _size(line: Line) -> int:
    """The bytes of a line; those that a reject takes about."""
    return _LINE_BYTES if isinstance(line[1], Reject) else len(line[1])


def _joined(batch: list[Line], records: Future[bytes]) -> Iterator[Parsed]:
    answers = iter(marshal.loads(records.result()))  # of a process of our own
    for line, content in batch:
        if isinstance(content, Reject):
            yield _reject(line, content)
        else:
            kind, values = next(answers)
            yield Parsed(line, content, _KINDS[kind](*values))


# -- in the worker --------------------------------------------------------------------------------------

_KINDS: Final[tuple[type[Any], ...]] = (*get_args(Record), Reject)
_VALUES: Final = {
    kind: (number, attrgetter(*(field.name for field in fields(kind)))) for number, kind in enumerate(_KINDS)
}


def parse_batches(dataset: str, send: Send) -> None:
    """Answer each batch of lines with their records: the numbers of their classes, and their fields, which are of
    built-in types."""
    parse = PARSERS[Dataset(dataset)]
    with rare_collections():
        for _, lines in requests():
            records = map(parse, marshal.loads(lines))
            numbered = ((record, *_VALUES[type(record)]) for record in records)
            send(None, marshal.dumps([(number, values(record)) for record, number, values in numbered]))
