from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import LibraryCorrupt, LibraryNotFound
from scholarbase_download.difference import Change, differences
from tests.libraries import copied, library_of


def row(corpus_id: int, title: str, **values: Any) -> dict[str, Any]:
    return {"corpusid": corpus_id, "title": title, "abstract": f"About {title}.", **values}


OLD = [
    row(1, "The first paper", externalids={"ArXiv": "2401.00001"}, citationcount=1),
    row(2, "The second paper"),
    row(3, "A paper that is removed"),
    row(4, "A paper that gets an arXiv id"),
    row(5, "A paper that is renumbered", externalids={"ArXiv": "2401.00005"}),
    row(6, "A paper with the same text"),
]
OLD_EDGES = [(2, 1), (3, 1), (4, 2), (6, 5)]


def build(folder: Path, rows: list[dict[str, Any]], edges: list[tuple[int, int]]) -> Path:
    return library_of(folder, rows, edges, keep="title")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two libraries whose integer ids have nothing in common: the new one has the papers in another order."""
    new = deepcopy(OLD)
    new[0]["citationcount"] = 2
    new[0]["abstract"] = "Another abstract."
    new[1]["title"] = "The second paper, revised"
    new[3]["externalids"] = {"ArXiv": "2401.00004"}
    new[4]["corpusid"] = 50
    del new[2]
    new = [row(7, "A new paper"), *reversed(new)]
    edges = [(2, 1), (4, 2), (6, 50), (7, 1)]
    folder = tmp_path_factory.mktemp("difference")
    return build(folder / "old", OLD, OLD_EDGES), build(folder / "new", new, edges)


def test_papers_and_edges_that_were_added_removed_and_changed(pair: tuple[Path, Path]) -> None:
    found = list(differences(*pair))
    assert [one for one in found if one.what != "changed"] == [
        Change("paper", "removed", ("CorpusId:3",)),
        Change("paper", "added", ("CorpusId:7",)),
        Change("edge", "removed", ("CorpusId:3", "arXiv:2401.00001")),
        Change("edge", "added", ("CorpusId:7", "arXiv:2401.00001")),
    ]
    changed = {one.ids: set(one.fields) for one in found if one.what == "changed"}
    assert changed == {
        ("arXiv:2401.00001",): {"abstract", "citation_count"},
        ("CorpusId:2",): {"title"},
        ("arXiv:2401.00004",): {"arxiv_id", "is_open_access"},
        ("arXiv:2401.00005",): {"corpus_id"},
    }


def test_a_library_has_no_difference_to_itself(pair: tuple[Path, Path]) -> None:
    assert list(differences(pair[0], pair[0])) == []
    with pytest.raises(LibraryNotFound):
        list(differences(pair[0], pair[0] / "nowhere"))


def test_a_damaged_catalogue_ended_in_a_traceback(pair: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = pair
    damaged = copied(new, tmp_path / "damaged")
    (damaged / "manifest.json").write_bytes((damaged / "manifest.json").read_bytes() + b"\n")
    size = (damaged / "catalog.sqlite").stat().st_size
    with (damaged / "catalog.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    for libraries in ((old, damaged), (damaged, old)):
        with pytest.raises(LibraryCorrupt):
            list(differences(*libraries))
