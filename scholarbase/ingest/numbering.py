"""The catalogue's integer id of a paper, computed from the id that responses show.

Edges, full text and vectors refer to papers by these numbers, and ties break by them. They depend on the paper alone,
so that the same papers have the same numbers however their files are divided and ordered, and keep them when a library
is updated.

======================  ===============================================================================
papers with             number
======================  ===============================================================================
an arXiv id since 2007  months since January 2000, times 100,000, plus the number within the month
an older arXiv id       2**28, plus the archive's place, the month and the number within the month
a corpus id             2**30 plus the corpus id
another id              2**62 plus 60 bits of the hash of the id
======================  ===============================================================================

Neighbouring papers of one source have close numbers, which full-text indexes store as small differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from scholarbase.errors import SourceError
from scholarbase.identifiers import ARCHIVES

_OLD: Final = 1 << 28
_CORPUS: Final = 1 << 30
_HASHED: Final = 1 << 62
_HASH_BITS: Final = 60
_PER_MONTH: Final = 100_000
"""Ids since 2007 have up to five digits after the month."""
_PER_OLD_MONTH: Final = 1_000
_MONTHS: Final = 1_200
_SHOWN: Final = ("Doc", "OpenAlex", "DOI")
"""The schemes that name a paper without an arXiv id and a corpus id, the first one that it has."""


def paper_number(arxiv_id: str | None, corpus_id: int | None, external_ids: Mapping[str, str]) -> int:
    """The number of the paper with these ids, from 1 to 2**63 - 1.

    Raises:
        SourceError: it has no id.
    """
    if arxiv_id is not None:
        return arxiv_number(arxiv_id)
    if corpus_id is not None:
        return corpus_number(corpus_id)
    for scheme in (*_SHOWN, *sorted(external_ids)):
        if scheme in external_ids:
            return _hashed(f"{scheme}:{external_ids[scheme]}")
    raise SourceError("A paper has no id in any scheme: it cannot be stored.")


def arxiv_number(arxiv_id: str) -> int:
    """The number of the paper with this canonical arXiv id."""
    archive, slash, digits = arxiv_id.rpartition("/")
    if not slash:
        return _month(arxiv_id) * _PER_MONTH + int(arxiv_id[5:])
    month = ARCHIVES.index(archive) * _MONTHS + _month(digits)
    return _OLD + month * _PER_OLD_MONTH + int(digits[4:])


def corpus_number(corpus_id: int) -> int:
    """The number of a paper that has this corpus id and no arXiv id."""
    return _CORPUS + corpus_id if corpus_id < 1 << 60 else _hashed(f"CorpusId:{corpus_id}")


def document_number(document_id: str) -> int:
    """The number of a collection's document."""
    return _hashed(f"Doc:{document_id}")


def openalex_number(work: int) -> int:
    """The number of a paper that has this OpenAlex id, no arXiv id and no corpus id."""
    return _hashed(f"OpenAlex:W{work}")


def _month(digits: str) -> int:
    """Months since January of year 00: of ``9901``, which precedes it, 1,188. Only the order of ids depends on it."""
    return int(digits[:2]) * 12 + int(digits[2:4]) - 1


def _hashed(name: str) -> int:
    digest = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")
    return _HASHED | digest >> (64 - _HASH_BITS)
