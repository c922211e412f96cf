"""Run folders: read by other tools, damaged, interrupted, and the same twice."""

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.errors import RunDamaged, RunExists, RunNotFound
from scholarbase.models.calls import Call
from scholarbase_research.evaluation.run_data import (
    JudgedAnswer,
    JudgedQuery,
    PaperNote,
    RankedId,
    Run,
    RunManifest,
)
from scholarbase_research.evaluation.runs import (
    MANIFEST,
    PAPERS,
    QRELS,
    QUERIES,
    RUN,
    SECONDS,
    read_run,
    strictly_decreasing,
    token,
    write_run,
)

MANIFEST_OF_ALL = RunManifest(
    name="bm25 100%",
    kind="search",
    snapshot="2278f2f4c557077c78aa61bffe17218f",
    papers=3,
    version="0.1.0",
    queries={"name": "three", "format": "jsonl", "sha256": "0" * 64, "count": 3, "notes": []},
    search={"mode": "sparse", "limit": 100},
    answers={"given": 3, "by_id": 2, "by_title": 0, "absent": 1},
    command="scholarbase eval run three.jsonl",
)
QUERIES_OF_ALL = (
    JudgedQuery(
        "q 1",
        "graphs?",
        (JudgedAnswer("arXiv:1706.03762", "id"), JudgedAnswer("10.1000/a b", "absent", 2)),
        intent="survey",
        category="cs.CL",
        date="2023-06",
        pool=("arXiv:1706.03762",),
    ),
    JudgedQuery("ü%20", "nothing found", (JudgedAnswer("CorpusId:7", "title", 0),)),
    JudgedQuery("q3", "no answers", ()),
)
RUN_OF_ALL = Run(
    MANIFEST_OF_ALL,
    QUERIES_OF_ALL,
    {
        "q 1": (
            RankedId("arXiv:1706.03762", 0.5),
            RankedId("CorpusId:7", 0.5),
            RankedId("10.1000/a b", 0.1),
        ),
        "ü%20": (),
        "q3": (RankedId("CorpusId:7", 21.25),),
    },
    {"CorpusId:7": PaperNote("Seven", None), "arXiv:1706.03762": PaperNote(None, 2017)},
    {"q 1": 0.25, "ü%20": 0.5, "q3": 0.125},
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    written = write_run(tmp_path / "run", RUN_OF_ALL)
    assert read_run(tmp_path / "run") == written
    assert written.queries == RUN_OF_ALL.queries
    assert written.papers == RUN_OF_ALL.papers
    assert {q: [r.id for r in ranking] for q, ranking in written.rankings.items()} == {
        "q 1": ["arXiv:1706.03762", "CorpusId:7", "10.1000/a b"],
        "ü%20": [],
        "q3": ["CorpusId:7"],
    }


def test_calls_of_a_trajectory_are_read_back(tmp_path: Path) -> None:
    calls = (
        Call("q 1", 1, "search", "search", {"q": "graphs"}, ("CorpusId:7",), 1, None, 0.5, 12),
        Call("q 1", 2, "expand", "expand", {}, (), 2, 1, error="No paper."),
    )
    run = replace(RUN_OF_ALL, manifest=replace(MANIFEST_OF_ALL, kind="trajectory", search=None), calls=calls)
    write_run(tmp_path / "run", run)
    assert read_run(tmp_path / "run").calls == calls


def test_a_run_written_twice_is_the_same(tmp_path: Path) -> None:
    write_run(tmp_path / "a", RUN_OF_ALL)
    write_run(tmp_path / "b", replace(RUN_OF_ALL, seconds={"q 1": 9.0, "ü%20": 9.0, "q3": 9.0}))
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {MANIFEST, RUN, QRELS, QUERIES, PAPERS, SECONDS}
    for name in names - {SECONDS}:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_pytrec_evals_own_parsers_read_the_files_and_see_the_ranking(tmp_path: Path) -> None:
    write_run(tmp_path / "run", RUN_OF_ALL)
    with gzip.open(tmp_path / "run" / RUN, "rt") as lines:
        run = pytrec_eval.parse_run(lines)
    with gzip.open(tmp_path / "run" / QRELS, "rt") as lines:
        qrels = pytrec_eval.parse_qrel(lines)
    assert qrels == {
        "q%201": {"arXiv:1706.03762": 1, "10.1000/a%20b": 2},
        "%C3%BC%2520": {"CorpusId:7": 0},
    }
    assert sorted(run["q%201"], key=run["q%201"].__getitem__, reverse=True) == [
        "arXiv:1706.03762",
        "CorpusId:7",
        "10.1000/a%20b",
    ]
    # By hand: the answers are at ranks 1 and 3, so the average precision is (1/1 + 2/3) / 2. Were the tie at the
    # top broken by id, as trec_eval does, the first answer would come second.
    [values] = (
        v for q, v in pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run).items() if q == "q%201"
    )
    assert values["map"] == pytest.approx((1 + 2 / 3) / 2)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from([1.0, 1.0 + 1e-9, 0.5, 0.0, -0.0, -3.5, 1e-40, 16384.001]) | st.floats(-100, 100)
    )
)
def test_scores_decrease_strictly_as_32_bit_floats(raw_scores: list[float]) -> None:
    scores = sorted(raw_scores, reverse=True)
    falling = strictly_decreasing(scores)
    single = np.asarray(falling, np.float32)
    assert (np.diff(single) < 0).all()
    assert strictly_decreasing(falling) == falling
    # No further from what they were than the steps of the ties before them, each a rounding of 32 bits.
    for at, (score, fallen) in enumerate(zip(scores, falling, strict=True)):
        assert fallen == pytest.approx(score, rel=(at + 1) * 2**-22, abs=(at + 1) * 1e-44)


