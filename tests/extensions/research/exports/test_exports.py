"""Exported files, read as the agents read them."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from scholarbase.markup import plain
from scholarbase.progress import SilentReporter
from scholarbase_research.exports import export
from tests.conftest import run_cli, sample_rows
from tests.forks import CLI, run_fork
from tests.libraries import copied

STRINGS: Final = "hep-th/9301068"


@pytest.fixture(scope="module")
def held(sample_library: Path) -> dict[str, tuple[int, str, str]]:
    """The catalogue's own rows of the papers with an arXiv id: catalogue id, title and abstract."""
    with closing(sqlite3.connect(sample_library / "catalog.sqlite")) as connection:
        rows = connection.execute(
            "SELECT arxiv_id, id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id "
            "WHERE arxiv_id IS NOT NULL ORDER BY id"
        )
        return {row[0]: (row[1], row[2], row[3] or "") for row in rows}


def spar_get(path: Path, arxiv_id: str) -> dict[str, Any] | None:
    """A paper as SPAR's ``ArxivDatabase.get`` reads it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        row = connection.execute("SELECT data FROM arxiv_docs WHERE arxiv_id = ?", (arxiv_id,)).fetchone()
    return json.loads(row[0]) if row else None


def test_the_cache_of_spar(
    sample_library: Path, held: dict[str, tuple[int, str, str]], tmp_path: Path
) -> None:
    out = tmp_path / "database" / "arxiv_data.db"
    done = run_cli("export", "--library", sample_library, "--format", "spar-cache", out)
    assert done.returncode == 0
    assert done.stdout == f"{len(held):,} of {len(held):,} papers with an arXiv id are in {out}.\n"
    assert spar_get(out, STRINGS) == {
        "paper_id": STRINGS,
        "arxivId": STRINGS,
        "arxivUrl": f"https://arxiv.org/abs/{STRINGS}",
        "title": "Two Dimensional QCD is a String Theory",
        "abstract": held[STRINGS][2],
        "authors": [{"name": "David J. Gross"}, {"name": "Washington Taylor"}],
        "publicationYear": "19930117",
        "fieldsOfStudy": "hep-th;hep-ph",
        "source": "Search From Local",
    }
    assert spar_get(out, "2301.00001") is None
    with closing(sqlite3.connect(out)) as connection:
        rows = connection.execute("SELECT arxiv_id, data, created_at FROM arxiv_docs").fetchall()
        # As SPAR adds a paper that it fetched.
        insert = "INSERT OR REPLACE INTO arxiv_docs (arxiv_id, data) VALUES (?, ?)"
        connection.execute(insert, ("2301.00001", json.dumps({"title": "New"})))
        connection.commit()
    assert spar_get(out, "2301.00001") == {"title": "New"}
    read = {row[0]: json.loads(row[1]) for row in rows}
    assert {one: (data["title"], data["abstract"]) for one, data in read.items()} == {
        one: facts[1:] for one, facts in held.items()
    }
    assert all(row[2] for row in rows)


def keep_letters(text: str) -> str:
    letters = [c for c in text if c.isalpha()]
    return "".join(letters).lower()


class PaSa:
    """Papers as PaSa's ``utils.py`` finds them."""

    def __init__(self, folder: Path) -> None:
        self.titles = json.loads((folder / "id2paper.json").read_text())
        self.papers = zipfile.ZipFile(folder / "cs_paper_2nd.zip", "r")
        self.names = set(self.papers.namelist())

    def paper(self, arxiv_id: str) -> dict[str, Any] | None:
        key = keep_letters(self.titles.get(arxiv_id, ""))
        if key not in self.names:
            return None
        with self.papers.open(key) as file:
            found: dict[str, Any] = json.loads(file.read().decode("utf-8"))
            return found


