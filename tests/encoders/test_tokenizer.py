"""The tokenizers of encoders, as texts are measured with them."""

from pathlib import Path

from tokenizers import Tokenizer

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.paired import PairedEncoder
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.models.encoders import PACKAGED
from tests.encoders.static_models import make_model

LONG = "dark matter in galaxies " * 1000


def test_a_transformers_tokenizer_is_a_copy_that_does_not_truncate(
    minilm: SentenceTransformersEncoder, minilm_folder: Path
) -> None:
    tokenizer = minilm.tokenizer
    assert tokenizer is not None
    minilm.encode_queries([LONG])  # sets truncation and padding of its own
    own = Tokenizer.from_file(str(minilm_folder / "tokenizer.json"))
    own.no_truncation()
    own.no_padding()
    ids = tokenizer.encode(LONG, add_special_tokens=False).ids
    assert len(ids) == 4000
    assert ids == own.encode(LONG, add_special_tokens=False).ids


def test_a_static_encoders_tokenizer() -> None:
    encoder = open_encoder(PACKAGED)
    tokenizer = encoder.tokenizer  # type: ignore[attr-defined]
    assert len(tokenizer.encode(LONG, add_special_tokens=False).ids) == 4000


def test_bge_m3s_tokenizer(tiny_bge_m3: BgeM3Encoder) -> None:
    tokenizer = tiny_bge_m3.tokenizer
    assert tokenizer is not None
    assert len(tokenizer.encode("dense retrieval " * 600, add_special_tokens=False).ids) >= 1200


def test_a_pair_has_the_tokenizer_of_its_documents_and_a_service_has_none(
    tmp_path: Path, packaged: Encoder, packaged_service: str
) -> None:
    folder = make_model(tmp_path / "static")
    static = open_encoder(str(folder))
    pair = PairedEncoder(static, static)
    assert pair.tokenizer is static.tokenizer  # type: ignore[attr-defined]
    service = HttpEncoder(packaged_service)
    assert PairedEncoder(service, packaged).tokenizer is None
    service.close()
