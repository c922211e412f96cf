"""Static encoders: a table of token vectors, in the format of model2vec. No transformer and no torch.

A text is the mean of its tokens' vectors, scaled to unit length. The format (https://github.com/MinishLab/model2vec) is
a folder with ``config.json``, ``tokenizer.json`` and ``model.safetensors``. The tensors are ``embeddings`` (rows x
dimensions), and optionally ``weights`` (a factor for each token) and ``mapping`` (the row of each token).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from scholarbase.encoders.base import Encodings, unit_rows
from scholarbase.encoders.checkpoint import find_checkpoint, fingerprint, model_name, read_json
from scholarbase.errors import EncoderError
from scholarbase.markup import searchable
from scholarbase.memory import cores
from scholarbase.models.encoders import STATIC, EncoderSpec

CONFIG: Final = "config.json"
TOKENIZER: Final = "tokenizer.json"
TABLE: Final = "model.safetensors"
FILES: Final = (CONFIG, TOKENIZER, TABLE)

DEFAULT_MAX_TOKENS: Final = 512
"""model2vec truncates to this length where ``config.json`` has no ``max_length``."""
BATCH_SIZE: Final = 128
"""Texts that one thread encodes at a time: the vectors of their tokens take about 200 KB a text."""

MOST_WORDS: Final = 200_000
"""Words that are kept, of which each takes about 250 bytes."""
LONGEST: Final = 64
"""Characters of a word that is kept."""
_PLAIN: Final = re.compile(r"[\t\n\r -~]*")
"""Texts in which the tokenizer changes nothing but case. It removes other control characters."""
_PART: Final = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
"""A part of a word: letters and digits, or one other character."""
_TYPES: Final = ("float16", "float32", "float64", "int8")


def is_static(folder: Path) -> bool:
    """Whether ``folder`` has a model2vec model: ``config.json`` says so, or ``model.safetensors`` has a tensor
    ``embeddings``."""
    if _says_model2vec(folder):
        return True
    try:
        with safe_open(folder / TABLE, framework="numpy") as tensors:
            return "embeddings" in tensors.keys()  # noqa: SIM118  (not a mapping)
    except (OSError, SafetensorError):
        return False


class StaticEncoder:
    """A model2vec model. Documents and queries are encoded alike, on all cores.

    Texts are truncated as model2vec does it: to ``spec.max_tokens`` tokens, and before that to as many characters as
    this number of tokens of median length has. A text is tokenized in its searchable form
    (:func:`scholarbase.markup.searchable`). The row of a text without known tokens is all zero.

    Raises:
        EncoderError: a file is missing, or the files do not fit together.
    """

    def __init__(self, path_or_name: str | Path, device: str | None = None) -> None:
        if device not in (None, "cpu"):
            raise EncoderError(
                f"device is {device!r}, but {path_or_name} is a static encoder, which runs on the CPU: leave it out."
            )
        self.folder = folder = find_checkpoint(str(path_or_name))
        for name in FILES:
            if not (folder / name).is_file():
                raise EncoderError(
                    f"{folder} has no {name}, so it is not a model2vec model's folder: copy the model again."
                )
        max_tokens = _max_tokens(folder / CONFIG)
        tokenizer = _read_tokenizer(folder / TOKENIZER)
        vocabulary = tokenizer.get_vocab()
        self._table = _read_table(folder / TABLE, 1 + max(vocabulary.values(), default=-1))
        self.tokenizer = tokenizer
        """Without truncation."""
        self._tokens = WordTokens(tokenizer, max_tokens)
        self._unknown = _unknown_token(tokenizer)
        self._max_characters: int | None = None
        if max_tokens is not None:
            self._max_characters = max_tokens * int(np.median([len(token) for token in vocabulary]))
        # Errors may be sent to clients, so they have the name and not the path.
        self._name = model_name(folder)
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._spec = EncoderSpec(
            kind=STATIC,
            name=self._name,
            dimensions=self._table.shape[1],
            max_tokens=max_tokens,
            fingerprint=fingerprint(folder, [folder / name for name in FILES]),
        )

    @property
    def spec(self) -> EncoderSpec:
        return self._spec

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens."""
        return len(self._table)

    def close(self) -> None:
        """Shut down the threads. Encoding after this raises EncoderError."""
        with self._lock:
            self._closed = True
            if self._threads is not None:
                self._threads.shutdown()
                self._threads = None

    def token_ids(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """The known tokens of each text, truncated.

        Raises:
            EncoderError: a text is not valid Unicode.
        """
        if self._max_characters is not None:
            texts = [text[: self._max_characters] for text in texts]
        try:
            ids = self._tokens.ids([searchable(text) for text in texts])
        except Exception as error:  # tokenizers has no error class of its own
            raise EncoderError(
                f"The model {self._name} failed to tokenize {len(texts)} texts ({type(error).__name__}: {error}): "
                "check that they are valid Unicode."
            ) from error
        return ids if self._unknown is None else [row[row != self._unknown] for row in ids]

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents. Rows of texts without known tokens are zero."""
        batches = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]
        with self._lock:
            if self._closed:
                raise EncoderError(f"The encoder {self._name} is closed: open it again.")
            if len(batches) > 1 and self._threads is None:
                # They overlap the sums of one batch with the tokens of the next.
                self._threads = ThreadPoolExecutor(cores(), thread_name_prefix="static-encoder")
            threads = self._threads
        sums = threads.map(self._sums, batches) if threads and len(batches) > 1 else map(self._sums, batches)
        rows = np.concatenate([np.empty((0, self._spec.dimensions), np.float32), *sums])
        return Encodings(unit_rows(rows, f"The model {self._name}", allow_zero=True))

    encode_queries = encode_documents

    def _sums(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """The sum of each text's token vectors: it has the direction of their mean."""
        rows = np.zeros((len(texts), self._table.shape[1]), dtype=np.float32)
        for row, ids in zip(rows, self.token_ids(texts), strict=True):
            self._table.take(ids, axis=0).sum(axis=0, out=row)
        return rows


# -- tokens ---------------------------------------------------------------------------------------------


class WordTokens:
    """Tokenizes texts with a cache of words. Safe to call from several threads.

    WordPiece tokenizes each word alone, and the same words recur: looking them up takes a third of the processor time
    of tokenizing whole texts. The tokens are those of the tokenizer, which itself reads texts with other than printable
    ASCII characters, and all texts where its settings let a word depend on its surroundings.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int | None) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._words = WordCache(self._word, MOST_WORDS, LONGEST)
        content = orjson.loads(tokenizer.to_str())
        self._by_word = _is_by_word(content)
        self._lower = self._by_word and bool(content["normalizer"]["lowercase"])
        special = [re.escape(token["content"]) for token in content["added_tokens"]]
        # Tokens such as [CLS] are found in the text itself, before it is divided into words.
        self._special = re.compile("|".join(special)) if special else None

    def ids(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """The first ``max_tokens`` tokens of each text."""
        looked_up = [self._look_up(text) if self._is_plain(text) else None for text in texts]
        others = iter(
            _tokenize(self._tokenizer, [texts[n] for n, ids in enumerate(looked_up) if ids is None])
        )
        return [
            np.frombuffer(next(others) if ids is None else ids, np.int64)[: self._max_tokens]
            for ids in looked_up
        ]

    def _look_up(self, text: str) -> bytes:
        return b"".join(map(self._words.__getitem__, (text.lower() if self._lower else text).split()))

    def _word(self, word: str) -> bytes:
        """The tokens of a word: what white space separates, with its punctuation."""
        # Most new words are known ones with punctuation.
        parts = _PART.findall(word)
        if len(parts) > 1:
            return b"".join(map(self._words.__getitem__, parts))
        return _tokenize(self._tokenizer, [word])[0]

    def _is_plain(self, text: str) -> bool:
        return (
            self._by_word
            and _PLAIN.fullmatch(text) is not None
            and (self._special is None or self._special.search(text) is None)
        )


class WordCache(dict[str, bytes]):
    """What ``compute`` returns for each word. Words of up to ``longest`` characters are kept, ``most`` of them."""

    def __init__(self, compute: Callable[[str], bytes], most: int, longest: int) -> None:
        self._compute = compute
        self._most = most
        self._longest = longest

    def __missing__(self, word: str) -> bytes:
        value = self._compute(word)
        if len(word) <= self._longest:
            if len(self) >= self._most:
                self.clear()  # frequent words are soon back
            self[word] = value
        return value


def _tokenize(tokenizer: Tokenizer, texts: list[str]) -> list[bytes]:
    """The tokens of each text, as the bytes of 64-bit integers, which are joined fast."""
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(encoding.ids, np.int64).tobytes() for encoding in encodings]


def divides_by_word(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its words, wherever they stand."""
    content = orjson.loads(tokenizer.to_str())
    return _is_by_word(content) and not any(
        token["lstrip"] or token["rstrip"] or any(map(str.isspace, token["content"]))
        for token in content["added_tokens"]
    )


def _is_by_word(content: Any) -> bool:
    """Whether a tokenizer, as in tokenizer.json, divides texts as BERT's does: at white space and punctuation."""
    types = [(content[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    return types == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]


# -- files ----------------------------------------------------------------------------------------------


def _says_model2vec(folder: Path) -> bool:
    try:
        config = orjson.loads((folder / CONFIG).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "model2vec"


def _max_tokens(path: Path) -> int | None:
    config = read_json(path)
    if not isinstance(config, dict):
        raise EncoderError(f"{path} is not a JSON object: copy the model again.")
    max_length = config.get("max_length", DEFAULT_MAX_TOKENS)
    if max_length is not None and (type(max_length) is not int or max_length < 1):  # a Boolean is an int, too
        raise EncoderError(
            f"{path} has max_length {max_length!r}: it must be null, or an integer of 1 or more."
        )
    return max_length


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers has no error class of its own
        raise EncoderError(
            f"{path} cannot be read as a tokenizer ({error}): copy the model again."
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    """The id of the token for unknown words, which has no meaning and is left out."""
    model: Any = tokenizer.model
    if not hasattr(model, "unk_token"):  # a unigram model
        number: int | None = orjson.loads(tokenizer.to_str())["model"].get("unk_id")
        return number
    return None if model.unk_token is None else tokenizer.token_to_id(model.unk_token)


def _read_table(path: Path, tokens: int) -> npt.NDArray[np.float32]:
    """The vector of each token, of shape (tokens, dimensions), with mapping and weights applied.

    Raises:
        EncoderError: a tensor is missing, has another type or shape than expected, or is not finite, or all are zero.
    """
    tensors = dict(_tensors(path))
    vectors, weights, mapping = (tensors.get(name) for name in ("embeddings", "weights", "mapping"))
    if vectors is None:
        raise EncoderError(
            f"{path} has the tensors {', '.join(sorted(tensors)) or 'none'}, and no tensor embeddings: "
            "give the folder of a model2vec model."
        )
    if vectors.ndim != 2 or vectors.shape[1] == 0 or vectors.dtype.name not in _TYPES:
        raise EncoderError(
            f"{path} has embeddings of the type {vectors.dtype.name} and the shape {vectors.shape}: expected "
            f"rows x dimensions of {', '.join(_TYPES)}."
        )
    rows = mapping if mapping is not None else vectors
    if len(rows) != tokens:
        raise EncoderError(
            f"{path} has vectors for {len(rows):,} tokens, and {TOKENIZER} has {tokens:,}: the two files are of "
            "different models, so copy both again."
        )
    if mapping is not None:
        if mapping.ndim != 1 or mapping.dtype.kind not in "iu":
            raise EncoderError(f"{path} has a mapping that is not a list of integers: copy the model again.")
        if tokens and (mapping.min() < 0 or mapping.max() >= len(vectors)):
            raise EncoderError(
                f"{path} maps a token to row {int(mapping.max())}, and has {len(vectors):,} rows: copy the model again."
            )
        vectors = vectors[mapping]
    table = vectors.astype(np.float32)
    if weights is not None:
        if weights.shape != (tokens,):
            raise EncoderError(
                f"{path} has weights of the shape {weights.shape} for {tokens:,} tokens: copy the model again."
            )
        table *= weights.astype(np.float32)[:, None]
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise EncoderError(
            f"{path} has NaN or infinite values for {len(bad):,} tokens, first for token {bad[0]}: copy the model "
            "again, or train it with a lower learning rate."
        )
    if not table.any():
        raise EncoderError(f"{path} has only zeros, so that no text has a direction: copy the model again.")
    return table


def _tensors(path: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118  (not a mapping)
                yield name, file.get_tensor(name)
    except (OSError, SafetensorError, TypeError, AttributeError) as error:
        # NumPy lacks types such as bfloat16.
        raise EncoderError(
            f"{path} cannot be read as safetensors ({type(error).__name__}: {error}): copy the model again."
        ) from error
