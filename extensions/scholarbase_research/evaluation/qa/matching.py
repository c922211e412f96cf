"""Comparison of an answer with a gold value, without a language model.

The parameters and their defaults are those of AirQA's evaluation functions (its table 8);
docs/evaluation.md lists where these functions decide otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.utils import default_process

from scholarbase.extras import require
from scholarbase_research.evaluation.qa.literals import as_list, number, parsed

_TRUE: Final = frozenset({"true", "1", "yes", "y", "t"})
_FALSE: Final = frozenset({"false", "0", "no", "n", "f"})
_BLANK: Final = re.compile(r"\s+")
_LATIN_1: Final = dict.fromkeys(range(128, 256))
"""FuzzyWuzzy's token methods remove these characters."""


def _with_tokens(method: Callable[..., float]) -> Callable[[str, str], float]:
    """FuzzyWuzzy's token methods compare words of letters and digits, in lower case."""

    def compare(a: str, b: str) -> float:
        return method(default_process(a.translate(_LATIN_1)), default_process(b.translate(_LATIN_1)))

    return compare


FUZZ_METHODS: Final[dict[str, Callable[[str, str], float]]] = {
    "ratio": fuzz.ratio,
    "partial_ratio": fuzz.partial_ratio,
    "token_sort_ratio": _with_tokens(fuzz.token_sort_ratio),
    "token_set_ratio": _with_tokens(fuzz.token_set_ratio),
}
"""FuzzyWuzzy's methods, from 0 to 100; the results are rounded as there."""
ELEMENT_TYPES: Final = ("str", "int", "float", "bool", "list", "dict", "object")


@dataclass(frozen=True, slots=True)
class Options:
    """How values are compared. A ``threshold`` above 0 compares texts by ``fuzz_method``, others exactly.

    Elements of lists are compared as ``element_type``, and ``count`` of them have to be equal.
    """

    lowercase: bool = False
    ignore_blank: bool = False
    ignore_order: bool = False
    ndigits: int | None = None
    tolerance: float = 1e-6
    fuzz_method: str = "ratio"
    threshold: float = -1
    element_type: str = "str"
    count: int = 1


def same_bool(answer: Any, gold: bool, options: Options) -> bool:
    """Whether the answer means the gold truth value: true, yes, y, t and 1 are true."""
    if isinstance(answer, bool):
        return answer == gold
    if isinstance(answer, int | float):
        return answer in (0, 1) and bool(answer) == gold
    text = str(answer).strip().lower()
    return text in (_TRUE if gold else _FALSE)


def same_int(answer: Any, gold: int, options: Options) -> bool:
    """Whether the answer is a number equal to ``gold``; a fraction is never cut to a whole number."""
    value = number(answer)
    return value is not None and value == gold


def same_float(answer: Any, gold: float, options: Options) -> bool:
    """Whether the answer is a number within the relative ``tolerance``, both rounded to ``ndigits`` if that is set."""
    value = number(answer)
    if value is None:
        return False
    try:
        if options.ndigits is not None:
            value, gold = round(float(value), options.ndigits), round(float(gold), options.ndigits)
        return math.isclose(value, gold, rel_tol=options.tolerance)
    except OverflowError:
        return False


def same_text(answer: Any, gold: str, options: Options) -> bool:
    """Whether the texts are equal, without blanks at their ends."""
    a, b = str(answer).strip(), str(gold).strip()
    if options.ignore_blank:
        a, b = _BLANK.sub("", a), _BLANK.sub("", b)
    return a.lower() == b.lower() if options.lowercase else a == b


def similar_text(answer: Any, gold: str, options: Options) -> bool:
    """Whether FuzzyWuzzy's ratio of the texts reaches the threshold."""
    a, b = str(answer).strip(), str(gold).strip()
    if options.ignore_blank:
        # The token methods need the blanks between words.
        blank = " " if options.fuzz_method.startswith("token") else ""
        a, b = _BLANK.sub(blank, a), _BLANK.sub(blank, b)
    if options.lowercase:
        a, b = a.lower(), b.lower()
    return round(FUZZ_METHODS[options.fuzz_method](a, b)) >= options.threshold


