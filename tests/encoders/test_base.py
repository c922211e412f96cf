import numpy as np
import pytest

from scholarbase.encoders import document_text
from scholarbase.encoders.base import unit_rows
from scholarbase.errors import EncoderError
from scholarbase.models.encoders import EncoderSpec


def test_document_text_is_title_newline_abstract() -> None:
    assert document_text("A title", "An abstract.") == "A title\nAn abstract."
    assert document_text("A title", "An abstract.", 3) == "A title\nA title\nA title\nAn abstract."
    assert document_text("A title", None, 3) == document_text("A title", None) == "A title"


def test_a_spec_survives_its_json() -> None:
    spec = EncoderSpec("bge-m3", "BAAI/bge-m3", 1024, learned_sparse=True, max_tokens=1024, fingerprint="ab")
    assert EncoderSpec.from_dict(spec.to_dict()) == spec


def test_unit_rows_scales_a_3_4_5_triangle() -> None:
    rows = unit_rows([[3.0, 4.0], [0.0, -2.0]], "it")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, -1.0]], rtol=1e-6)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_unit_rows_refuses_zero_and_infinite_vectors(bad: list[float]) -> None:
    with pytest.raises(EncoderError, match=r"The model x returned a vector .* for text 2 of 2"):
        unit_rows([[1.0, 0.0], bad], "The model x")


def test_unit_rows_keeps_unit_rows_unchanged() -> None:
    rows = unit_rows(np.random.default_rng(7).normal(size=(50, 384)), "it")
    np.testing.assert_array_equal(unit_rows(rows, "it"), rows)
