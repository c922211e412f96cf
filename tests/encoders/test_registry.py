import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.encoders import Encodings, open_encoder
from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.encoders.static import StaticEncoder
from scholarbase.errors import EncoderError
from scholarbase.extensions import Extension
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import EncoderSpec
from scholarbase.search.library import Library
from tests.encoders.static_models import make_model


def _python(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_a_folder_of_a_sentence_transformers_model(minilm_folder: Path) -> None:
    assert isinstance(open_encoder(str(minilm_folder), device="cpu"), SentenceTransformersEncoder)


@pytest.mark.slow
def test_a_folder_of_a_bge_m3_model(tiny_bge_m3_folder: Path) -> None:
    assert isinstance(open_encoder(str(tiny_bge_m3_folder), device="cpu"), BgeM3Encoder)


def test_a_url(packaged_service: str) -> None:
    encoder = open_encoder(f"{packaged_service}#arxiv-static-v1")
    assert isinstance(encoder, HttpEncoder)
    encoder.close()


@pytest.mark.parametrize("name", ["none", "", " "])
def test_an_empty_name_is_an_error(name: str) -> None:
    with pytest.raises(EncoderError, match="is not an encoder: give a model's folder"):
        open_encoder(name)


def test_a_device_for_a_service_is_refused() -> None:
    with pytest.raises(EncoderError, match="is a service, which has no device: leave it out"):
        open_encoder("https://host/v1#m", device="cuda")


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="does not exist: give the folder"):
        open_encoder(str(tmp_path / "no-model"))


def test_a_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    """With an empty cache and a hub without connection."""
    name = "BAAI/bge-m3"
    code = (
        "import sys; from scholarbase.encoders import open_encoder\n"
        "try: open_encoder(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = _python(code, name, HF_HOME=str(tmp_path), HF_ENDPOINT="http://127.0.0.1:9", NO_PROXY="127.0.0.1")
    assert said.startswith(
        f"EncoderError The model '{name}' is not on this machine and could not be downloaded"
    )


@pytest.mark.slow
@pytest.mark.parametrize("module", ["scholarbase.encoders", "scholarbase.encoders.service"])
def test_torch_is_imported_only_for_a_model(module: str, packaged_service: str) -> None:
    """A server without dense vectors, or with an encoder service, does not import torch."""
    code = (
        f"import sys, {module}; from scholarbase.encoders import open_encoder\n"
        "open_encoder(sys.argv[1]).encode_queries(['x'])\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    assert _python(code, packaged_service).strip() == "[]"


# -- encoders of extensions ---------------------------------------------------------------------------------


class Letters:
    """Counts letters."""

    def __init__(self, name: str, device: str | None) -> None:
        self.device = device
        self.spec = EncoderSpec(kind="letters", name=name, dimensions=27)

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        counts = np.ones((len(texts), 27), dtype=np.float32)
        for row, text in zip(counts, texts, strict=True):
            for letter in text.lower():
                row[ord(letter) - 97 if "a" <= letter <= "z" else 26] += 1
        return Encodings(counts / np.linalg.norm(counts, axis=1, keepdims=True))

    encode_queries = encode_documents

    def close(self) -> None:
        pass


class Lettered(Extension):
    def encoders(self) -> dict[str, Callable[..., Any]]:
        return {"letters": Letters, "http": Letters}


@pytest.mark.slow
def test_an_extension_opens_the_names_of_its_scheme(
    extension: Callable[..., None], small_snapshot: Path, tmp_path: Path
) -> None:
    extension(Lettered)
    encoder = open_encoder("letters:a:z", device="cpu")
    assert isinstance(encoder, Letters)
    assert (encoder.spec.name, encoder.device) == ("a:z", "cpu")

    ingest([small_snapshot], tmp_path / "library", encoder=encoder, encoder_location="letters:a:z")
    with Library.open(tmp_path / "library", encoder="letters:a:z") as library:
        assert library.manifest.encoder == encoder.spec
        paper = library.search("string", limit=1).results[0].paper
        [same] = library.search(f"{paper.title}\n{paper.abstract}", mode="dense", exact=True, limit=1).results
        assert same.paper.id == paper.id


def test_what_the_core_opens_is_not_left_to_an_extension(
    extension: Callable[..., None], packaged_service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extension(Lettered)
    test_a_url(packaged_service)
    make_model(tmp_path / "letters:m")
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_encoder("letters:m"), StaticEncoder)


@pytest.mark.parametrize(("kinds", "schemes"), [((), "none"), ((Lettered,), "http, letters")])
def test_an_unknown_scheme_is_an_error_that_lists_those_of_extensions(
    extension: Callable[..., None], kinds: tuple[type[Extension], ...], schemes: str
) -> None:
    extension(*kinds)
    sentence = (
        rf"^'digits:x' is not a folder, and .* 'digits' \(schemes of extensions: {schemes}\): give a model's"
    )
    with pytest.raises(EncoderError, match=sentence):
        open_encoder("digits:x")
