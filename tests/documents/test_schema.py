"""Compressed texts of ``documents.sqlite``."""

import zlib

import pytest

from scholarbase.documents import schema
from scholarbase.errors import LibraryCorrupt


def test_a_text_that_is_damaged_or_longer_than_any_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MOST_BYTES", 1000)
    packed = schema.compress("é" * 400)
    assert schema.decompress(packed) == "é" * 400
    for data in (schema.compress("é" * 600), packed[:-5], packed[5:], zlib.compress(b"\xff")):
        with pytest.raises(LibraryCorrupt, match="A full text of the library is"):
            schema.decompress(data)