def _text(answer: Any, gold: str, options: Options) -> bool:
    return (similar_text if options.threshold > 0 else same_text)(answer, gold, options)


def same_object(answer: Any, gold: Any, options: Options) -> bool:
    """Whether a list, dict or single value equals ``gold``, part by part.

    With ``ignore_order`` two lists are equal if their items can be paired so that each pair is equal.
    """
    if isinstance(gold, list):
        return _same_list(items_of(answer), gold, options)
    if isinstance(gold, dict):
        content = parsed(answer)
        return isinstance(content, dict) and _same_dict(content, gold, options)
    if isinstance(gold, bool):
        return same_bool(answer, gold, options)
    if isinstance(gold, int | float):
        return same_int(answer, gold, options) if isinstance(gold, int) else same_float(answer, gold, options)
    if gold is None:
        return answer is None or str(answer).strip().lower() in ("none", "null")
    return _text(answer, gold, options)


def _same_list(items: Sequence[Any], gold: Sequence[Any], options: Options) -> bool:
    if len(items) != len(gold):
        return False
    if options.ignore_order:
        return _can_be_paired(items, gold, options)
    return all(same_object(a, g, options) for a, g in zip(items, gold, strict=True))


def _same_dict(answer: dict[Any, Any], gold: dict[Any, Any], options: Options) -> bool:
    a, g = _by_key(answer, options), _by_key(gold, options)
    if not len(a) == len(answer) == len(gold) or a.keys() != g.keys():
        return False
    return all(same_object(a[key], g[key], options) for key in g)


def _by_key(value: dict[Any, Any], options: Options) -> dict[str, Any]:
    return {str(key).lower() if options.lowercase else str(key): item for key, item in value.items()}


def _can_be_paired(items: Sequence[Any], gold: Sequence[Any], options: Options) -> bool:
    """Whether the items can be paired so that each pair is equal."""
    graph = require("scipy.sparse.csgraph", "evaluation", "The evaluation")
    equal = np.array([[same_object(item, g, options) for g in gold] for item in items], dtype=np.int8)
    csr_array = require("scipy.sparse", "evaluation", "The evaluation").csr_array
    return not gold or bool((graph.maximum_bipartite_matching(csr_array(equal)) >= 0).all())


def is_element(answer: Any, gold: Sequence[Any], options: Options) -> bool:
    """Whether the answer equals an element of ``gold``."""
    same: dict[str, Callable[[Any, Any, Options], bool]] = {
        "str": _text,
        "int": same_int,
        "float": same_float,
        "bool": same_bool,
    }
    compare = same.get(options.element_type, same_object)
    return any(compare(answer, g, options) for g in gold)


def items_of(answer: Any) -> list[Any]:
    """The items of a list, or the answer itself as the only item."""
    items = as_list(answer)
    return [answer] if items is None else items


def all_are_elements(answer: Any, gold: Sequence[Any], options: Options) -> bool:
    """Whether every item of the answer is an element of ``gold``. An answer without items is not."""
    items = items_of(answer)
    return bool(items) and all(is_element(item, gold, options) for item in items)


def overlap(answer: Any, gold: Sequence[Any], options: Options) -> bool:
    """Whether at least ``count`` distinct items of the answer are elements of ``gold``."""
    distinct = {str(item): item for item in items_of(answer)}.values()
    return sum(is_element(item, gold, options) for item in distinct) >= options.count


def same_title(answer: Any, titles: str | Sequence[str], options: Options) -> bool:
    """Whether FuzzyWuzzy's ratio of the answer and one of the titles, in lower case, reaches the threshold."""
    options = replace(options, lowercase=True)
    return any(
        similar_text(answer, title, options) for title in ([titles] if isinstance(titles, str) else titles)
    )
