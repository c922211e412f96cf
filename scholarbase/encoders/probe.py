"""Checks that an encoder is the one that a library was built with."""

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
"""How far the cosine may be below 1: rounding stays well within, other models are far outside."""


def probe(encoder: Encoder) -> list[float]:
    """Encode :data:`PROBE_TEXT` as a document. The last digits differ between machines.

    Raises:
        EncoderError: the encoder fails.
    """
    return [float(number) for number in encoder.encode_documents([PROBE_TEXT]).dense[0]]


def check_probe(encoder: Encoder, stored: Sequence[float], *, tolerance: float = TOLERANCE) -> None:
    """Compare the encoder's vector of :data:`PROBE_TEXT` with the one stored when the library was built.

    Raises:
        EncoderMismatch: the dimensions differ, or the cosine is below ``1 - tolerance``.
        EncoderError: the encoder fails.
    """
    name = encoder.spec.name
    now = np.asarray(probe(encoder), dtype=np.float64)
    then = np.asarray(stored, dtype=np.float64)
    if now.shape != then.shape:
        raise EncoderMismatch(
            f"The encoder {name} returns {now.size} dimensions for the probe text, and the library's probe has "
            f"{then.size}: open the library with the encoder it was built with, or build it again."
        )
    lengths = float(np.linalg.norm(now) * np.linalg.norm(then))
    cosine = float(now @ then) / lengths if lengths else float("nan")
    # "not >=" instead of "<", so that the NaN of a stored vector that is not finite fails.
    if not cosine >= 1 - tolerance:
        raise EncoderMismatch(
            f"The encoder {name} returns another vector for the probe text than when the library was built "
            f"(cosine {cosine:.4f}, expected {1 - tolerance:g} or more): its weights or settings differ. "
            "Use the model that the library was built with, or build the library again."
        )


def check_spec(expected: EncoderSpec, actual: EncoderSpec) -> None:
    """Compare an encoder's spec (``actual``) with the library's (``expected``).

    All fields must be equal, with two exceptions: a fingerprint that either side lacks is not compared, and names may
    differ where the fingerprints are equal, since the files are then the same.

    Raises:
        EncoderMismatch: they differ; the message names both encoders and the differences.
    """
    same_files = expected.fingerprint is not None and expected.fingerprint == actual.fingerprint
    differences = []
    for field in fields(EncoderSpec):
        then, now = getattr(expected, field.name), getattr(actual, field.name)
        if then == now or (field.name == "name" and same_files):
            continue
        if field.name == "fingerprint" and None in (then, now):
            continue
        differences.append(f"{field.name} {then!r} in the library and {now!r} in the encoder")
    if differences:
        raise EncoderMismatch(
            f"The library was built with the encoder {expected.name} ({expected.kind}), and the specified encoder "
            f"is {actual.name} ({actual.kind}): {'; '.join(differences)}. Vectors of different encoders "
            f"cannot be compared: open the library with {expected.name}, or build it again with "
            f"{actual.name}."
        )