def test_any_text_is_one_field_of_a_trec_file(tmp_path: Path) -> None:
    texts = ("a b", "a\tb\n", "100%", "%41", "日本", "\u00a0", "plain:1/2", "a\u2028b")
    assert all(token(text).isascii() and token(text).split() == [token(text)] for text in texts)
    queries = tuple(JudgedQuery(text, "?", (JudgedAnswer(text, "absent"),)) for text in texts)
    rankings = {text: (RankedId(text, 1.0),) for text in texts}
    run = replace(RUN_OF_ALL, queries=queries, rankings=rankings, papers={}, seconds={})
    assert read_run_after(tmp_path, run).rankings == rankings


def read_run_after(folder: Path, run: Run) -> Run:
    write_run(folder / "run", run)
    return read_run(folder / "run")


def test_the_error_of_a_missing_run_has_the_command_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="scholarbase eval run"):
        read_run(tmp_path / "none")


def test_changed_and_missing_files_are_seen(tmp_path: Path) -> None:
    for name in (RUN, QRELS, QUERIES, PAPERS):
        write_run(tmp_path / "run", RUN_OF_ALL)
        path = tmp_path / "run" / name
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"\n"))
        with pytest.raises(RunDamaged, match=name):
            read_run(tmp_path / "run")
        path.unlink()
        with pytest.raises(RunDamaged, match=f"The file {name} of the run"):
            read_run(tmp_path / "run")


def test_files_with_values_of_other_types_ended_in_a_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for name, row in (
        (QUERIES, {"id": 5, "text": "a", "answers": []}),
        (QUERIES, {"id": "a", "text": "a", "answers": [{"paper_id": "a", "found": "never"}]}),
        (QUERIES, {"id": "a", "text": "a", "answers": [{"paper_id": "a", "found": "id", "grade": 10**12}]}),
        (PAPERS, {"id": "a", "title": 5, "year": None}),
        (PAPERS, [[[]]]),
        (RUN, "q3 Q0 a 1 high tag"),
        (MANIFEST, {"files": 5}),
        (MANIFEST, {"queries": {"name": 5}}),
        (SECONDS, {"q 1": "soon"}),
    ):
        write_run(folder, RUN_OF_ALL)
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if name == MANIFEST:
            manifest |= row
        else:
            text = row if isinstance(row, str) else json.dumps(row)
            content = text.encode() if name == SECONDS else gzip.compress(f"{text}\n".encode())
            (folder / name).write_bytes(content)
            manifest["files"] |= {name: hashlib.sha256(content).hexdigest()} if name != SECONDS else {}
        (folder / MANIFEST).write_text(json.dumps(manifest))
        with pytest.raises(RunDamaged, match=r"cannot be read|is not the manifest"):
            read_run(folder)


def test_a_run_of_another_format_is_not_read_as_this_one(tmp_path: Path) -> None:
    write_run(tmp_path / "run", RUN_OF_ALL)
    manifest = (tmp_path / "run" / MANIFEST).read_bytes()
    (tmp_path / "run" / MANIFEST).write_bytes(manifest.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(RunDamaged, match="has format 2"):
        read_run(tmp_path / "run")


def test_a_folder_of_runs_names_them(tmp_path: Path) -> None:
    for name in ("sparse", "dense"):
        write_run(tmp_path / "runs" / name, RUN_OF_ALL)
    with pytest.raises(RunNotFound, match=r"but below it: give .*dense, one of dense, sparse\."):
        read_run(tmp_path / "runs")


def test_a_folder_that_is_not_a_run_is_never_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "chapter-1.tex").write_text("years of work")
    with pytest.raises(RunExists, match="is not a run"):
        write_run(mine, RUN_OF_ALL)
    assert (mine / "chapter-1.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("a file")
    with pytest.raises(RunExists, match="is not a run"):
        write_run(tmp_path / "file", RUN_OF_ALL)


def test_a_report_that_was_written_into_a_run_is_not_lost_with_it(tmp_path: Path) -> None:
    write_run(tmp_path / "run", RUN_OF_ALL)
    (tmp_path / "run" / "report").mkdir()
    with pytest.raises(RunExists, match="holds report"):
        write_run(tmp_path / "run", RUN_OF_ALL)
    assert read_run(tmp_path / "run").name == "bm25 100%"
    assert (tmp_path / "run" / "report").is_dir()


def test_a_run_whose_writing_was_killed_is_written_again(tmp_path: Path) -> None:
    write_run(tmp_path / "run", RUN_OF_ALL)
    (tmp_path / "run" / MANIFEST).unlink()
    (tmp_path / "run" / f".{MANIFEST}.0123abcd.tmp").touch()  # it was not a run any more
    with pytest.raises(RunNotFound):
        read_run(tmp_path / "run")
    assert read_run_after(tmp_path, RUN_OF_ALL).name == "bm25 100%"


def test_identity_is_of_what_decides_the_results() -> None:
    same = replace(MANIFEST_OF_ALL, command="another", name="another", files={RUN: "0"})
    assert same.identity == MANIFEST_OF_ALL.identity
    others = (
        replace(MANIFEST_OF_ALL, snapshot="0"),
        replace(MANIFEST_OF_ALL, search={"mode": "dense", "limit": 100}),
        replace(MANIFEST_OF_ALL, version="0.2.0"),
        replace(MANIFEST_OF_ALL, queries=MANIFEST_OF_ALL.queries | {"sha256": "1" * 64}),
        replace(MANIFEST_OF_ALL, answers={"given": 4}),
    )
    assert len({manifest.identity for manifest in (MANIFEST_OF_ALL, *others)}) == 6
