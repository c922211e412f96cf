from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.errors import RerankerError
from scholarbase.extensions import Extension
from scholarbase.rerankers import open_reranker
from scholarbase.rerankers.bge_m3 import BgeM3Reranker
from scholarbase.rerankers.cross_encoder import CrossEncoderReranker
from scholarbase.search.library import Library
from scholarbase.settings import load_settings


@pytest.mark.slow
def test_the_kind_is_that_of_the_folder(cross_encoder_folder: Path, tiny_bge_m3_folder: Path) -> None:
    for folder, kind in ((cross_encoder_folder, CrossEncoderReranker), (tiny_bge_m3_folder, BgeM3Reranker)):
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


class SharedWords:
    """Counts words that the query and the text share."""

    fingerprint = None

    def __init__(self, name: str, device: str | None) -> None:
        self.name, self.device = name, device

    def score(self, query: str, texts: Sequence[str]) -> Any:
        words = set(query.lower().split())
        return np.array([len(words & set(text.lower().split())) for text in texts], dtype=np.float32)

    def close(self) -> None:
        pass


class Words(Extension):
    def rerankers(self) -> dict[str, Callable[..., Any]]:
        return {"words": SharedWords, "broken": _broken}


def _broken(name: str, device: str | None) -> Any:
    raise OSError(f"{name} is gone")


def test_an_extension_opens_the_locations_of_its_scheme(
    extension: Callable[..., None], sample_library: Path
) -> None:
    extension(Words)
    settings = load_settings(rerankers="shared=words:all", device="cpu")
    with Library.open(sample_library, settings=settings) as library:
        reranker = library._opened.rerankers["shared"]
        assert isinstance(reranker, SharedWords)
        assert (reranker.name, reranker.device) == ("all", "cpu")
        found = library.search("string theory of black holes", rerank="shared", limit=5)
        assert found.rerank is not None
        assert [hit.score for hit in found.results] == sorted(
            (hit.score for hit in found.results), reverse=True
        )


def test_an_unknown_scheme_is_an_error_that_lists_those_of_extensions(extension: Callable[..., None]) -> None:
    extension(Words)
    sentence = r"cannot be opened\. 'letters:x' is not a folder, .*\(schemes of extensions: broken, words\)"
    with pytest.raises(RerankerError, match=sentence):
        open_reranker("mine", "letters:x")
    with pytest.raises(RerankerError, match=r"failed to open 'broken:x' \(OSError: x is gone\): update"):
        open_reranker("mine", "broken:x")
