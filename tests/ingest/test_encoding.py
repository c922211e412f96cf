"""Encoding in a subprocess."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from scholarbase.databases import open_immutable
from scholarbase.encoders import open_encoder
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.errors import EncoderMismatch, VectorIndexError
from scholarbase.indexes.catalog import FILE_NAME
from scholarbase.ingest import encoding
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.encoding import encode_apart, encode_papers, static_folder
from scholarbase.models.encoders import PACKAGED
from scholarbase.progress import SilentReporter


class Counted:
    """A reporter that keeps the stages and the papers of each."""

    def __init__(self) -> None:
        self.papers: dict[str, int] = {}

    @contextmanager
    def stage(self, name: str, unit: str, total: int | None, done: int = 0) -> Iterator[Counted]:
        assert unit == "papers"
        self.name = name
        self.papers[name] = done
        yield self

    def advance(self, count: int) -> None:
        self.papers[self.name] += count

    def at(self, done: int) -> None:
        pass


def static_encoder() -> tuple[Path, str | None]:
    with closing(open_encoder(PACKAGED)) as encoder:
        found = static_folder(encoder)
    assert found is not None
    return found


def test_a_subprocess_encodes_the_same_vectors(
    sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "DOCUMENTS_PER_STATIC_PART", 1_000)
    here, apart, reporter = tmp_path / "here", tmp_path / "apart", Counted()
    catalog = sample_library / FILE_NAME
    with closing(open_encoder(PACKAGED)) as encoder, closing(open_immutable(catalog)) as db:
        encode_papers(db, DenseParts(here), encoder, SilentReporter())
    # The first part is there, as after a kill.
    apart.mkdir()
    for file in here.glob("000000.*"):
        shutil.copy(file, apart)
    encode_apart(tmp_path, catalog, apart, static_encoder(), reporter)
    papers = sum(len(np.load(file)) for file in here.glob("*.ids.npy"))
    assert reporter.papers == {"encode": papers}
    for kind in ("ids", "dense"):
        one, other = (
            np.concatenate([np.load(file) for file in sorted(folder.glob(f"*.{kind}.npy"))])
            for folder in (here, apart)
        )
        np.testing.assert_array_equal(one, other)


def test_files_in_the_working_directory_are_not_run_as_modules(
    sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tokenizers", "calendar", "scholarbase"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user')")
    monkeypatch.chdir(tmp_path)
    encode_apart(tmp_path, sample_library / FILE_NAME, tmp_path / "parts", static_encoder(), SilentReporter())
    assert DenseParts(tmp_path / "parts").count == 1


def test_errors_of_the_subprocess_are_raised_here(
    sample_library: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    catalog, reporter = sample_library / FILE_NAME, SilentReporter()
    with pytest.raises(EncoderMismatch, match="changed since this ingest began"):
        encode_apart(tmp_path, catalog, tmp_path / "parts", (PACKAGED_FOLDER, "another"), reporter)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(VectorIndexError, match="A process of the encoder ended with status 1"):
        encode_apart(tmp_path, tmp_path / "empty.sqlite", tmp_path / "parts", static_encoder(), reporter)
    assert "no such table" in capfd.readouterr().err
