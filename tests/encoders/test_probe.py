from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders import Encoder
from scholarbase.encoders.probe import check_probe, check_spec, probe
from scholarbase.encoders.static import StaticEncoder
from scholarbase.errors import EncoderMismatch
from scholarbase.models.encoders import EncoderSpec
from tests.encoders.static_models import make_model

SPEC = EncoderSpec("sentence-transformers", "all-MiniLM-L6-v2", 384, max_tokens=256, fingerprint="aa")


def test_the_same_encoder_passes(packaged: Encoder) -> None:
    stored = probe(packaged)
    assert (len(stored["dense"]), stored["sparse"]) == (256, None)
    assert np.linalg.norm(stored["dense"]) == pytest.approx(1, abs=1e-6)
    check_probe(packaged, stored)


def test_half_precision_passes(packaged: Encoder) -> None:
    half = np.array(probe(packaged)["dense"], dtype=np.float16)
    check_probe(packaged, {"dense": half.tolist(), "sparse": None})


def test_another_vector_does_not_pass(packaged: Encoder) -> None:
    stored = np.array(probe(packaged)["dense"])
    # At right angles to it, and so that the cosine is 1 / sqrt(1 + 0.05^2) = 0.99875.
    aside = np.roll(stored, 1) - stored * (stored @ np.roll(stored, 1))
    stored += 0.05 * aside / np.linalg.norm(aside)
    with pytest.raises(EncoderMismatch, match=r"cosine 0\.9988, expected 0\.999 or more"):
        check_probe(packaged, {"dense": stored.tolist(), "sparse": None})
    check_probe(packaged, {"dense": stored.tolist(), "sparse": None}, tolerance=0.01)


def test_other_dimensions_do_not_pass(packaged: Encoder, tmp_path: Path) -> None:
    tiny = StaticEncoder(make_model(tmp_path / "tiny"))
    with pytest.raises(
        EncoderMismatch, match="8 dimensions for the probe text, and the library's probe has 256"
    ):
        check_probe(tiny, probe(packaged))


@pytest.mark.parametrize("number", [0.0, float("nan")])
def test_an_invalid_stored_vector_does_not_pass(packaged: Encoder, number: float) -> None:
    with pytest.raises(EncoderMismatch):
        check_probe(packaged, {"dense": [number] * 256, "sparse": None})


@pytest.mark.parametrize(
    "actual",
    [
        SPEC,
        replace(SPEC, name="a-copy"),  # the same files under another name
        replace(SPEC, fingerprint=None),  # unknown files
    ],
)
def test_equal_specs(actual: EncoderSpec) -> None:
    check_spec(SPEC, actual)


@pytest.mark.parametrize(
    ("actual", "difference"),
    [
        (replace(SPEC, kind="http"), "kind 'sentence-transformers' in the library and 'http' in the encoder"),
        (replace(SPEC, dimensions=768), "dimensions 384 in the library and 768 in the encoder"),
        (replace(SPEC, max_tokens=512), "max_tokens 256 in the library and 512 in the encoder"),
        (replace(SPEC, fingerprint="bb"), "fingerprint 'aa' in the library and 'bb' in the encoder"),
        (replace(SPEC, learned_sparse=True), "learned_sparse False in the library and True in the encoder"),
        (
            replace(SPEC, name="other", fingerprint=None),
            "name 'all-MiniLM-L6-v2' in the library and 'other' in the encoder",
        ),
    ],
)
def test_different_specs(actual: EncoderSpec, difference: str) -> None:
    with pytest.raises(EncoderMismatch) as caught:
        check_spec(SPEC, actual)
    message = str(caught.value)
    assert difference in message
    assert f"built with the encoder {SPEC.name}" in message
    assert f"is {actual.name}" in message
    assert "build it again" in message
