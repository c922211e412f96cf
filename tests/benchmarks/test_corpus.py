"""A corpus of copies: all papers have different ids and the same texts."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks import corpus
from benchmarks.rows import Setting
from scholarbase.identifiers import arxiv_id
from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from tests.conftest import ROOT

SAMPLE = ROOT / "sample"


def records(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with corpus.open_lines(path) as lines:
            yield from map(orjson.loads, lines)


def sample_records() -> int:
    with lzma.open(corpus.arxiv_source(SAMPLE)) as lines:
        return sum(1 for _ in lines)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Two copies of the sample and half a third."""
    count = sample_records()
    setting = Setting(SAMPLE, 2 * count + count // 2, tmp_path_factory.mktemp("work"))
    corpus.make(setting)
    return setting


@pytest.mark.parametrize(
    ("name", "copy", "shifted"),
    [
        ("0704.0001", 0, "0704.0001"),
        ("0704.0001", 1, "2704.00001"),
        ("2309.06180v3", 2, "6309.06180"),
        ("2612.12345", 3, "8612.12345"),
        ("806.1945", 1, "2806.01945"),
        ("hep-th/9901001", 1, "hep-th/1901001"),
        ("hep-th/0703001", 3, "hep-th/6703001"),
        ("no id", 1, None),
    ],
)
def test_a_copys_id_is_another_valid_one(name: str, copy: int, shifted: str | None) -> None:
    assert corpus.shifted_arxiv_id(name, copy) == shifted
    assert shifted is None or arxiv_id(shifted) == shifted


def test_no_two_copies_share_an_id() -> None:
    years = [f"{year % 100:02}" for year in range(1991, 2008)]
    names = [f"hep-th/{year}01001" for year in years]
    names += [f"{year:02}05.{'1234' if year < 15 else '01234'}" for year in range(7, 27)]
    shifted = [corpus.shifted_arxiv_id(name, copy) for name in names for copy in range(corpus.MAX_COPIES)]
    assert len(set(shifted)) == len(names) * corpus.MAX_COPIES


def test_texts_stay_and_names_change(copies: Setting) -> None:
    first, second, _ = (list(records(path)) for path in sorted((copies.corpus / "arxiv").iterdir()))
    named = {"id", "doi"}
    for one, other in zip(first, second, strict=True):
        assert {key: one[key] for key in one.keys() - named} == {
            key: other[key] for key in other.keys() - named
        }
    assert not {one["doi"] for one in first if one["doi"]} & {other["doi"] for other in second}


@pytest.mark.slow
def test_a_library_of_copies_has_every_paper_and_edge_as_often(sample_library: Path, tmp_path: Path) -> None:
    alone = read_manifest(sample_library)[0].counts
    twice = Setting(SAMPLE, 2 * sample_records(), tmp_path)
    corpus.make(twice)
    both = ingest([twice.corpus], twice.library).counts
    joined = ("papers", "abstracts", "aliases", "edges", "arxiv_joined", "points")
    assert {name: both[name] for name in joined} == {name: 2 * alone[name] for name in joined}


def test_a_quarter_holds_the_first_quarter_of_every_file(copies: Setting, tmp_path: Path) -> None:
    corpus.cut(copies.corpus, tmp_path / "quarter", 4)
    for path in copies.corpus.rglob("*"):
        if path.is_file():
            with corpus.open_lines(path) as lines:
                whole = lines.readlines()
            with corpus.open_lines(tmp_path / "quarter" / path.relative_to(copies.corpus)) as lines:
                assert lines.readlines() == whole[: -(-len(whole) // 4)]


def test_more_papers_than_four_copies_hold_are_an_error(tmp_path: Path) -> None:
    most = sample_records() * corpus.MAX_COPIES
    with pytest.raises(ValueError, match=f"give {most:,} or fewer"):
        corpus.make(Setting(SAMPLE, most + 1, tmp_path))
    assert not Setting(SAMPLE, most + 1, tmp_path).corpus.exists()
