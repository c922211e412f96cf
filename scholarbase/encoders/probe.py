"""Checks that an encoder is the one that a library was built with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from scholarbase.encoders.base import Encoder
from scholarbase.errors import EncoderMismatch, LibraryCorrupt
from scholarbase.models.encoders import EncoderSpec, QuerySpec

PROBE_TEXT: Final = (
    "A known text for a known vector\n"
    "We measure whether two encoders agree. The same sentence is encoded when a library is built and when it "
    "is opened, and the two vectors are compared by their cosine."
)
"""Encoded when a library is built and again when it is opened. Changing it invalidates every stored probe."""

TOLERANCE: Final = 0.001
"""How far the cosine may be below 1: rounding stays well within, other models are far outside."""


def probe(encoder: Encoder) -> dict[str, Any]:
    """Encode :data:`PROBE_TEXT` as a query, as serving does. The last digits differ between machines.

    Returns the vectors under ``dense``, a list of numbers, and ``sparse``, ``indices`` and ``values``; each is None
    where the encoder has none.

    Raises:
        EncoderError: the encoder fails.
    """
    encodings = encoder.encode_queries([PROBE_TEXT])
    sparse = None
    if encodings.sparse is not None:
        [weights] = encodings.sparse
        sparse = {"indices": weights.indices.tolist(), "values": weights.values.tolist()}
    return {"dense": encodings.dense[0].tolist() or None, "sparse": sparse}


def check_probe(encoder: Encoder, stored: Mapping[str, Any], *, tolerance: float = TOLERANCE) -> None:
    """Compare the encoder's vectors of :data:`PROBE_TEXT` with those stored when the library was built.

    Raises:
        EncoderMismatch: the dimensions differ, or a cosine is below ``1 - tolerance``.
        EncoderError: the encoder fails.
        LibraryCorrupt: ``stored`` has something else than vectors.
    """
    name = encoder.spec.name
    now, then = probe(encoder), stored
    for kind in ("dense", "sparse"):
        if then.get(kind) is None or now[kind] is None:  # the specs say which an encoder has
            continue
        ours = _comparable(now[kind])
        try:
            theirs = _comparable(then[kind])
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise LibraryCorrupt(
                f"The library's {kind} probe in encoder.json is not a vector ({error}): restore a backup."
            ) from error
        if kind == "dense" and ours.keys() != theirs.keys():
            raise EncoderMismatch(
                f"The encoder {name} returns {len(ours)} dimensions for the probe text, and the library's probe has "
                f"{len(theirs)}: open the library with the encoder it was built with, or build it again."
            )
        if ours == theirs:  # both may have no weights
            continue
        cosine = _cosine(ours, theirs)
        # "not >=" instead of "<", so that the NaN of a stored vector that is not finite fails.
        if not cosine >= 1 - tolerance:
            raise EncoderMismatch(
                f"The encoder {name} returns another vector for the probe text than when the library was built "
                f"(cosine {cosine:.4f}, expected {1 - tolerance:g} or more): its weights or settings differ. "
                "Use the model that the library was built with, or build the library again."
            )


def _comparable(vector: Mapping[str, Any] | Sequence[float]) -> dict[int, float]:
    """A dense or sparse vector by index."""
    if isinstance(vector, Mapping):
        pairs = zip(vector["indices"], vector["values"], strict=True)
        return {int(index): float(value) for index, value in pairs}
    return {index: float(value) for index, value in enumerate(vector)}


def _cosine(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    product = sum(value * other.get(index, 0.0) for index, value in one.items())
    lengths = math.hypot(*one.values()) * math.hypot(*other.values())
    return product / lengths if lengths else math.nan


def check_spec(expected: EncoderSpec, actual: EncoderSpec) -> None:
    """Compare an encoder's spec (``actual``) with the library's (``expected``).

    All fields must be equal, with two exceptions: a fingerprint that either side lacks is not compared, and names may
    differ where the fingerprints are equal, since the files are then the same. Where the library has a query model and
    the encoder is a single model, it is compared with the query model, as serving opens no other.

    Raises:
        EncoderMismatch: they differ; the message names both encoders and the differences.
    """
    what = "encoder"
    if expected.query is not None and actual.query is None:
        what = "query encoder"
        # A query model may have learned weights that the library does not use.
        learned = expected.learned_sparse or actual.learned_sparse
        expected = replace(expected.for_queries, learned_sparse=learned)
    if differences := _differences(expected, actual):
        raise EncoderMismatch(
            f"The library was built with the {what} {expected.name} ({expected.kind}), and the specified {what} "
            f"is {actual.name} ({actual.kind}): {'; '.join(differences)}. Vectors of different encoders "
            f"cannot be compared: open the library with {expected.name}, or build it again with "
            f"{actual.name}."
        )


def _differences(
    expected: EncoderSpec | QuerySpec, actual: EncoderSpec | QuerySpec, side: str = ""
) -> list[str]:
    same_files = expected.fingerprint is not None and expected.fingerprint == actual.fingerprint
    differences = []
    for field in fields(expected):
        then, now = getattr(expected, field.name), getattr(actual, field.name)
        if then == now or (field.name == "name" and same_files):
            continue
        if field.name == "fingerprint" and None in (then, now):
            continue
        if isinstance(then, QuerySpec) and isinstance(now, QuerySpec):
            differences += _differences(then, now, "query ")
            continue
        then, now = (getattr(value, "name", value) for value in (then, now))
        differences.append(f"{side}{field.name} {then!r} in the library and {now!r} in the encoder")
    return differences
