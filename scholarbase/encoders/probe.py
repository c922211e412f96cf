"""Whether the encoder at hand is the one that a library was built with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from scholarbase.encoders.base import Encoder
from scholarbase.errors import EncoderMismatch
from scholarbase.models.encoders import EncoderSpec

PROBE_TEXT: Final = (
    "A known text for a known vector\n"
    "We measure whether two encoders agree. The same sentence is encoded when a library is built and when it "
    "is opened, and the two vectors are compared by their cosine."
)
"""Encoded when a library is built and again when it is opened. Changing it invalidates every stored probe."""

TOLERANCE: Final = 0.001
"""How far below 1 the cosine may lie: rounding stays well within it, another model well outside."""


def probe(encoder: Encoder) -> list[float]:
    """The vector of :data:`PROBE_TEXT` as a document. Its last digits differ between machines.

    Raises:
        EncoderError: the encoder fails.
    """
    return [float(number) for number in encoder.encode_documents([PROBE_TEXT]).dense[0]]


def check_probe(encoder: Encoder, stored: Sequence[float], *, tolerance: float = TOLERANCE) -> None:
    """Hold the encoder's vector of :data:`PROBE_TEXT` against the one stored when the library was built.

    Raises:
        EncoderMismatch: other dimensions, or a cosine below ``1 - tolerance``.
        EncoderError: the encoder fails.
    """
    name = encoder.spec.name
    now = np.asarray(probe(encoder), dtype=np.float64)
    then = np.asarray(stored, dtype=np.float64)
    if now.shape != then.shape:
        raise EncoderMismatch(
            f"The encoder {name} gives {now.size} dimensions for the probe text, and the library's probe has "
            f"{then.size}: open the library with the encoder it was built with, or build it again."
        )
    lengths = float(np.linalg.norm(now) * np.linalg.norm(then))
    cosine = float(now @ then) / lengths if lengths else float("nan")
    # "not >=" and not "<": a stored vector that is not finite has no cosine, and must not pass.
    if not cosine >= 1 - tolerance:
        raise EncoderMismatch(
            f"The encoder {name} gives another vector for the probe text than when the library was built "
            f"(cosine {cosine:.4f}, expected {1 - tolerance:g} or more): its weights or settings are not the "
            "same. Use the model that the library was built with, or build the library again."
        )


def check_spec(expected: EncoderSpec, actual: EncoderSpec) -> None:
    """Hold the encoder at hand (``actual``) against the library's (``expected``).

    Everything must agree, with two exceptions. A fingerprint that either side does not know is not compared.
    And where both know it and it agrees, the files are the same whatever their folder is called, so the names
    may differ.

    Raises:
        EncoderMismatch: they differ; the sentence names both, and what differs.
    """
    same_files = expected.fingerprint is not None and expected.fingerprint == actual.fingerprint
    differences = []
    for field in fields(EncoderSpec):
        then, now = getattr(expected, field.name), getattr(actual, field.name)
        if then == now or (field.name == "name" and same_files):
            continue
        if field.name == "fingerprint" and None in (then, now):
            continue
        differences.append(f"{field.name} {then!r} there and {now!r} here")
    if differences:
        raise EncoderMismatch(
            f"The library was built with the encoder {expected.name} ({expected.kind}), and the one at hand "
            f"is {actual.name} ({actual.kind}): {'; '.join(differences)}. Vectors of different encoders "
            f"cannot be compared: open the library with {expected.name}, or build it again with "
            f"{actual.name}."
        )