def test_the_database_of_pasa(
    sample_library: Path, held: dict[str, tuple[int, str, str]], tmp_path: Path
) -> None:
    done = run_cli("export", "--library", sample_library, "--format", "pasa", tmp_path)
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cs_paper_2nd.zip", "id2paper.json"]
    pasa = PaSa(tmp_path)
    assert pasa.papers.testzip() is None
    paper = pasa.paper(STRINGS)
    assert paper is not None
    assert (paper["title"], paper["abstract"]) == held[STRINGS][1:]
    assert paper["sections"] == {}
    # References, from the snapshot itself: those of the paper that cites most.
    rows = {row["corpusid"]: row for row in sample_rows("papers")}
    arxiv_ids = {one: row["externalids"]["ArXiv"] for one, row in rows.items() if row["externalids"]["ArXiv"]}
    edges = [
        (int(edge["citingcorpusid"]), int(edge["citedcorpusid"] or 0)) for edge in sample_rows("citations")
    ]
    edges = [(citing, cited) for citing, cited in edges if citing in arxiv_ids and cited in rows]
    [(most, _)] = Counter(citing for citing, _ in edges).most_common(1)
    titles = {plain(rows[cited]["title"]) for citing, cited in edges if citing == most}
    citing_paper = pasa.paper(arxiv_ids[most])
    assert citing_paper is not None
    assert list(citing_paper["sections"]) == ["References"]
    assert len(titles) > 10
    assert set(citing_paper["sections"]["References"]) == titles
    counts = Counter(keep_letters(facts[1]) for facts in held.values())
    with pasa.papers:
        for arxiv_id, (_, title, abstract) in held.items():
            if counts[keep_letters(title)] > 1 or not keep_letters(title):
                continue
            assert pasa.titles[arxiv_id] == title
            found = pasa.paper(arxiv_id)
            assert found is not None
            assert (found["title"], found["abstract"]) == (title, abstract)


def test_of_papers_with_the_same_letters_the_first_is_written(sample_library: Path, tmp_path: Path) -> None:
    """A second member of a name would hide the first, and the second paper would get the text of the first."""
    library = tmp_path / "library"
    copied(sample_library, library)
    with closing(sqlite3.connect(library / "catalog.sqlite")) as connection:
        ids = [
            row[0]
            for row in connection.execute("SELECT id FROM papers WHERE arxiv_id IS NOT NULL ORDER BY id")
        ][:4]
        titles = ("Ünified Cats: a survey", "1 Unified cats", "ünified CATS (a survey)", "2048")
        connection.executemany("UPDATE papers SET title = ? WHERE id = ?", zip(titles, ids, strict=True))
        names = [
            connection.execute("SELECT arxiv_id FROM papers WHERE id = ?", (i,)).fetchone()[0] for i in ids
        ]
        connection.commit()
    done = export(library, "pasa", tmp_path / "out")
    pasa = PaSa(tmp_path / "out")
    assert done.papers - done.written >= 1
    assert len(pasa.titles) == done.written
    assert [name in pasa.titles for name in names] == [True, True, False, True]
    first, second = (pasa.paper(name) for name in names[:2])
    assert first is not None
    assert second is not None
    assert (first["title"], second["title"]) == titles[:2]
    assert pasa.paper(names[3]) is None  # PaSa asks arXiv then
    assert len(pasa.names) == len(pasa.papers.namelist())
    pasa.papers.close()


class _Interrupted(SilentReporter):
    """Ctrl-C in the first batch."""

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[Any]:
        yield self

    def advance(self, count: int) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("form", ["spar-cache", "pasa"])
def test_an_interrupted_export_leaves_no_files(sample_library: Path, tmp_path: Path, form: str) -> None:
    killed = tmp_path / ".scholarbase-export-abcd"
    killed.mkdir()
    (killed / "id2paper.json").write_text("{")
    out = tmp_path if form == "pasa" else tmp_path / "cache.db"
    with pytest.raises(KeyboardInterrupt):
        export(sample_library, form, out, reporter=_Interrupted())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["spar-cache", "pasa"])
def test_a_full_disk_is_an_error_with_a_sentence(sample_library: Path, tmp_path: Path, form: str) -> None:
    """A limit of 100 KB for a file stands for the disk."""
    limited = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""
    arguments = ("export", "--library", sample_library, "--format", form, tmp_path / "out")
    done = run_fork(*arguments, code=limited + CLI)
    assert done.returncode == 6, done.stderr
    assert f"Cannot write {tmp_path / 'out'}" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
