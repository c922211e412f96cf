"""Libraries of a few records, and changed copies of libraries."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from scholarbase.encoders import open_encoder
from scholarbase.files import copy_sparse
from scholarbase.indexes import contents
from scholarbase.indexes.contents import Contents, files_in
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from tests.conftest import sample_rows, snapshot_of


def library_of(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    edges: Sequence[tuple[int, int]] = (),
    *,
    dense: bool = False,
    **rules: Any,
) -> Path:
    """Ingest the release of :func:`snapshot_of`, with the vectors of the encoder in the package if ``dense``."""
    snapshot, path = snapshot_of(folder / "snapshot", rows, edges), folder / "library"
    if not dense:
        ingest([snapshot], path, rules=IngestRules(**rules))
        return path
    with closing(open_encoder(PACKAGED)) as encoder:
        ingest([snapshot], path, encoder=encoder, encoder_location=PACKAGED, rules=IngestRules(**rules))
    return path


@contextmanager
def opened_library(
    folder: Path, rows: Sequence[dict[str, Any]], edges: Sequence[tuple[int, int]] = (), **options: Any
) -> Iterator[Library]:
    """The library of :func:`library_of`, open."""
    with Library.open(library_of(folder, rows, edges, **options)) as library:
        yield library


def papers_of(texts: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Rows of :func:`snapshot_of` of titles and abstracts: CorpusId:1, which is arXiv:0801.0001, and so on."""
    return [
        {"corpusid": n, "title": title, "abstract": abstract, "externalids": {"ArXiv": f"0801.{n:04}"}}
        for n, (title, abstract) in enumerate(texts, 1)
    ]


def sample_papers() -> list[dict[str, Any]]:
    """The sample's papers that have an abstract, as rows of :func:`snapshot_of`."""
    abstracts = {row["corpusid"]: row["abstract"] for row in sample_rows("abstracts")}
    papers = [row | {"abstract": abstracts.get(row["corpusid"])} for row in sample_rows("papers")]
    return [row for row in papers if row["abstract"]]


def relist(library: Path) -> None:
    """Write ``files.json`` for the files as they are now."""
    (library / contents.FILE_NAME).unlink(missing_ok=True)
    files = {name: library / name for name in files_in(library)}
    listed = Contents.of(read_manifest(library)[1], files)
    (library / contents.FILE_NAME).write_bytes(listed.to_bytes())


def copied(library: Path, to: Path, *ignored: str) -> Path:
    """A copy of a folder in a new one, without files of ``ignored`` names.

    It keeps the holes of files: a library of the sample takes 16 MB, and 206 MB without them.
    """
    ignore = shutil.ignore_patterns(*ignored)
    shutil.copytree(library, to, ignore=ignore, copy_function=lambda a, b: copy_sparse(Path(a), Path(b)))
    return to
