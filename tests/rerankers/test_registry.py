from __future__ import annotations

from pathlib import Path

import pytest

from scholarbase.errors import RerankerError
from scholarbase.rerankers import open_reranker
from scholarbase.rerankers.bge_m3 import BgeM3Reranker
from scholarbase.rerankers.cross_encoder import CrossEncoderReranker


def test_the_kind_is_that_of_the_folder(cross_encoder_folder: Path, bge_m3_folder: Path) -> None:
    for folder, kind in ((cross_encoder_folder, CrossEncoderReranker), (bge_m3_folder, BgeM3Reranker)):
        reranker = open_reranker("tiny", str(folder), device="cpu")
        assert isinstance(reranker, kind)
        reranker.close()


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        ("/nowhere/model", "The model path /nowhere/model does not exist"),
        ("http://", "Its URL is not valid"),
        ("http://127.0.0.1:port", "Its URL is not valid"),
    ],
)
def test_what_cannot_be_opened_is_an_error_with_the_name(location: str, sentence: str) -> None:
    with pytest.raises(RerankerError, match=rf"The reranker 'mine' cannot be opened\. {sentence}"):
        open_reranker("mine", location)


def test_an_unknown_device_is_an_error(cross_encoder_folder: Path) -> None:
    with pytest.raises(RerankerError, match="Unknown device 'gpu'"):
        open_reranker("mine", str(cross_encoder_folder), device="gpu")
