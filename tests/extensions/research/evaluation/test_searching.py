"""Searches for a query set: the same run for any source, concurrency and number of interruptions."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from scholarbase.client import Client
from scholarbase.errors import (
    EvaluationError,
    InvalidRequest,
    PaperNotFound,
    QueryFileError,
    RunDamaged,
    RunExists,
    ServerUnreachable,
    UnsupportedMode,
)
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.checkpoints import RESULTS, Checkpoint, QueryResult
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Query, QuerySet
from scholarbase_research.evaluation.run_data import JudgedQuery, Run
from scholarbase_research.evaluation.runs import HASHED, SECONDS, read_run
from scholarbase_research.evaluation.searching import SearchSettings, default_name, run_searches
from tests.conftest import SAMPLE, serving

SPARSE = SearchSettings(mode="sparse", limit=50)
SAMPLE_QUERIES = read_queries(SAMPLE / "queries.jsonl")
"""40 questions."""


def search(
    source: Source,
    folder: Path,
    settings: SearchSettings = SPARSE,
    queries: QuerySet | None = None,
    **options: Any,
) -> Run:
    queries = queries or SAMPLE_QUERIES
    judged = options.pop("judged", None) or resolve_answers(source, queries).queries
    return run_searches(
        source,
        queries,
        judged,
        {"given": 40},
        settings,
        folder,
        name="a run",
        command="the command",
        **options,
    )


def questions(*queries: Query) -> QuerySet:
    return QuerySet("mine", "jsonl", queries)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != SECONDS}


# -- what a run holds -------------------------------------------------------------------------------------


def test_a_run_has_what_the_library_finds(sample: Library, tmp_path: Path) -> None:
    run = search(sample, tmp_path / "run")
    for query in SAMPLE_QUERIES.queries:
        found = sample.search(query.text, mode="sparse", limit=50, fields=["id"]).results
        assert [hit.paper.id for hit in found] == [result.id for result in run.rankings[query.id]]
    assert read_run(tmp_path / "run") == run
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    expected = {r.id for ranking in run.rankings.values() for r in ranking[:20]}
    expected |= {a.paper_id for query in run.queries for a in query.answers if a.held}
    assert set(run.papers) == expected
    paper = sample.paper(min(expected))
    assert (run.papers[paper.id].title, run.papers[paper.id].year) == (paper.title, paper.year)


def test_the_manifest_has_the_search_settings(sample: Library, tmp_path: Path) -> None:
    manifest = search(sample, tmp_path / "run", SearchSettings(limit=7, to="2010")).manifest
    assert manifest.search is not None
    expected = {
        "mode": "sparse",
        "engine": "bm25",
        "fusion": None,
        "limit": 7,
        "exact": False,
        "to": "2010",
        "pool": False,
        "syntax": "plain",
    }
    assert manifest.search.items() >= expected.items()
    assert (manifest.kind, manifest.snapshot, manifest.papers) == ("search", sample.snapshot_id, 2440)
    assert manifest.queries["sha256"] == SAMPLE_QUERIES.sha256
    assert (manifest.answers, manifest.command, manifest.name) == ({"given": 40}, "the command", "a run")


def test_a_limit_above_a_page_goes_as_deep_as_paging(sample: Library, tmp_path: Path) -> None:
    query = Query("deep", "quantum field theory model energy state result gauge mass", ())
    run = search(sample, tmp_path / "run", SearchSettings(mode="sparse", limit=1200), questions(query))
    found = [hit.paper.id for hit in sample.iter_search(query.text, limit=1200, mode="sparse", fields=["id"])]
    assert len(found) == 1200
    assert [result.id for result in run.rankings["deep"]] == found


def test_citations_are_those_of_each_querys_date(sample: Library, tmp_path: Path) -> None:
    text = "supersymmetry breaking and string theory"
    queries = questions(Query("early", text, (), date="1996-06"), Query("late", text, (), date="1998"))
    settings = SearchSettings(mode="sparse", limit=20, to="query", prefer="cited")
    run = search(sample, tmp_path / "run", settings, queries)
    for query_id, as_of in (("early", "1996-06"), ("late", "1998-12")):
        found = sample.search(
            text, mode="sparse", limit=20, as_of=as_of, prefer="cited", syntax="plain", fields=["id"]
        )
        assert [hit.paper.id for hit in found.results] == [result.id for result in run.rankings[query_id]]
    about = sample.snapshot()
    about["manifest"] = about["manifest"] | {"counts": about["manifest"]["counts"] | {"edges": 0}}
    with pytest.raises(InvalidRequest, match="--prefer cited cannot be combined with --to"):
        settings.facts(settings.used(sample), about)


def test_a_query_without_a_date_is_named(sample: Library, tmp_path: Path) -> None:
    queries = questions(Query("dated", "strings", (), date="1999"), Query("timeless", "strings", ()))
    with pytest.raises(QueryFileError, match="'timeless' has no date"):
        search(sample, tmp_path / "run", SearchSettings(to="query"), queries)
    assert list(tmp_path.iterdir()) == []


def test_a_search_stays_in_the_querys_pool(sample: Library, tmp_path: Path) -> None:
    text = "supersymmetry breaking and string theory"
    found = [hit.paper.id for hit in sample.search(text, mode="sparse", limit=30).results]
    queries = questions(
        Query("some", text, (), pool=tuple(reversed(found[::3]))), Query("none", text, (), pool=())
    )
    run = search(sample, tmp_path / "run", SearchSettings(mode="sparse", pool=True), queries)
    assert [r.id for r in run.rankings["some"]] == found[::3]
    assert run.rankings["none"] == ()


def test_a_pool_of_papers_that_the_library_lacks_is_an_error(sample: Library, tmp_path: Path) -> None:
    pool = ("arXiv:2309.06180",)
    queries = questions(Query("astray", "strings", (), pool=pool))
    judged = JudgedQuery("astray", "strings", (), pool=pool)
    with pytest.raises(PaperNotFound, match="Query 'astray' cannot be searched for"):
        search(sample, tmp_path / "run", SearchSettings(pool=True), queries, judged=[judged])


def test_missing_pools_are_an_error(sample: Library, tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match="has no candidate pool"):
        search(sample, tmp_path / "run", SearchSettings(pool=True))
    queries = questions(Query("a", "strings", (), pool=("arXiv:hep-th/9901001",)), Query("b", "strings", ()))
    with pytest.raises(QueryFileError, match="'b' has no candidate pool"):
        search(sample, tmp_path / "run", SearchSettings(pool=True), queries)


# -- the same run however it is made ----------------------------------------------------------------------


def test_the_files_are_the_same_at_any_concurrency_and_over_http(
    sample: Library, server: str, tmp_path: Path
) -> None:
    alone = search(sample, tmp_path / "alone").manifest.files
    assert set(alone) <= set(HASHED)
    assert search(sample, tmp_path / "many", concurrency=4).manifest.files == alone
    with Client(server) as client:
        assert search(client, tmp_path / "http").manifest.files == alone
        assert search(client, tmp_path / "one", concurrency=1).manifest.files == alone
    assert files(tmp_path / "alone") == files(tmp_path / "http")


# -- a run that was stopped -------------------------------------------------------------------------------


class _StopAfter(SilentReporter):
    """Does something once so many queries are done."""

    def __init__(self, count: int, stop: Callable[[], None]) -> None:
        self._count, self._stop = count, stop

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[Any]:
        with super().stage(name, unit, total, done) as tracker:
            yield _Stopping(tracker, self._count, self._stop)


class _Stopping:
    def __init__(self, tracker: Any, count: int, stop: Callable[[], None]) -> None:
        self._tracker, self._count, self._stop = tracker, count, stop

    def advance(self, count: int) -> None:
        self._tracker.advance(count)

    def at(self, done: int) -> None:
        self._tracker.at(done)
        if done >= self._count:
            self._count = sys.maxsize
            self._stop()


def _interrupt() -> None:
    raise KeyboardInterrupt


def interrupted(source: Source, folder: Path, count: int = 15, **options: Any) -> Path:
    """A run stopped by Ctrl-C after so many queries: its results so far."""
    reporter: Reporter = _StopAfter(count, _interrupt)
    with pytest.raises(KeyboardInterrupt):
        search(source, folder, reporter=reporter, **options)
    return folder.with_name(f".{folder.name}.partial") / RESULTS


def rows(path: Path) -> list[dict[str, Any]]:
    """The complete lines of finished queries."""
    lines = path.read_bytes().splitlines(keepends=True)[1:]
    return [orjson.loads(line) for line in lines if line.endswith(b"\n")]


def test_an_interrupted_run_resumes_and_repeats_no_search(
    sample: Library, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = search(sample, tmp_path / "undisturbed")
    kept = {row["id"]: row["seconds"] for row in rows(interrupted(sample, tmp_path / "run", concurrency=3))}
    assert len(kept) >= 15
    assert f"{len(kept)} of 40 queries are done and kept" in caplog.text
    assert not (tmp_path / "run").exists()
    with caplog.at_level(logging.INFO):
        run = search(sample, tmp_path / "run")
    assert "queries are done already" in caplog.text
    # The same seconds: those queries were not searched again.
    assert kept.items() <= run.seconds.items()
    assert files(tmp_path / "run") == files(tmp_path / "undisturbed")
    assert run.rankings == undisturbed.rankings


def test_the_query_of_a_torn_last_line_is_searched_again(sample: Library, tmp_path: Path) -> None:
    search(sample, tmp_path / "undisturbed")
    results = interrupted(sample, tmp_path / "run")
    results.write_bytes(results.read_bytes()[:-7])
    run = search(sample, tmp_path / "run")
    assert len(run.rankings) == 40
    assert files(tmp_path / "run") == files(tmp_path / "undisturbed")


def test_an_invalid_line_is_an_error(sample: Library, tmp_path: Path) -> None:
    results = interrupted(sample, tmp_path / "run")
    kept = results.read_bytes()
    for line in (b"{}\n", b"no json\n", b'{"id":"x","ids":[],"scores":[],"seconds":1}\n'):
        results.write_bytes(kept + line)
        with pytest.raises(RunDamaged, match="--restart"):
            search(sample, tmp_path / "run")
    assert len(search(sample, tmp_path / "run", restart=True).rankings) == 40


@pytest.mark.slow
def test_a_server_that_dies_keeps_what_is_done(sample: Library, sample_library: Path, tmp_path: Path) -> None:
    search(sample, tmp_path / "undisturbed")
    with serving(sample_library) as (url, process), Client(url, retries=0) as client:

        def die() -> None:
            process.kill()
            process.wait(120)

        with pytest.raises(ServerUnreachable, match=r"of 40 queries are done and kept: the same command"):
            search(client, tmp_path / "run", reporter=_StopAfter(1, die), concurrency=1)
    assert len(rows(tmp_path / ".run.partial" / RESULTS)) == 8
    # The same run goes on in the process: it is the same library.
    search(sample, tmp_path / "run")
    assert files(tmp_path / "run") == files(tmp_path / "undisturbed")


class _Moved(Client):
    """A client behind whose address another library is served from the second batch on."""

    other = ""

    def search_batch(self, requests: Any) -> Any:
        answers = super().search_batch(requests)
        self.base_url = self.other  # type: ignore[misc]  # what a proxy does
        return answers


@pytest.mark.slow
def test_another_library_under_the_run_ends_it(server: str, dense_server: str, tmp_path: Path) -> None:
    with _Moved(server) as client:
        client.other = dense_server
        with pytest.raises(EvaluationError, match="The library changed during the run") as caught:
            search(client, tmp_path / "run", concurrency=1)
    assert "8 of 40 queries are done and kept" in str(caught.value)
    assert not (tmp_path / "run").exists()


# -- existing runs and folders --------------------------------------------------------------------------


def test_a_finished_run_is_returned_as_it_is(
    sample: Library, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = search(sample, tmp_path / "run")
    inode = (tmp_path / "run").stat().st_ino
    with caplog.at_level(logging.INFO):
        assert search(sample, tmp_path / "run") == first
    assert "nothing to search for" in caplog.text
    assert (tmp_path / "run").stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_of_other_settings_is_in_the_way_until_restarted(sample: Library, tmp_path: Path) -> None:
    search(sample, tmp_path / "run")
    other = SearchSettings(mode="sparse", limit=10)
    with pytest.raises(RunExists, match="--restart"):
        search(sample, tmp_path / "run", other)
    assert search(sample, tmp_path / "run", other, restart=True).depth == 10
    assert read_run(tmp_path / "run").depth == 10


def test_an_unfinished_run_of_other_settings_is_in_the_way(sample: Library, tmp_path: Path) -> None:
    results = interrupted(sample, tmp_path / "run")
    kept = results.read_bytes()
    other = SearchSettings(mode="sparse", limit=10)
    with pytest.raises(RunExists, match="unfinished run of other settings"):
        search(sample, tmp_path / "run", other)
    assert results.read_bytes() == kept
    assert search(sample, tmp_path / "run", other, restart=True).depth == 10
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_line_partly_written_to_a_full_disk_is_removed(sample: Library, tmp_path: Path) -> None:
    run = search(sample, tmp_path / "run")
    results = [QueryResult(query.id, run.rankings[query.id], 0.5) for query in run.queries]
    with Checkpoint(tmp_path / "other") as checkpoint:
        checkpoint.open(run.manifest, run.queries)
        checkpoint.append(results[:1])
        with checkpoint.path.open("ab") as file:
            file.write(b'{"id": "no space le' + b"x" * 1_000_000)
        checkpoint.append(results[1:])
    with Checkpoint(tmp_path / "other") as checkpoint:
        checkpoint.open(run.manifest, run.queries)
        assert list(checkpoint.done.values()) == results


def test_two_processes_do_not_make_one_run(sample: Library, tmp_path: Path) -> None:
    with (
        Checkpoint(tmp_path / "run"),
        pytest.raises(EvaluationError, match="Another process is making the run"),
    ):
        search(sample, tmp_path / "run")
    assert len(search(sample, tmp_path / "run").rankings) == 40


# -- what cannot be searched for --------------------------------------------------------------------------


def test_a_stray_parenthesis_in_one_question_ended_the_run(sample: Library, tmp_path: Path) -> None:
    settings = SearchSettings(mode="sparse", syntax="auto")
    queries = questions(
        Query("good", "strings", ()),
        Query("stray", 'Which "strings" and branes )', ()),
        Query("open", "strings AND (branes", ()),
    )
    run = search(sample, tmp_path / "run", settings, queries)
    assert all(run.rankings[name] for name in ("good", "stray", "open"))
    with pytest.raises(InvalidRequest, match="Query 'stray' cannot be searched for"):
        search(sample, tmp_path / "strict", replace(settings, syntax="query"), queries)


def test_an_invalid_query_of_a_batch_is_named(sample: Library, server: str, tmp_path: Path) -> None:
    endless = " ".join(f"word{number}" for number in range(300))
    queries = questions(Query("a", "strings", ()), Query("endless", endless, ()), Query("b", "branes", ()))
    settings = SearchSettings(mode="sparse", engine="fts5")
    with Client(server) as client:
        for source in (sample, client):
            with pytest.raises(InvalidRequest, match="Query 'endless' cannot be searched for"):
                search(source, tmp_path / "run", settings, queries)


def test_a_mode_that_the_library_lacks_is_an_error_before_any_search(sample: Library, tmp_path: Path) -> None:
    assert {SearchSettings(mode=mode).used(sample) for mode in ("sparse", None)} == {("sparse", "bm25")}
    with pytest.raises(UnsupportedMode, match="built without them"):
        SearchSettings(mode="dense").used(sample)
    with pytest.raises(UnsupportedMode):
        search(sample, tmp_path / "run", SearchSettings(mode="hybrid"))
    assert list(tmp_path.iterdir()) == []


def test_settings_that_cannot_be_right() -> None:
    for arguments, sentence in (
        ({"limit": 0}, "limit is 0"),
        ({"limit": 10_001}, "from 1 to 10000"),
        ({"mode": "best"}, "mode is 'best': input should be"),
        ({"mode": "dense", "engine": "bm25"}, "which has no sparse leg"),
        ({"to": "yesterday"}, "'yesterday' is not a valid date"),
        ({"rerank": "tiny", "rerank_depth": 201}, "rerank_depth is 201"),
    ):
        with pytest.raises(InvalidRequest, match=sentence):
            SearchSettings(**arguments)  # type: ignore[arg-type]


def test_arguments_that_cannot_be_right(sample: Library, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="concurrency is 0"):
        search(sample, tmp_path / "run", concurrency=0)
    with pytest.raises(QueryFileError, match="has no queries"):
        search(sample, tmp_path / "run", queries=questions())
    with pytest.raises(InvalidRequest, match="not those of the query set"):
        search(sample, tmp_path / "run", judged=resolve_answers(sample, SAMPLE_QUERIES).queries[1:])
    with pytest.raises(InvalidRequest, match="has no name of its own"):
        search(sample, Path())


def test_a_default_name_is_fit_for_a_file() -> None:
    queries = questions()
    assert default_name(queries, "sparse") == "mine-sparse"
    assert default_name(queries, None) == "mine-best"
    assert default_name(queries, "sparse", "fts5") == "mine-sparse-fts5"
    assert default_name(queries, "hybrid", "bm25", "rrf") == "mine-hybrid-bm25-rrf"
    assert default_name(queries, "sparse", None, "minilm") == "mine-sparse-minilm"
    assert default_name(replace(queries, name="../My queries: ü"), "dense") == "My-queries-dense"
