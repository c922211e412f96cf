"""Plain CSV, TSV and JSON, and the error message for each way a file can be broken."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scholarbase import files
from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Answer, Query
from tests import tables

GOOD = {"query_id": "a", "query": "serving language models", "answers": ["2309.06180"]}


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_table_and_json_lines_say_the_same(tmp_path: Path) -> None:
    table = tmp_path / "q.csv"
    table.write_text(
        "id,text,answers,titles,grades,intent,category,date,pool\n"
        'a,"serving, fast",2309.06180;CorpusId:9 | DOI:10.1145/1,One|Two; three|Four,2 0;1,survey,cs.DC,2023-09,'
        "2309.06180 1706.03762\n"
        "b,attention,1706.03762,,,,,,\n"
    )
    rows = [
        {
            "query_id": "a",
            "query": "serving, fast",
            "answers": ["https://arxiv.org/abs/2309.06180v2", "CorpusId:9", "doi:10.1145/1"],
            "titles": ["One", "Two; three", "Four"],
            "grades": [2, 0, 1],
            "intent": "survey",
            "category": "cs.DC",
            "date": "2023-09",
            "pool": ["2309.06180", "1706.03762"],
        },
        {"query_id": "b", "query": "attention", "answers": ["1706.03762"]},
    ]
    queries = read_queries(table)
    assert queries.format == "columns"
    assert queries.queries[0] == Query(
        "a",
        "serving, fast",
        (Answer("arXiv:2309.06180", "One", 2), Answer("CorpusId:9", "Two; three", 0), Answer("DOI:10.1145/1", "Four")),
        "survey",
        "cs.DC",
        "2023-09",
        ("arXiv:2309.06180", "arXiv:1706.03762"),
    )  # fmt: skip
    assert read_queries(written(tmp_path / "q.jsonl", *rows)).sha256 == queries.sha256
    (tmp_path / "q.tsv").write_text("id\ttext\ttitles\nc\twhat\tOne; Two\n")
    assert read_queries(tmp_path / "q.tsv").queries[0].answers == (Answer(None, "One"), Answer(None, "Two"))


def test_a_text_over_two_lines_does_not_shift_the_numbers_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('query_id,query,answers\na,"one\ntwo",2309.06180\nb,"x\ny",\n')
    with pytest.raises(QueryFileError, match=r"line 4: it has no answers"):
        read_queries(path)


BROKEN = [
    *tables.rows("query-lines-broken"),
    ("long text", GOOD | {"query_id": "b", "query": "x" * 10_001}, "query has 10,001 characters: .* 10,000"),
]


def test_a_broken_line_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    for _, line, sentence in BROKEN:
        path = written(tmp_path / "q.jsonl", GOOD, line if isinstance(line, str) else json.dumps(line))
        with pytest.raises(QueryFileError, match=sentence) as caught:
            read_queries(path)
        assert str(path) in str(caught.value)
        assert "--skip-broken" in str(caught.value)
        queries = read_queries(path, skip_broken=True)
        assert [query.id for query in queries.queries] == ["a"]
        assert queries.notes[-1].startswith("1 broken line was left out: line 2: ")


def test_the_number_of_broken_lines_is_reported_with_the_first(tmp_path: Path) -> None:
    rows = [GOOD | {"query_id": str(n)} for n in range(10)]
    path = written(tmp_path / "q.jsonl", *rows, "{", "", "[]", "null", GOOD | {"query": ""})
    with pytest.raises(
        QueryFileError, match=r"4 of 14 lines are broken; the first, line 11: it is not valid JSON"
    ):
        read_queries(path)
    note = read_queries(path, skip_broken=True).notes[0]
    assert note.startswith("4 broken lines were left out: line 11: it is not valid JSON")
    assert note.endswith("line 14: it is null, and must be a JSON object, such as {...}. ...")


WHOLE = [
    *tables.rows("query-files-broken"),
    (
        "one object over several lines",
        json.dumps(GOOD, indent=1),
        "no readable line.* one JSON object per line",
    ),
]


def test_an_invalid_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    for number, (_, content, sentence) in enumerate(WHOLE):
        path.write_text(content)
        with pytest.raises(QueryFileError, match=sentence) as caught:
            read_queries(path, skip_broken=bool(number % 2))
        assert str(path) in str(caught.value)


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    for content, sentence in (
        ("query_id,query,answers\n".encode("utf-16"), "UTF-16"),
        (b"query_id,query,answers\na,caf\xe9,2309.06180\n", "not UTF-8"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x00\x01\x02\x03", "unknown format"),
    ):
        path.write_bytes(content)
        with pytest.raises(QueryFileError, match=sentence):
            read_queries(path)


def test_a_row_with_a_comma_too_many_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("query_id,query,answers\na,serving, fast,2309.06180\nb,x,2309.06180\n")
    with pytest.raises(QueryFileError, match=r"line 2: it has 4 columns, and the header has 3"):
        read_queries(path)


def test_a_line_without_end_is_an_error_and_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 1_000_000)
    path = tmp_path / "q.gz"
    for start in ("query,answers\n", '{"query": "a", "answers": ["2309.06180"]}\n', "[\n"):
        path.write_bytes(gzip.compress(start.encode() + bytes(2_000_000)))
        with pytest.raises(QueryFileError, match=r"q\.gz, line 2 has more than 1,000,000 bytes"):
            read_queries(path)
