"""Formats of source files that an extension adds: from the ingest to searches and updates."""

import gzip
import json
import lzma
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pytest

from scholarbase import extensions
from scholarbase.errors import SourceError, TooManyRejects
from scholarbase.ingest import reading
from scholarbase.ingest.job import ingest
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources import Dataset, SourceFormat, StoredBytes, discover, formats, read_records
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from scholarbase.updates.job import update
from tests.conftest import SAMPLE

Install = Callable[..., None]


def lists(file: TextIO) -> Iterator[Mapping[str, Any]]:
    """Lines such as ``Title | Author; Author | 1905 | doi``, below a first line that names the format."""
    for number, line in islice(enumerate(file, 1), 1, None):
        title, authors, year, doi = (part.strip() for part in line.split("|"))
        yield {"title": title, "authors": authors.split(";"), "year": year, "doi": doi, "line": number}


LISTS = SourceFormat(lambda start: start.startswith("#list"), lists)
FILE = "#list\nOn light | Einstein, A. | 1905 | 10.1002/andp.1\n | Nobody | 1 | \nThe cell | Ada B.; Cy D. | 2001 | \n"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Make these formats those of an installed extension."""

    def install(added: Any) -> None:
        class Added(extensions.Extension):
            def sources(self) -> Any:
                return added

        found = extensions.Installed("mine", "my-package", "1", Added())
        monkeypatch.setattr(extensions, "installed", lambda: (found,))
        extensions._added.cache_clear()
        formats.cache_clear()

    yield install
    extensions._added.cache_clear()
    formats.cache_clear()


def written(path: Path, content: str | bytes = FILE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, after: int = 0) -> list[tuple[int, int, PaperRecord | Reject]]:
    """Each record or reject of a file, with its number and its line."""
    [file] = discover([path])
    return [(one.number, one.line, one.record) for one in read_records(file, StoredBytes(), {}, after)]  # type: ignore[misc]


def test_entries_are_those_of_json_lines(install: Install, tmp_path: Path) -> None:
    install({"list": LISTS})
    rows = [json.loads(line) for line in (
        '{"title": "On light", "authors": ["Einstein, A."], "year": 1905, "doi": "10.1002/andp.1"}',
        '{"title": "The cell", "authors": ["Ada B.", "Cy D."], "year": 2001}',
    )]  # fmt: skip
    same = written(tmp_path / "same.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    (_, _, light), (_, line, reject), (_, _, cell) = read(written(tmp_path / "papers.list"))
    assert [light, cell] == [record for _, _, record in read(same)]
    assert isinstance(reject, Reject)
    assert (line, reject.reason) == (3, "no-title")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gzip", "xz"])
def test_files_are_recognised_by_their_content(
    install: Install, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    install({"list": LISTS})
    path = written(tmp_path / "any.name", pack(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode()))
    [file] = discover([path])
    assert (file.dataset, file.kind) == (Dataset.EXTENSION, "list")
    seen = StoredBytes()
    assert [entry.number for entry in read_records(file, seen, {}, after=1)] == [2, 3]
    assert seen.count == path.stat().st_size


def test_the_core_recognises_its_formats_without_the_door(install: Install, monkeypatch: Any) -> None:
    def refuse() -> None:
        raise AssertionError("the door was asked")

    monkeypatch.setattr(extensions, "installed", refuse)
    extensions._added.cache_clear()
    formats.cache_clear()
    assert len(discover([SAMPLE / "s2ag", SAMPLE / "arxiv", SAMPLE / "own"])) > 4


def test_a_library_is_built_searched_and_verified(install: Install, tmp_path: Path) -> None:
    install({"list": LISTS})
    path = written(tmp_path / "papers.list")
    manifest = ingest([path], tmp_path / "library", sets={"mine": [path]})
    assert [source.dataset for source in manifest.sources] == ["list"]
    counts = manifest.counts
    assert (counts["papers"], counts["lines_list"], counts["rejects_list"]) == (2, 3, 1)
    install({})
    verify(tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        [hit] = library.search("light", within=["set:mine"]).results
        assert hit.paper.id == "DOI:10.1002/andp.1"


@pytest.mark.slow
def test_an_update_replaces_the_file_and_needs_the_extension(install: Install, tmp_path: Path) -> None:
    install({"list": LISTS})
    ingest([written(tmp_path / "papers.list")], tmp_path / "one")
    newer = written(tmp_path / "new" / "papers.list", FILE.replace("The cell", "The plant"))
    manifest = update(tmp_path / "one", [newer], tmp_path / "two")
    assert manifest.updates[0]["steps"][0]["files"][0]["dataset"] == "list"
    whole = ingest([newer], tmp_path / "whole")
    assert manifest.content_hash == whole.content_hash

    install({})
    bib = written(tmp_path / "more.bib", "@misc{a, title = {A title}}")
    update(tmp_path / "two", [bib], tmp_path / "three")  # reads no file of the format
    with pytest.raises(
        SourceError, match=r"is not a source.*was built from files of the format list, which no inst"
    ):
        update(tmp_path / "two", [newer], tmp_path / "four")
    with pytest.raises(SourceError, match=r"is not a source[^@]*title=NAME\.$"):
        discover([newer])


@pytest.mark.slow
def test_a_killed_ingest_continues(install: Install, tmp_path: Path, monkeypatch: Any) -> None:
    many = written(
        tmp_path / "papers.list", "#list\n" + "".join(f"Paper {n} | A B | 2000 |\n" for n in range(50))
    )
    monkeypatch.setattr(reading, "LINES_PER_COMMIT", 10)

    def killed(file: TextIO) -> Iterator[Mapping[str, Any]]:
        for number, entry in enumerate(lists(file)):
            if number == 35:
                raise KeyboardInterrupt
            yield entry

    install({"list": SourceFormat(LISTS.recognises, killed)})
    with pytest.raises(KeyboardInterrupt):
        ingest([many], tmp_path / "library")
    install({"list": LISTS})
    written_before: list[int] = []
    write = reading.CatalogWriter.write

    def counted(self: Any, dataset: Any, records: Any, *rest: Any) -> Any:
        written_before.append(len(records))
        return write(self, dataset, records, *rest)

    monkeypatch.setattr(reading.CatalogWriter, "write", counted)
    again = ingest([many], tmp_path / "library")
    assert written_before == [10, 10]
    assert again.snapshot == ingest([many], tmp_path / "other").snapshot


def test_a_failing_format_is_named(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("no table")

    path = written(tmp_path / "papers.list")
    install({"list": SourceFormat(broken, lists)})
    with pytest.raises(
        SourceError, match=r"is not a source.* with titles, or of list, which an extension adds\. "
    ):
        discover([path])
    assert "The source format 'list' of an extension failed to recognise a file." in caplog.text
    install({"list": SourceFormat(LISTS.recognises, broken)})
    with pytest.raises(
        SourceError, match=r"cannot be read as list, a format of an extension \(RuntimeError: no table\)"
    ):
        read(path)
    install({"list": SourceFormat(LISTS.recognises, lambda _: [{"titel": "x"}])})
    with pytest.raises(
        SourceError, match=r"gives an entry the field 'titel': the fields are title, abstract.* and line"
    ):
        read(path)
    install({"list": LISTS})
    with pytest.raises(SourceError, match="is incomplete or damaged"):
        read(written(tmp_path / "cut.gz", gzip.compress(FILE.encode() * 9)[:-9]))
    with pytest.raises(TooManyRejects, match="3 of 3 entries of the dataset list were rejected"):
        ingest([written(path, "#list\n" + " | A | 1 | \n" * 3)], tmp_path / "library")


def test_names_that_the_core_uses_are_left_out(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["papers", "bibtex", "jats", "extension", "My format"]
    install({**dict.fromkeys(names, LISTS), "good": LISTS})
    assert read(written(tmp_path / "papers.list"))
    assert list(formats()) == ["good"]
    assert re.findall("format '(.*)' of an extension is not used", caplog.text) == names
