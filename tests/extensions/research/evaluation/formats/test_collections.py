"""BEIR and TREC folders: texts in one file, judgements in another."""

import gzip
from pathlib import Path

import pytest

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Answer

TOPICS = """<top>
<num> Number: 301
<title> International Organized
Crime

<desc> Description:
Identify organizations.
</top>

<top>
<num> Number: 302
<title> Topic: Poliomyelitis
<desc> Description: Is it under control?
</top>
"""
XML = """<?xml version="1.0"?>
<topics task="COVIDSearch 2020">
  <topic number="301"><query>International Organized Crime</query><question>who?</question></topic>
  <topic number="302"><query>Poliomyelitis</query></topic>
  <topic number="303">R&amp;D alone</topic>
</topics>
"""
TABS = "301\tInternational Organized Crime\n302\tPoliomyelitis\n"
QRELS = "301 0 arXiv:2309.06180 2\n301 0 1706.03762v5 0\n302 0 CorpusId:9 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "fiction"
    (path / "qrels").mkdir(parents=True)
    (path / "corpus.jsonl").write_text('{"_id": "d1", "title": "t", "text": "x"}\n')
    (path / "queries.jsonl").write_text(
        '{"_id": "1", "text": "one", "metadata": {}}\n{"_id": "2", "text": "two"}\n{"_id": "3", "text": "three"}\n'
    )
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t0\n3\td3\t0\n")
    (path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n2\td1\t1\n")
    return path


def test_scifact_has_300_queries_and_339_judgements(shared_data: Path) -> None:
    queries = read_queries(shared_data / "scifact")
    assert (queries.name, queries.format) == ("scifact", "BEIR")
    assert len(queries.queries) == 300
    assert sum(len(query.answers) for query in queries.queries) == 339
    assert queries.queries[0].answers == (Answer("Doc:31715818"),)
    assert read_queries(shared_data / "scifact" / "queries.jsonl.gz").sha256 == queries.sha256


def test_only_judged_queries_of_the_test_split_are_read(folder: Path) -> None:
    queries = read_queries(folder)
    (query,) = queries.queries
    assert (query.id, query.text) == ("1", "one")
    assert query.answers == (Answer("Doc:d1", None, 1), Answer("Doc:d2", None, 0))
    assert queries.notes == (
        "Files of judgements of other splits, not read: 1",
        "Queries without a judgement, left out: 1",
        "Queries judged without a relevant document, left out: 1",
    )


def test_a_broken_judgement_is_named_and_can_be_left_out(folder: Path) -> None:
    file = folder / "qrels" / "test.tsv"
    good = file.read_text()
    for row, sentence in (
        ("9\td1\t1", r"test.tsv, line 5: it judges the query '9', which has no text"),
        ("1 d1 1", r"test.tsv, line 5: it has 1 columns, and must have query-id, corpus-id, score"),
        ("1\td1\tyes", r"test.tsv, line 5: score contains 'yes'"),
        ("1\t\t1", r"test.tsv, line 5: the query id or the document id is missing"),
    ):
        file.write_text(f"{good}{row}\n")
        with pytest.raises(QueryFileError, match=sentence):
            read_queries(folder)
        queries = read_queries(folder, skip_broken=True)
        assert len(queries.queries) == 1
        assert queries.notes[-1].startswith("1 broken line was left out: test.tsv, line 5")


@pytest.mark.parametrize("topics", [TOPICS, XML, TABS], ids=["classic", "XML", "tabs"])
def test_topics_of_each_form_are_read_alike(tmp_path: Path, topics: str) -> None:
    folder = tmp_path / "robust"
    folder.mkdir()
    (folder / "topics.txt").write_text(topics)
    (folder / "README.md").write_text("Notes on the collection.\n")
    (folder / "judged").write_bytes(gzip.compress(QRELS.encode()))
    queries = read_queries(folder)
    assert read_queries(folder / "topics.txt").sha256 == queries.sha256
    assert (queries.name, queries.format) == ("robust", "TREC")
    assert [(query.id, query.text) for query in queries.queries] == [
        ("301", "International Organized Crime"),
        ("302", "Poliomyelitis"),
    ]
    assert queries.queries[0].answers == (
        Answer("arXiv:2309.06180", None, 2),
        Answer("arXiv:1706.03762", None, 0),
    )
    assert queries.notes == (("Queries without a judgement, left out: 1",) if topics is XML else ())


def test_invalid_topics_are_an_error(tmp_path: Path) -> None:
    for topics, qrels, sentence in (
        (TOPICS, "", r"has no TREC qrels file"),
        ("", QRELS, r"has no TREC topics file"),
        (TOPICS, QRELS + "303 0 CorpusId:9 1\n", r"qrels, line 4: it judges the query '303', which has no text"),
        (TOPICS, QRELS + "302 0 FBIS3-10082 1\n", r"line 4: docid: 'FBIS3-10082' is not a valid .* is Doc:FBIS3"),
        (TOPICS, QRELS + "302 CorpusId:9 1\n", r"qrels, line 4: it has 3 columns, and must have four"),
        (TOPICS[:-8], QRELS, r"has a topic that does not end"),
        (TOPICS.replace("302", "301"), QRELS, r"line 10: the query id '301' is also the id of topics, line 1"),
        (TOPICS.replace("<num> Number: 302", ""), QRELS, r"line 10: the topic's number is empty"),
        (TOPICS.replace("<title> Topic: Polio", "<t> P"), QRELS, r"line 10: the topic's text is empty"),
    ):  # fmt: skip
        (tmp_path / "topics").write_text(topics)
        (tmp_path / "qrels").write_text(qrels)
        with pytest.raises(QueryFileError, match=sentence):
            read_queries(tmp_path)


def test_bare_ids_in_qrels_are_documents_as_in_runs(tmp_path: Path) -> None:
    (tmp_path / "topics").write_text(TOPICS)
    (tmp_path / "qrels").write_text("301 0 FBIS3-10082 1\n301 0 Doc:FT911-3 0\n302 0 4983 1\n")
    queries = read_queries(tmp_path)
    answers = [answer.id for query in queries.queries for answer in query.answers]
    assert answers == ["Doc:FBIS3-10082", "Doc:FT911-3", "Doc:4983"]
    assert queries.notes == ("Ids without a scheme in the qrels, read as those of documents (Doc:): 2",)
