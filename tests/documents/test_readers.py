"""Full texts that the reader of an extension reads, and files that no extension reads."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from scholarbase.documents.model import Document, DocumentSource, FullText, Metadata
from scholarbase.documents.readers import (
    DocumentEntry,
    DocumentFile,
    DocumentReader,
    PageImage,
    open_renderer,
)
from scholarbase.errors import ExtensionError, SourceError
from scholarbase.extensions import Extension
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library


def source_of(path: Path) -> DocumentSource | None:
    return "text" if path.suffix == ".note" else None


def read(file: DocumentFile, _: object, after: int) -> Iterator[DocumentEntry]:
    text = file.path.read_text()
    about = Metadata(title="Notes of a walrus", abstract="Of many things.", authors=("Ada Lovelace",))
    full = FullText("text", Document(text), metadata=about)
    yield from [DocumentEntry(1, file.size, full)][after:]


class Notes(Extension):
    """Reads notes, whose pages it does not draw."""

    def document_readers(self) -> Sequence[Any]:
        return [DocumentReader("notes (.note)", source_of, read)]


class Broken(Extension):
    """A reader that fails, and one of an unknown source."""

    def document_readers(self) -> Sequence[Any]:
        return [
            DocumentReader("notes", source_of, lambda *_: iter(["a"[1]])),
            DocumentReader("scrolls", lambda path: "scroll", read),  # type: ignore[arg-type, return-value]
        ]


def test_a_reader_of_an_extension(tmp_path: Path, extension: Callable[..., None]) -> None:
    extension(Notes)
    (tmp_path / "a.note").write_text("The time has come, the walrus said.")
    ingest([], tmp_path / "library", documents=[tmp_path / "a.note"])
    extension()
    with Library.open(tmp_path / "library", encoder="none") as library:
        [hit] = library.search_passages("time has come", mode="sparse").results
        assert hit.paper.title == "Notes of a walrus"
        assert hit.passage.text == "The time has come, the walrus said."


def test_what_no_reader_reads_is_refused(tmp_path: Path, extension: Callable[..., None]) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    extension(Notes)
    with pytest.raises(SourceError, match=r"a.pdf is not a full text: documents are notes \(.note\)."):
        ingest([], tmp_path / "library", documents=[tmp_path / "a.pdf"])
    extension()
    with pytest.raises(SourceError, match=r"a.pdf cannot be read: the extension fulltext is not installed"):
        ingest([], tmp_path / "library", documents=[tmp_path / "a.pdf"])


def test_a_reader_that_fails_is_named(tmp_path: Path, extension: Callable[..., None]) -> None:
    extension(Broken)
    (tmp_path / "a.note").write_text("Text.")
    with pytest.raises(SourceError, match=r"a.note cannot be read: the reader of text failed \(IndexError: "):
        ingest([], tmp_path / "library", documents=[tmp_path / "a.note"])
    (tmp_path / "b.scroll").write_text("Text.")
    with pytest.raises(SourceError, match=r"b.scroll: a reader of an extension names the source 'scroll'"):
        ingest([], tmp_path / "other", documents=[tmp_path / "b.scroll"])


class Drawing:
    def draw(self, pdf: bytes, page: int, box: object = None) -> PageImage:
        return PageImage(pdf, page, 0)

    def close(self) -> None:
        pass


def test_pages_are_drawn_by_an_extension(extension: Callable[..., None]) -> None:
    class Pages(Extension):
        def document_readers(self) -> Sequence[Any]:
            return [DocumentReader("", source_of, read, open_renderer=Drawing)]

    extension(Notes, Pages)
    assert open_renderer().draw(b"PDF", 2) == (b"PDF", 2, 0)
    extension(Notes)
    with pytest.raises(
        ExtensionError, match="Pages cannot be drawn: the extension fulltext is not installed"
    ):
        open_renderer()
