from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from scholarbase.encoders import open_encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.service import create_service
from scholarbase.encoders.static import BATCH_SIZE, StaticEncoder
from scholarbase.errors import EncoderError
from tests.encoders.servers import running
from tests.encoders.static_models import VECTORS, WORDS, make_model

TEXTS = ["Dark matter", "graphs of neural networks\nthe graph", "", "unknownword x", "%%%", "the " * 600]
ROW = {word: number for number, word in enumerate(WORDS)}


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


def test_a_text_is_the_mean_of_its_tokens(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "model"))
    [row] = encoder.encode_documents(["The graphs?"]).dense
    by_hand = (VECTORS[ROW["the"]] + VECTORS[ROW["graph"]] + VECTORS[ROW["##s"]]) / 3
    np.testing.assert_allclose(row, unit(by_hand), rtol=1e-6)
    assert row.dtype == np.float32
    np.testing.assert_array_equal(encoder.encode_queries(["The graphs?"]).dense[0], row)


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "weights", "mapping"])
def test_vectors_are_those_of_model2vec(tmp_path: Path, kind: str) -> None:
    model2vec = pytest.importorskip("model2vec")
    tensors: dict[str, Any] = {"embeddings": VECTORS}
    if kind in ("float16", "int8"):
        tensors["embeddings"] = (VECTORS * 40).astype(kind)
    if kind in ("weights", "mapping"):
        tensors["weights"] = np.linspace(0.1, 2, len(WORDS), dtype=np.float32)
    if kind == "mapping":
        tensors |= {"embeddings": VECTORS[:5], "mapping": np.arange(len(WORDS)) % 5}
    folder = make_model(tmp_path / "model", tensors)
    theirs = model2vec.StaticModel.from_pretrained(folder).encode(TEXTS, max_length=512)
    ours = StaticEncoder(folder).encode_documents(TEXTS).dense
    np.testing.assert_allclose(ours, theirs, atol=2e-3 if kind == "float16" else 1e-6)


def test_a_text_without_known_tokens_has_no_direction(tmp_path: Path) -> None:
    rows = StaticEncoder(make_model(tmp_path / "model")).encode_queries(["", "%%%", "zebra", "graph"]).dense
    assert rows.any(axis=1).tolist() == [False, False, False, True]


def test_a_text_of_a_megabyte_is_truncated(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "model", max_length=4))
    assert encoder.spec.max_tokens == 4
    rows = encoder.encode_documents(["graph " * 170_000, "graph graph graph graph", "x" * 1_000_000]).dense
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not rows[2].any()  # one word that is longer than any known one


def test_without_max_length_a_text_is_whole(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "model", max_length=None))
    assert encoder.spec.max_tokens is None
    [ids] = encoder.token_ids(["graph " * 170_000])
    assert len(ids) == 170_000


def test_the_batch_does_not_change_a_vector(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "model"))
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS[2:], random.integers(0, 40))) for _ in range(3 * BATCH_SIZE + 1)]
    together = encoder.encode_documents(texts).dense
    alone = np.concatenate([encoder.encode_documents([text]).dense for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_the_spec_names_the_folder_and_its_files(tmp_path: Path) -> None:
    one = StaticEncoder(make_model(tmp_path / "one")).spec
    assert (one.kind, one.name, one.dimensions, one.max_tokens) == ("static", "one", 8, 512)
    (tmp_path / "one" / "README.md").write_text("A model card.")
    assert StaticEncoder(tmp_path / "one").spec == one
    other = StaticEncoder(make_model(tmp_path / "other", {"embeddings": VECTORS + 1})).spec
    assert one.fingerprint != other.fingerprint


def test_it_is_opened_by_its_files(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    (folder / "modules.json").write_text("[]")  # model2vec writes one for sentence-transformers
    assert isinstance(open_encoder(str(folder)), StaticEncoder)


def test_a_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"device is 'cuda', .* runs on the CPU: leave it out"):
        StaticEncoder(make_model(tmp_path / "model"), "cuda")


def test_after_close_encoding_is_an_error(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "tiny"))
    encoder.encode_documents(TEXTS * 100)
    encoder.close()
    encoder.close()
    with pytest.raises(EncoderError, match="The encoder tiny is closed: open it again"):
        encoder.encode_queries(["graph"])


def test_an_encoder_service_keeps_vectors_without_direction(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "model"))
    with running(create_service(encoder)) as url:
        client = HttpEncoder(url)
        np.testing.assert_array_equal(client.encode_queries(TEXTS).dense, encoder.encode_queries(TEXTS).dense)
        client.close()


