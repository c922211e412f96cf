"""The source records of a library, of a job that was killed and of one that was not."""

import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.ingest import folder, reading
from scholarbase.ingest.job import ingest
from scholarbase.ingest.records import CitationRecord, TldrRecord
from scholarbase.ingest.sources import Dataset
from scholarbase.ingest.store import RecordStore
from scholarbase.ingest.writer import CatalogWriter


def stored(path: Path) -> list[list[Any]]:
    with closing(RecordStore(path)) as store:
        sql = ("SELECT id, dataset, key, line FROM records", "SELECT id, key FROM citations")
        return [store.db.execute(f"{one} ORDER BY id").fetchall() for one in sql]


def test_a_resumed_job_keeps_all_rows_of_its_last_commit_and_no_others(tmp_path: Path) -> None:
    """The last one was deleted."""
    with closing(RecordStore(tmp_path / "records.sqlite")) as store:

        def add(*numbers: int) -> None:
            with store.transaction():
                records = [TldrRecord(number, "Text.") for number in numbers]
                store.append(Dataset.TLDRS, records, [b"{}"] * len(records))
                store.append(Dataset.CITATIONS, [CitationRecord(n, n + 1) for n in numbers], [])

        add(1, 2, 3)
        ends = store.ends
        add(4, 5)
        assert ends == [3, 3]
    with closing(RecordStore(tmp_path / "records.sqlite")) as store:
        store.cut(ends)
    records, citations = stored(tmp_path / "records.sqlite")
    assert [row[2] for row in records] == [1, 2, 3]
    assert [row[1] for row in citations] == ["1>2", "2>3", "3>4"]


def test_records_of_a_library_that_an_earlier_version_made_are_read(tmp_path: Path) -> None:
    with closing(RecordStore(tmp_path / "records.sqlite")) as store:
        line = b'{"corpusid": 7, "text": "A summary.", "model": "m"}'
        with store.transaction():
            store.append(
                Dataset.TLDRS, [TldrRecord(7, "A summary."), TldrRecord(8, "A summary.")], [line, line]
            )
            store.db.execute("UPDATE records SET line = ? WHERE key = 7", (zlib.compress(line, 1),))
        assert [record.text for record in store.all_records(Dataset.TLDRS)] == ["A summary."] * 2


def test_an_interrupted_job_stores_each_record_once(
    small_snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LINES_PER_COMMIT", 100)
    ingest([small_snapshot], tmp_path / "whole")
    write, calls = CatalogWriter.write, []

    def stops(self: CatalogWriter, *arguments: Any) -> Any:
        calls.append(arguments[0])
        if len(calls) == 4:
            raise KeyboardInterrupt
        return write(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CatalogWriter, "write", stops)
        with pytest.raises(KeyboardInterrupt):
            ingest([small_snapshot], tmp_path / "library")
    ingest([small_snapshot], tmp_path / "library")
    one, other = (stored(tmp_path / name / "records.sqlite") for name in ("whole", "library"))
    assert one == other
    assert all(one)


@pytest.mark.slow
def test_a_job_stopped_after_the_last_move_left_its_folder(
    small_snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folder, "sync_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            ingest([small_snapshot], tmp_path / "library")
    ingest([small_snapshot], tmp_path / "library")
    assert not (tmp_path / "library" / "building").exists()
