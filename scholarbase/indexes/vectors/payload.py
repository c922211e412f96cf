"""What is the same for every engine in how a point is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import Payload, SparseVector

INTEGER_FIELDS: Final = ("first_day", "last_day", "citation_count")
KEYWORD_FIELDS: Final = ("categories", "venue")
"""The fields of a payload, each with an index."""


def payload_dict(payload: Payload) -> dict[str, Any]:
    """What is stored of a payload: only what is known, so that what is missing fails every filter."""
    stored = {
        "first_day": payload.first_day,
        "last_day": payload.last_day,
        "categories": list(payload.categories) or None,
        "venue": payload.venue,
        "citation_count": payload.citation_count,
    }
    return {name: value for name, value in stored.items() if value is not None}


def payload_of(stored: Mapping[str, Any] | None) -> Payload:
    """The other way of ``payload_dict``.

    Raises:
        VectorIndexError: a field that no payload has.
    """
    try:
        return Payload(**stored) if stored else Payload()
    except TypeError as error:
        raise VectorIndexError(f"The payload {stored!r} is none of ScholarBase's: {error}.") from error


def ascending(indices: Sequence[int], values: Sequence[float]) -> SparseVector:
    """A sparse vector as this library holds it: by ascending index."""
    pairs = sorted(zip(indices, values, strict=True))
    return SparseVector([index for index, _ in pairs], [float(value) for _, value in pairs])


def point_id(value: Any) -> int:
    """A point's id.

    Raises:
        VectorIndexError: it is no whole number, so that the point is none of ScholarBase's.
    """
    if not isinstance(value, int):
        raise VectorIndexError(
            f"Point {value!r} has no whole number for an id: this is no index of ScholarBase."
        )
    return value
