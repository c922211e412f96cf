"""The parts that search: the same work is measured on both sides, and wrong results are an error."""

from __future__ import annotations

import ast
import gzip
import importlib
import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.parts import filters, passages, sessions
from benchmarks.rows import Setting
from benchmarks.timing import BLOCK, interleaved
from scholarbase.indexes.catalog import FILE_NAME, Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.bm25 import Bm25Text
from scholarbase.indexes.vectors.index import EdgeIndex
from tests.conftest import SAMPLE
from tests.documents import records

PAPERS = 400


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory, sample_library: Path) -> Setting:
    """The sample's library and questions, at the paths of the parts."""
    data, work = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("work")
    (data / "autoscholar").mkdir()
    shutil.copyfile(SAMPLE / "queries.jsonl", data / "autoscholar" / "queries.jsonl")
    made = Setting(data, PAPERS, work)
    made.library.symlink_to(sample_library)
    return made


def test_every_function_gets_every_question_and_is_warmed_by_the_first_block() -> None:
    calls: dict[str, list[int]] = {"one": [], "other": []}
    numbers = list(range(BLOCK + 5))
    times = interleaved({name: called.append for name, called in calls.items()}, numbers, rounds=2)
    for name, called in calls.items():
        assert called == numbers[:BLOCK] + 2 * numbers
        assert len(times[name]) == 2 * len(numbers)


class TestFilters:
    def test_three_rows_compare_with_the_unfiltered_search(self, setting: Setting) -> None:
        year, category, both = filters.run(setting)
        assert {row.target for row in (year, category, both)} == {2.0}
        assert year.floor == category.floor == both.floor
        assert both.notes["papers"] <= min(year.notes["papers"], category.notes["papers"])
        assert year.notes["compared_questions"] > 0

    def test_the_category_is_the_one_nearest_to_its_share(self, setting: Setting) -> None:
        with closing(Catalog(setting.library / FILE_NAME)) as papers:
            chosen = filters.choose(papers)
            [category] = [f for f in chosen.values() if f.categories and f.first_day is None]
            # Of the sample's 2,440 papers 24 are in hep-lat; 23 and 26 in the next nearest.
            assert category.categories == ("hep-lat",)
            assert len(filters.passing_ids(papers, category)) == 24

    def test_results_other_than_filter_then_rank_are_an_error(self, setting: Setting) -> None:
        year = ResolvedFilters(first_day=19000101, last_day=20991231)
        vector = Bm25Text().query("gauge theory")
        with (
            closing(EdgeIndex.open(setting.library / "vectors")) as index,
            closing(Catalog(setting.library / FILE_NAME)) as papers,
        ):
            passing = filters.passing_ids(papers, year)
            assert filters.check(index, [vector], {"years": year}, {"years": passing}) == 1
            first = index.search_sparse("bm25", vector, 1, year)[0].id
            with pytest.raises(RuntimeError, match=r"Question 0 filtered by years .* from place 1:"):
                filters.check(index, [vector], {"years": year}, {"years": passing - {first}})


@pytest.mark.slow
class TestSessions:
    def test_the_recorded_calls_are_those_of_the_plain_side(
        self, setting: Setting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("ROUNDS", 2), ("ROUND_CALLS", 50)):
            monkeypatch.setattr(sessions, name, value)
        [row] = sessions.run(setting)
        assert (row.bound, row.target, row.unit) == ("at least", 0.92, "calls/s")
        assert row.notes["calls"] == 100
        assert {side: len(found) for side, found in row.notes["rounds"].items()} == {
            "recorded": 2,
            "plain": 2,
        }


class TestPassages:
    def test_copies_are_papers_of_their_own(self, tmp_path: Path) -> None:
        source = records.write(tmp_path / "source.jsonl.gz", records.papers(2))
        passages.write_documents(source, tmp_path / "copies.jsonl.gz", 5)
        with gzip.open(tmp_path / "copies.jsonl.gz") as lines:
            found = [json.loads(line) for line in lines]
        assert [one["metadata"]["id"] for one in found] == [f"2212.0000{n}" for n in range(1, 6)]
        assert [one["body_text"] == found[0]["body_text"] for one in found] == [
            True,
            False,
            True,
            False,
            True,
        ]


def test_every_part_names_modules_that_exist() -> None:
    """A part that no test runs imported a function from where it no longer was."""
    for path in sorted(Path(sessions.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scholarbase"):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{path.name}: {node.module} has no {alias.name}"
