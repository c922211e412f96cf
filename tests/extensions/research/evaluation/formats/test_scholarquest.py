"""ScholarQuest's format, its metadata, and files of any format: compressed, cut short, named after their folder."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Answer, QuerySet
from tests.conftest import SAMPLE, json_lines


def lines(path: Path, *rows: Any) -> Path:
    return json_lines(path, rows)


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


def test_an_arxiv_id_stored_as_a_number_is_repaired(tmp_path: Path) -> None:
    repaired = {"806.1945": "0806.1945", 1108.27: "1108.2700", "1809.0495399999998": "1809.04954"}
    for value, expected in (repaired | {806.1945: "0806.1945", "2309.06180v3": "2309.06180"}).items():
        path = lines(tmp_path / "bench.jsonl", scholarquest(1) | {"answer_arxiv_ids": [value]})
        assert only(read_queries(path)).answers == (Answer(f"arXiv:{expected}"),)


# -- files ----------------------------------------------------------------------------------------------

FIRST, SECOND = scholarquest(1, "2309.06180"), scholarquest(2, "1706.03762")


def test_the_hash_does_not_depend_on_the_packing(tmp_path: Path) -> None:
    plain = lines(tmp_path / "p.jsonl", FIRST, SECOND)
    content = plain.read_bytes()
    (tmp_path / "g").write_bytes(gzip.compress(content))
    (tmp_path / "x.bin").write_bytes(lzma.compress(content))
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n\r\n"))
    (tmp_path / "array.json").write_text(json.dumps([FIRST, SECOND], indent=2))
    hashes = {read_queries(path).sha256 for path in tmp_path.iterdir()}
    assert len(hashes) == 1


def test_a_set_with_a_generic_file_name_is_named_after_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "RealScholarQuery"
    folder.mkdir()
    assert read_queries(lines(folder / "test.jsonl", FIRST)).name == "RealScholarQuery-test"
    assert read_queries(lines(folder / "queries.jsonl", FIRST)).name == "RealScholarQuery"
    assert read_queries(lines(folder / "mine.jsonl.gz", FIRST)).name == "mine"