# -- bad files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "config.json cannot be read as JSON"),
        ("config.json", b"[]", "config.json is not a JSON object"),
        (
            "config.json",
            b'{"max_length": 0}',
            "has max_length 0: it must be null, or an integer of 1 or more",
        ),
        ("config.json", b'{"max_length": true}', "has max_length True: it must be null, or an integer"),
        ("tokenizer.json", b"{}", "tokenizer.json cannot be read as a tokenizer"),
        ("model.safetensors", b"not a table", "model.safetensors cannot be read as safetensors"),
    ],
)
def test_a_damaged_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    folder = make_model(tmp_path / "model")
    (folder / name).write_bytes(content)
    with pytest.raises(EncoderError, match=message):
        StaticEncoder(folder)


def _with(value: float) -> Any:
    vectors = VECTORS.copy()
    vectors[3, 5] = value
    return vectors


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"embedding.weight": VECTORS}, "has the tensors embedding.weight, and no tensor embeddings"),
        ({"embeddings": VECTORS[:11]}, "has vectors for 11 tokens, and tokenizer.json has 12"),
        ({"embeddings": VECTORS[0]}, r"the shape \(8,\): expected rows x dimensions"),
        ({"embeddings": VECTORS.astype(np.int64)}, "embeddings of the type int64"),
        ({"embeddings": _with(np.nan)}, "has NaN or infinite values for 1 tokens, first for token 3"),
        ({"embeddings": _with(np.inf)}, "has NaN or infinite values for 1 tokens, first for token 3"),
        ({"embeddings": np.zeros_like(VECTORS)}, "has only zeros, so that no text has a direction"),
        ({"embeddings": VECTORS, "weights": np.zeros(12)}, "has only zeros, so that no text has a direction"),
        ({"embeddings": VECTORS, "weights": np.full(12, np.nan)}, "has NaN or infinite values for 12 tokens"),
        ({"embeddings": VECTORS, "weights": np.ones(3)}, r"has weights of the shape \(3,\) for 12 tokens"),
        (
            {"embeddings": VECTORS, "mapping": np.arange(3)},
            "has vectors for 3 tokens, and tokenizer.json has 12",
        ),
        ({"embeddings": VECTORS[:5], "mapping": np.arange(12)}, "maps a token to row 11, and has 5 rows"),
        ({"embeddings": VECTORS, "mapping": np.ones(12)}, "has a mapping that is not a list of integers"),
    ],
)
def test_a_table_that_does_not_fit(tmp_path: Path, tensors: dict[str, Any], message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        open_encoder(str(make_model(tmp_path / "model", tensors)))


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    make_model(tmp_path / "other", words=[*WORDS, "more"])
    (tmp_path / "other" / "tokenizer.json").rename(folder / "tokenizer.json")
    with pytest.raises(EncoderError, match="the two files are of different models, so copy both again"):
        StaticEncoder(folder)


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    encoder = StaticEncoder(make_model(tmp_path / "model"))
    with pytest.raises(
        EncoderError, match=r"failed to tokenize 2 texts .*: check that they are valid Unicode"
    ):
        encoder.encode_documents(["graph", "\ud800"])


def test_a_folder_of_another_format_is_not_static(tmp_path: Path, minilm_folder: Path) -> None:
    save_file({"embedding.weight": VECTORS}, tmp_path / "model.safetensors")
    from scholarbase.encoders.static import is_static

    assert not is_static(tmp_path)
    assert not is_static(minilm_folder)
