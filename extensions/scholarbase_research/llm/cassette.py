"""Cassettes: recorded replies of models, found by the hash of their request.

A cassette is a file of JSON lines with ``key``, ``model``, ``request`` and ``completion``. A request that it lacks is
an error, unless it records: then the model replies, and the line is written before the reply is used.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import orjson

from scholarbase.errors import CassetteMiss, ModelError
from scholarbase.files import storage_errors, text_lines
from scholarbase_research.llm.base import Completion, LanguageModel, ModelRequest, request_hash

_START: Final = b'{"completion":'
"""How each line that is recorded begins: its keys are sorted."""


class Cassette:
    """The replies in a file. Safe to share between threads; ``close`` it, or use it as a context manager.

    Args:
        path: the file. It may be compressed with gzip or xz, unless it records.
        record: write the replies that are missing, and create the file if it does not exist.

    Raises:
        ModelError: a line is not a recorded reply, or was changed.
        QueryFileError: the file cannot be read.
        StorageError: the file cannot be written.
    """

    def __init__(self, path: Path, *, record: bool = False) -> None:
        self.path = path
        self._replies: dict[str, Completion] = {}
        self._earlier: set[str] = set()
        """The requests whose replies were recorded before this cassette was opened."""
        self._lock = threading.Lock()
        self._file: int | None = None
        if not record:
            for number, text in text_lines(path):
                if text.strip():
                    self._read_line(text, f"{path}, line {number}")
            return
        with storage_errors(path):
            whole = self._read() if path.exists() else 0
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._file, whole)
            self._earlier.update(self._replies)

    def __len__(self) -> int:
        return len(self._replies)

    def model(self, name: str, model: LanguageModel | None = None) -> RecordedModel:
        """The model ``name`` as recorded. ``model`` replies to what is missing, if the cassette records."""
        return RecordedModel(self, name, model)

    def find(self, key: str, *, renew: bool = False) -> Completion | None:
        """The reply to a request; with ``renew`` only one that was recorded since the cassette was opened."""
        return None if renew and key in self._earlier else self._replies.get(key)

    @property
    def records(self) -> bool:
        return self._file is not None

    def add(
        self, key: str, name: str, request: ModelRequest, completion: Completion, *, renew: bool = False
    ) -> Completion:
        """Write a reply, unless :meth:`find` has one to the same request. Returns the one that the cassette has."""
        line = orjson.dumps(
            {
                "key": key,
                "model": name,
                "request": msgspec.to_builtins(request),
                "completion": msgspec.to_builtins(completion),
            },
            option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS,
        )
        with self._lock:
            if (recorded := self.find(key, renew=renew)) is not None:
                return recorded
            assert self._file is not None
            with storage_errors(self.path):
                size = os.fstat(self._file).st_size
                try:
                    while line:
                        line = line[os.write(self._file, line) :]
                except OSError:
                    os.ftruncate(self._file, size)
                    raise
            self._replies[key] = completion
            self._earlier.discard(key)
        return completion

    def _read(self) -> int:
        """Read the replies; return the bytes of complete lines. A killed process leaves one incomplete line at most."""
        whole = 0
        # Byte by byte as it is: a compressed file cannot be appended to, and its lines are refused.
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n") and (line.startswith(_START) or _START.startswith(line)):
                    break
                whole += len(line)
                self._read_line(line, f"{self.path}, line {number}")
        return whole

    def _read_line(self, line: str | bytes, where: str) -> None:
        try:
            recorded: dict[str, Any] = orjson.loads(line)
            request = msgspec.convert(recorded["request"], ModelRequest)
            key = request_hash(recorded["model"], request)
            completion = msgspec.convert(recorded["completion"], Completion)
            stored = recorded["key"]
        except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
            raise ModelError(
                f"{where} is not a recorded reply ({error}): record the cassette again."
            ) from error
        if stored != key:
            raise ModelError(
                f"{where} has another key than the hash of its request, which was changed: record the cassette again."
            )
        self._replies[key] = completion

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RecordedModel:
    """A model whose replies are in a cassette."""

    def __init__(
        self, cassette: Cassette, name: str, model: LanguageModel | None, *, renew: bool = False
    ) -> None:
        self.name = name
        self._cassette = cassette
        self._model = model
        self._renew = renew

    def renewed(self) -> RecordedModel:
        """The same model, which asks again for replies that were recorded before the cassette was opened."""
        return RecordedModel(self._cassette, self.name, self._model, renew=self._cassette.records)

    def complete(self, request: ModelRequest) -> Completion:
        key = request_hash(self.name, request)
        completion = self._cassette.find(key, renew=self._renew)
        if completion is not None:
            return completion
        if self._model is None or not self._cassette.records:
            last = request.messages[-1].content if request.messages else ""
            raise CassetteMiss(
                f"The cassette {self._cassette.path} has no reply of {self.name} to the request {key[:12]} "
                f"({' '.join(last.split())[:80]!r}): use the library, the questions and the options that it was "
                "recorded with, or record what is missing."
            )
        return self._cassette.add(key, self.name, request, self._model.complete(request), renew=self._renew)

    def close(self) -> None:
        if self._model is not None:
            self._model.close()
