"""Whether two records describe one work: their titles and the names of their authors, compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from rapidfuzz.distance import Indel

from scholarbase.bibliographies.names import surname
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.indexes.titles import main_title, normalize_title, similarity
from scholarbase.models.limits import MAX_TITLE_LENGTH

Relation = Literal["same", "subtitle", "variant", "reworded", "other"]

ID_TITLE_SCORE: Final = 0.6
"""The least similarity of the titles of two records with one id, if nothing else contradicts it."""
NAMING_LETTERS: Final = 18
"""Letters of a title that names one work, whoever its authors are: *Introduction* and *Phonon confinement* do not."""
VARIANT_SCORE: Final = 0.8
"""The least similarity of two titles that differ by typing errors or the order of words."""
REWORDED_WORDS: Final = 7
"""Words of a title that may have a word more or less, if all authors agree."""
WORD_SCORE: Final = 0.7
"""The least similarity of two words of such titles."""
SURNAME_SCORE: Final = 0.85
MIN_SURNAME: Final = 5
"""Letters of a surname that may differ by typing errors."""
_MAX_COMPARED: Final = 500
"""Authors that are compared; collaborations have thousands."""
_NUMERAL: Final = re.compile(r"\d+|\b[IVX]{1,5}\b")
_UMLAUT: Final = re.compile(r"([aou])e")


def titles_agree(one: str | None, other: str | None) -> bool:
    """Whether two titles can be of one work, whose id both records have."""
    relation, score = relation_of(one, other)
    return relation != "other" or (score or 0.0) >= ID_TITLE_SCORE


def first_authors_agree(some: Sequence[str], others: Sequence[str]) -> bool | None:
    """Whether the first author of one list is in the other one. None if a list is empty."""
    if not some or not others:
        return None
    if fold(surname(some[0])) == fold(surname(others[0])):
        return True
    first, second = ([fold(surname(name)) for name in names[:_MAX_COMPARED]] for names in (some, others))
    return is_among(first[0], second) or is_among(second[0], first)


def is_same_work(
    title: str,
    authors: Sequence[str],
    other_title: str,
    other_authors: Sequence[str],
    *,
    are_parts: bool = False,
) -> bool:
    """Whether two records with one id describe one work: their titles or their first authors agree.

    Titles with other first authors must be nearly the same, and long enough to name one work. ``are_parts``: they are
    two parts of a book or journal, of which one author may have written several, so that the titles decide.
    """
    same_author = first_authors_agree(authors, other_authors)
    if same_author and not are_parts:
        return True
    if same_author is None:
        return titles_agree(title, other_title)
    is_long = len(normalize_title(title)) >= NAMING_LETTERS
    return (same_author or is_long) and relation_of(title, other_title)[0] != "other"


def is_among(name: str, known: Sequence[str]) -> bool:
    """Whether a surname is among others, all folded: a typing error or a particle more or less does not matter."""
    if not name:
        return False
    if name in known:
        return True
    if any(
        len(other) > 3 and len(name) > 3 and (other.endswith(name) or name.endswith(other)) for other in known
    ):
        return True  # van der Berg, Berg
    return len(name) >= MIN_SURNAME and any(
        Indel.normalized_similarity(name, other) >= SURNAME_SCORE for other in known
    )


@lru_cache(maxsize=20_000)
def fold(name: str) -> str:
    """A name in the form in which names are compared: ``Müller``, ``M\\"uller`` and ``Mueller`` are ``muller``."""
    return _UMLAUT.sub(r"\1", normalize_title(name[:200]))


def relation_of(written: str | None, title: str | None) -> tuple[Relation, float | None]:
    """How the title of a reference and that of a paper are related, and their similarity."""
    if not written or not title:
        return "other", None
    written = written[:MAX_TITLE_LENGTH]
    a, b = normalize_title(written), normalize_title(title)
    if not a or not b:
        return "other", 0.0
    if a == b:
        return "same", 1.0
    score = similarity(a, b)
    if any(
        normalize_title(main_title(longer) or "") == shorter for longer, shorter in ((written, b), (title, a))
    ):
        return "subtitle", max(score, 0.9)
    return _variant(written, title, score), score


def _variant(written: str, title: str, score: float) -> Relation:
    """Whether two titles differ only by typing errors, hyphens, stop words and the order of words (variant), or a long
    one has a word more (reworded). *Part I* and *Part II* are different titles."""
    if sorted(_NUMERAL.findall(written)) != sorted(_NUMERAL.findall(title)):
        return "other"
    a, b = (Counter(normalize_title(word) for word in words(text)) for text in (written, title))
    only_a, only_b = list((a - b).elements()), list((b - a).elements())
    if "".join(only_a) == "".join(only_b):  # such as another order
        return "variant"
    if score < VARIANT_SCORE:
        return "other"
    if _each_has_partner(only_a, only_b) and _each_has_partner(only_b, only_a):
        return "variant"
    one_more = not (only_a and only_b) and len(only_a) + len(only_b) == 1
    return "reworded" if one_more and min(a.total(), b.total()) >= REWORDED_WORDS else "other"


def _each_has_partner(some: Sequence[str], others: Sequence[str]) -> bool:
    return all(
        word in STOP_WORDS or any(Indel.normalized_similarity(word, other) >= WORD_SCORE for other in others)
        for word in some
    )
