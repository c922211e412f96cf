"""The formats of published benchmarks, with real lines of each."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats import read_queries
from scholarbase.models.queries import Answer, QuerySet
from tests.conftest import SAMPLE

PASA_LINE = {
    "qid": "AutoScholarQuery_train_33550",
    "question": "Which papers treat human motion priors?",
    "answer": ["Expressive Body Capture: 3D Hands, Face, and Body from a Single Image", "HuMoR"],
    "answer_arxiv_id": ["1904.05866", "2105.04668v2"],
    "source_meta": {"published_time": "20240305"},
}
SCHOLARGYM_LINE = {
    "query": "Can you tell me some papers about hybrid architectures in reconstruction-based techniques?",
    "cited_paper": [
        {"arxiv_id": "2009.02040", "title": "Multivariate Time-series Anomaly Detection", "year": 2020},
        {"arxiv_id": "1706.03762", "title": "Attention Is All You Need", "year": 2017},
    ],
    "gt_label": [1, 2],
    "date": "2020-09",
    "source": "PASA_AutoScholar",
    "qid": "AutoScholarQuery_test_0",
    "valid": True,
}
LITSEARCH_LINE = {
    "query_set": "inline_acl",
    "query": "Are there any research papers on methods to compress large-scale language models?",
    "specificity": 0,
    "quality": 2,
    "corpusids": [202719327, 257427629],
}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scholarquest(number: int, *ids: str, **more: Any) -> dict[str, Any]:
    return {
        "query_id": f"BQ_{number:06}",
        "final_query": f"Which papers are about the topic {number}?",
        "answer_arxiv_ids": list(ids),
        "final_answer_count": len(ids),
        "source_dir": "round_1",
    } | more


def only(queries: QuerySet) -> Any:
    (query,) = queries.queries
    return query


# -- ScholarQuest ---------------------------------------------------------------------------------------


def test_the_sample_reads_as_scholarquest() -> None:
    queries = read_queries(SAMPLE / "queries.jsonl")
    assert (queries.name, queries.format, len(queries.queries)) == ("sample", "ScholarQuest", 40)
    first = queries.queries[0]
    assert first.id == "AutoScholarQuery_dev_110"
    assert first.date == "2023-07"
    assert [answer.id for answer in first.answers][:2] == ["arXiv:2204.02311", "arXiv:2205.01068"]


def test_the_shared_questions_have_659_queries_and_1230_answers(shared_data: Path) -> None:
    path = shared_data / "autoscholar" / "queries.jsonl"
    queries = read_queries(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(queries.queries) == len(rows) == 659
    assert sum(len(query.answers) for query in queries.queries) == sum(r["final_answer_count"] for r in rows)


def test_metadata_beside_the_file_gives_intent_and_category(tmp_path: Path) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1, "2309.06180"), scholarquest(2, "1706.03762"))
    described = {
        "query_id": "BQ_000001",
        "final_query": "...",
        "topic_seed": "serving",
        "domain": "cs.DC",
        "category": "setting_anchor",
        "risk_flags": [],
    }
    lines(tmp_path / "query_metadata.jsonl", described, described | {"query_id": "BQ_000777"})
    queries = read_queries(path)
    assert [(query.intent, query.category) for query in queries.queries] == [
        ("setting_anchor", "cs.DC"),
        (None, None),
    ]
    assert queries.notes == (
        "Queries that the metadata words otherwise: 1",
        "Queries that the metadata does not describe: 1",
    )


def test_metadata_may_be_in_another_folder(tmp_path: Path) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1, "2309.06180"))
    facts = tmp_path / "elsewhere.jsonl"
    lines(facts, {"query_id": "BQ_000001", "category": "claim_comparison", "domain": "cs.IR"})
    assert only(read_queries(path, metadata=facts)).intent == "claim_comparison"


def test_missing_metadata_is_reported_in_a_note(tmp_path: Path) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1, "2309.06180"))
    assert "no query_metadata.jsonl beside the file: 1" in read_queries(path).notes[0]
    with pytest.raises(QueryFileError, match=r"No metadata file at .*nowhere"):
        read_queries(path, metadata=tmp_path / "nowhere")


def test_a_broken_line_of_the_metadata_is_an_error(tmp_path: Path) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1, "2309.06180"))
    lines(tmp_path / "query_metadata.jsonl", {"query_id": "BQ_000001", "category": 7}, {"query_id": "BQ_2"})
    with pytest.raises(
        QueryFileError, match=r"query_metadata.jsonl, line 1: category is 7, and must be a text"
    ):
        read_queries(path)
    assert read_queries(path, skip_broken=True).notes[0] == "Broken lines of the metadata, left out: 1"


def test_two_different_descriptions_of_one_query_are_an_error(tmp_path: Path) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1, "2309.06180"))
    once = {"query_id": "BQ_000001", "category": "scope_control", "domain": "cs.IR"}
    lines(tmp_path / "query_metadata.jsonl", once, once)
    assert only(read_queries(path)).intent == "scope_control"
    lines(tmp_path / "query_metadata.jsonl", once, once | {"domain": "cs.CL"})
    with pytest.raises(QueryFileError, match=r"line 2: the query id 'BQ_000001' is described twice"):
        read_queries(path)


def test_the_metadata_is_not_a_query_file(tmp_path: Path) -> None:
    path = lines(tmp_path / "m.jsonl", {"query_id": "BQ_1", "final_query": "q", "topic_seed": "t"})
    with pytest.raises(QueryFileError, match=r"ScholarQuest's metadata, which has no answers"):
        read_queries(path)


def test_metadata_for_another_format_is_an_error(tmp_path: Path) -> None:
    path = lines(tmp_path / "pasa.jsonl", PASA_LINE)
    with pytest.raises(QueryFileError, match=r"in the format PaSa, which has no metadata file"):
        read_queries(path, metadata=path)


def test_a_wrong_count_of_answers_is_reported_in_a_note(tmp_path: Path) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1, "2309.06180", final_answer_count=7))
    assert "Lines whose final_answer_count is not the number of their answers: 1" in read_queries(path).notes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("806.1945", "arXiv:0806.1945"),
        (806.1945, "arXiv:0806.1945"),
        (1108.27, "arXiv:1108.2700"),
        ("1809.0495399999998", "arXiv:1809.04954"),
        ("2309.06180v3", "arXiv:2309.06180"),
        ("https://arxiv.org/abs/hep-th/9901001", "arXiv:hep-th/9901001"),
    ],
)
def test_an_arxiv_id_stored_as_a_number_is_repaired(tmp_path: Path, value: Any, expected: str) -> None:
    path = lines(tmp_path / "bench.jsonl", scholarquest(1) | {"answer_arxiv_ids": [value]})
    assert only(read_queries(path)).answers == (Answer(expected),)


def test_unknown_columns_are_listed_in_a_note(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "b.jsonl", PASA_LINE | {"foo": 1}, PASA_LINE | {"qid": "2", "foo": 2, "bar": None}
    )
    assert read_queries(path).notes == ("2 columns were not read: foo, bar",)


# -- PaSa and SPARBench ---------------------------------------------------------------------------------


def test_pasa_pairs_ids_with_titles_and_reads_the_date(tmp_path: Path) -> None:
    query = only(read_queries(lines(tmp_path / "dev.jsonl", PASA_LINE)))
    assert query.id == "AutoScholarQuery_train_33550"
    assert query.date == "2024-03-05"
    assert query.answers == (
        Answer("arXiv:1904.05866", "Expressive Body Capture: 3D Hands, Face, and Body from a Single Image"),
        Answer("arXiv:2105.04668", "HuMoR"),
    )


def test_pasa_with_more_titles_than_ids_keeps_the_ids(tmp_path: Path) -> None:
    queries = read_queries(lines(tmp_path / "a.jsonl", PASA_LINE | {"answer_arxiv_id": ["1904.05866"]}))
    assert only(queries).answers == (Answer("arXiv:1904.05866"),)
    assert queries.notes == ("Lines with more titles than ids or fewer, whose titles were not read: 1",)


def test_sparbench_answers_without_an_arxiv_id_are_titles(tmp_path: Path) -> None:
    """SPARBench has papers of PubMed and OpenAlex besides those of arXiv, and no qid."""
    line = {"question": "Which?", "answer": ["One", "Two"], "answer_arxiv_id": ["1904.05866", ""]}
    bare = {"question": "What else?", "answer": ["Three"], "answer_arxiv_id": []}
    queries = read_queries(lines(tmp_path / "spar_bench.jsonl", line, bare))
    assert [query.answers for query in queries.queries] == [
        (Answer("arXiv:1904.05866", "One"), Answer(None, "Two")),
        (Answer(None, "Three"),),
    ]
    assert [query.id for query in queries.queries] == ["query-0", "query-1"]
    assert queries.name == "spar_bench"


def test_an_id_of_no_form_falls_back_to_its_title(tmp_path: Path) -> None:
    line = PASA_LINE | {"answer_arxiv_id": ["1904.05866", "not an id"]}
    queries = read_queries(lines(tmp_path / "a.jsonl", line))
    assert only(queries).answers[1] == Answer(None, "HuMoR")
    assert queries.notes == ("Answers whose id has no known form, to be found by their title: 1",)


# -- LitSearch ------------------------------------------------------------------------------------------


def test_litsearch_rows_are_named_by_their_number(tmp_path: Path) -> None:
    specific = LITSEARCH_LINE | {"specificity": 1, "query_set": "manual_iclr", "corpusids": ["9"]}
    queries = read_queries(lines(tmp_path / "l.jsonl", LITSEARCH_LINE, specific))
    first, second = queries.queries
    assert (first.id, first.intent, first.category) == ("litsearch-0", "inline_acl", "broad")
    assert (second.id, second.intent, second.category) == ("litsearch-1", "manual_iclr", "specific")
    assert first.answers == (Answer("CorpusId:202719327"), Answer("CorpusId:257427629"))
    assert second.answers == (Answer("CorpusId:9"),)


def test_litsearch_reads_from_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "full-00000-of-00001"
    parquet.write_table(pa.Table.from_pylist([LITSEARCH_LINE]), path)
    as_json = read_queries(lines(tmp_path / "l.jsonl", LITSEARCH_LINE))
    assert read_queries(path).sha256 == as_json.sha256
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(QueryFileError, match="not a complete Parquet file"):
        read_queries(path)


def test_an_invalid_specificity_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    for value in ([1], 2, True, "broad"):
        path = lines(tmp_path / "l.jsonl", LITSEARCH_LINE | {"specificity": value})
        with pytest.raises(QueryFileError, match=r"line 1: specificity is .*, and must be 0 for broad or 1"):
            read_queries(path)


# -- ScholarGym -----------------------------------------------------------------------------------------


def test_scholargym_papers_with_label_1_are_answers_and_others_are_judged(tmp_path: Path) -> None:
    invalid = SCHOLARGYM_LINE | {"qid": "b", "valid": False}
    unanswered = SCHOLARGYM_LINE | {"qid": "c", "gt_label": [0, 0]}
    queries = read_queries(lines(tmp_path / "bench.jsonl", SCHOLARGYM_LINE, invalid, unanswered))
    query = only(queries)
    assert [(answer.id, answer.grade) for answer in query.answers] == [
        ("arXiv:2009.02040", 1),
        ("arXiv:1706.03762", 0),
    ]
    assert (query.id, query.category, query.date) == (
        "AutoScholarQuery_test_0",
        "PASA_AutoScholar",
        "2020-09",
    )
    assert queries.notes == (
        "Queries that the file marks as not valid, left out: 1",
        "Queries without a paper of label 1, left out: 1",
    )


def test_scholargym_in_its_second_form(tmp_path: Path) -> None:
    row = {"query_id": "q2", "query": "readme schema", "gt_arxiv_ids": ["2101.00002"]}
    queries = read_queries(lines(tmp_path / "g.jsonl", row))
    assert (queries.format, only(queries).answers) == ("ScholarGym", (Answer("arXiv:2101.00002"),))


def test_scholargym_labels_must_be_as_many_as_papers(tmp_path: Path) -> None:
    path = lines(tmp_path / "g.jsonl", SCHOLARGYM_LINE | {"gt_label": [1]})
    with pytest.raises(QueryFileError, match="1 labels for the 2 papers"):
        read_queries(path)


# -- files ----------------------------------------------------------------------------------------------


def test_the_hash_does_not_depend_on_the_packing(tmp_path: Path) -> None:
    plain = lines(tmp_path / "p.jsonl", PASA_LINE, PASA_LINE | {"qid": "2"})
    content = plain.read_bytes()
    (tmp_path / "g").write_bytes(gzip.compress(content))
    (tmp_path / "x.bin").write_bytes(lzma.compress(content))
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n\r\n"))
    (tmp_path / "array.json").write_text(json.dumps([PASA_LINE, PASA_LINE | {"qid": "2"}], indent=2))
    hashes = {read_queries(path).sha256 for path in tmp_path.iterdir()}
    assert len(hashes) == 1


def test_a_truncated_gzip_is_an_error(tmp_path: Path) -> None:
    rows = [scholarquest(n, f"2309.{n:05}") for n in range(1, 500)]
    packed = gzip.compress(lines(tmp_path / "p.jsonl", *rows).read_bytes())
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    for skip_broken in (False, True):
        with pytest.raises(QueryFileError, match=r"incomplete or damaged: its compressed stream breaks off"):
            read_queries(path, skip_broken=skip_broken)


def test_a_set_with_a_generic_file_name_is_named_after_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "RealScholarQuery"
    folder.mkdir()
    assert read_queries(lines(folder / "test.jsonl", PASA_LINE)).name == "RealScholarQuery-test"
    assert read_queries(lines(folder / "queries.jsonl", PASA_LINE)).name == "RealScholarQuery"
    assert read_queries(lines(folder / "mine.jsonl.gz", PASA_LINE)).name == "mine"
