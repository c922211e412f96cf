"""Stores an encoder's vectors of the papers of a library, for :mod:`scholarbase.rerankers.encoder`."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from scholarbase.encoders import Encoder, document_text
from scholarbase.errors import InvalidRequest, SourceError
from scholarbase.files import atomic_write, storage_errors, unhidden
from scholarbase.indexes.catalog import FILE_NAME as CATALOG
from scholarbase.indexes.catalog import Catalog
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.encoded import Encoding
from scholarbase.ingest.encoding import encode_papers, load_vectors
from scholarbase.manifest import read_manifest
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.rerankers.base import MAX_TEXT_LENGTH
from scholarbase.rerankers.encoder import FILE_NAME, FORMAT, KEYS, ROWS, VECTORS, StoredVectors, key_of

BUILDING: Final = "building"
"""The folder of what is encoded so far, until the end."""


def store_vectors(
    library: Path,
    folder: Path,
    encoder: Encoder,
    location: str,
    vectors: Path | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Store the vectors of all papers in ``folder``. Returns their number.

    An interrupted call goes on where it was with the same arguments; ``vectors`` are read again. Where the folder has
    the vectors already, nothing is done.

    Args:
        location: the name, path or URL that opens the encoder again.
        vectors: vectors that the encoder computed elsewhere, in a format of ``ingest --vectors``; papers without one
            are encoded in the search.

    Raises:
        InvalidRequest: the folder has other files, or vectors of another library or encoder.
        EncoderError, EncoderMismatch, SourceError, StorageError: as in an ingest.
    """
    _, snapshot = read_manifest(library)
    about = {"format": FORMAT, "encoder": location, "spec": encoder.spec.to_dict(), "snapshot": snapshot}
    wanted = orjson.dumps(about, option=orjson.OPT_INDENT_2)
    building = folder / BUILDING
    with storage_errors(folder):
        if (folder / FILE_NAME).is_file() and (folder / FILE_NAME).read_bytes() == wanted:
            shutil.rmtree(building, ignore_errors=True)
            return len(StoredVectors.open(folder).keys)
        if folder.exists() and (unhidden(folder) - {BUILDING} or (building.exists() and unhidden(building))):
            begun = building / FILE_NAME
            if not begun.is_file() or begun.read_bytes() != wanted:
                raise InvalidRequest(
                    f"{folder} has other files, or vectors of another library or encoder: give a new folder."
                )
        building.mkdir(parents=True, exist_ok=True)
        with atomic_write(building / FILE_NAME) as file:
            file.write(wanted)
        parts = DenseParts(building / "parts")
        reporter = reporter or SilentReporter()
        with closing(Catalog(library / CATALOG, readers=1)) as catalog, catalog.reading() as db:
            if vectors is None:
                encode_papers(db, parts, encoder, reporter)
            else:
                encoding = Encoding.read(vectors)
                if encoding is not None:
                    encoding.check(encoder.spec, vectors)
                title_weight = 1 if encoding is None else encoding.title_weight
                load_vectors(db, parts, encoder, vectors, title_weight, reporter)
            lookup = parts.open()
            keys = []
            papers = db.execute(
                "SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id ORDER BY id"
            )
            with (folder / VECTORS).open("wb") as file:
                for number, title, abstract in papers:
                    vector, _ = lookup.get(number)
                    if vector is not None:
                        keys.append(key_of(document_text(title or "", abstract)[:MAX_TEXT_LENGTH]))
                        file.write(vector.astype(np.float16).tobytes())
        if not keys:
            raise SourceError(f"The library at {library} has no paper with a vector: nothing is stored.")
        order = np.argsort(np.array(keys, dtype=np.uint64), kind="stable")
        np.save(folder / KEYS, np.array(keys, dtype=np.uint64)[order])
        np.save(folder / ROWS, order.astype(np.uint32))
        with atomic_write(folder / FILE_NAME) as file:
            file.write(wanted)
        shutil.rmtree(building)
    return len(keys)
