"""The papers of each training step: the tokens of their titles and abstracts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from scholarbase.files import atomic_write
from scholarbase_research.training.options import TrainingOptions
from scholarbase_research.training.vocabulary import UNKNOWN

TEXTS_PER_BATCH: Final = 2_048
CHUNK: Final = (0.2, 0.6)
"""The least and the greatest length of a chunk, as a share of its abstract."""
SHORTEST_CHUNK: Final = 8
"""Tokens."""

_ORDER, _STEP = 1, 2
"""Which random numbers are drawn: the order of the papers in an epoch, or those of a step."""

Ids = npt.NDArray[np.int64]


class Bag(NamedTuple):
    """Texts of one column: the tokens of all, one after the other, and where each text starts."""

    ids: Ids
    offsets: Ids


class TokenFile:
    """The tokens of many texts in a file, which is mapped into memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._starts = np.load(folder / f"{name}.starts.npy")
        self._ids = np.memmap(folder / f"{name}.tokens", dtype=np.int32, mode="r")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def spans(self, rows: Ids) -> tuple[Ids, Ids]:
        """Where the tokens of these texts start and end."""
        return self._starts[rows], self._starts[rows + 1]

    def bag(self, starts: Ids, ends: Ids, dropped: float, random: np.random.Generator) -> Bag:
        """The tokens of these spans, without a share that is dropped. The first of a text always stays."""
        lengths = ends - starts
        offsets = np.cumsum(lengths) - lengths
        texts = np.repeat(np.arange(len(lengths)), lengths)
        ids = self._ids[np.arange(lengths.sum()) + (starts - offsets)[texts]].astype(np.int64)
        kept = random.random(len(ids)) >= dropped
        kept[offsets[lengths > 0]] = True
        return Bag(ids[kept], np.searchsorted(texts[kept], np.arange(len(lengths))))


def write_tokens(
    folder: Path, tokenizer: Tokenizer, papers: Iterable[tuple[str, str]], advance: Callable[[int], None]
) -> None:
    """Write the tokens of all titles and abstracts into ``folder``."""
    unknown = tokenizer.token_to_id(UNKNOWN)
    starts: dict[str, list[int]] = {"titles": [0], "abstracts": [0]}
    with (
        atomic_write(folder / "titles.tokens") as titles,
        atomic_write(folder / "abstracts.tokens") as abstracts,
    ):
        files = {"titles": titles, "abstracts": abstracts}
        for batch in _batches(papers, TEXTS_PER_BATCH):
            for (name, file), texts in zip(files.items(), zip(*batch, strict=True), strict=True):
                for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False):
                    ids = np.array(encoding.ids, dtype=np.int32)
                    ids = ids[ids != unknown]
                    file.write(ids.tobytes())
                    starts[name].append(starts[name][-1] + len(ids))
            advance(len(batch))
    for name, values in starts.items():
        with atomic_write(folder / f"{name}.starts.npy") as file:
            np.save(file, np.array(values, dtype=np.int64))


def has_tokens(folder: Path) -> bool:
    """Whether ``write_tokens`` has ended."""
    return (folder / "abstracts.starts.npy").exists()


class Pairs:
    """The titles and abstracts of each step, which depend only on the options and the number of the step."""

    def __init__(self, folder: Path, options: TrainingOptions) -> None:
        self._titles = TokenFile(folder, "titles")
        self._abstracts = TokenFile(folder, "abstracts")
        self._options = options
        self._batch = min(options.batch, len(self._titles))
        self._epoch: tuple[int, Ids] | None = None

    def step(self, number: int) -> tuple[Bag, Bag]:
        """The titles and the abstracts of a step, row by row."""
        options = self._options
        random = np.random.default_rng([options.seed, _STEP, number])
        rows = self._rows(number)
        starts, ends = self._chunks(*self._abstracts.spans(rows), random)
        abstracts = self._abstracts.bag(starts, ends, options.dropped, random)
        titles = self._titles.bag(*self._titles.spans(rows), options.dropped, random)
        return titles, abstracts

    def _rows(self, number: int) -> Ids:
        epoch, batch = divmod(number, len(self._titles) // self._batch)
        if self._epoch is None or self._epoch[0] != epoch:
            random = np.random.default_rng([self._options.seed, _ORDER, epoch])
            self._epoch = epoch, random.permutation(len(self._titles))
        return self._epoch[1][batch * self._batch : (batch + 1) * self._batch]

    def _chunks(self, starts: Ids, ends: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Replace a share of the spans by a part of each, at a random place."""
        lengths = ends - starts
        chosen = random.random(len(lengths)) < self._options.chunks
        sizes = (lengths * random.uniform(*CHUNK, len(lengths))).astype(np.int64)
        sizes = np.where(chosen, np.minimum(np.maximum(sizes, SHORTEST_CHUNK), lengths), lengths)
        first = starts + (random.random(len(lengths)) * (lengths - sizes + 1)).astype(np.int64)
        return first, first + sizes


def _batches(papers: Iterable[tuple[str, str]], size: int) -> Iterator[Sequence[tuple[str, str]]]:
    iterator = iter(papers)
    while batch := list(islice(iterator, size)):
        yield batch
