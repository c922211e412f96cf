"""The formats of published benchmarks, with real lines of each."""

from pathlib import Path

import pytest

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Answer
from tests.extensions.research.evaluation.formats.test_scholarquest import lines, only

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


# -- LitSearch ------------------------------------------------------------------------------------------


def test_litsearch_rows_are_named_by_their_number(tmp_path: Path) -> None:
    specific = LITSEARCH_LINE | {"specificity": 1, "query_set": "manual_iclr", "corpusids": ["9"]}
    queries = read_queries(lines(tmp_path / "l.jsonl", LITSEARCH_LINE, specific))
    first, second = queries.queries
    assert (first.id, first.intent, first.category) == ("litsearch-0", "inline_acl", "broad")
    assert (second.id, second.intent, second.category) == ("litsearch-1", "manual_iclr", "specific")
    assert first.answers == (Answer("CorpusId:202719327"), Answer("CorpusId:257427629"))
    assert second.answers == (Answer("CorpusId:9"),)


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


# -- all of them ----------------------------------------------------------------------------------------


def test_an_error_lists_the_formats_of_the_core_and_of_extensions(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", {"a": 1})
    known = "ScholarQuest", "ElaipBench", "SciDQA", "AIM-SciQA", "PaSa", "LitSearch", "ScholarGym"
    names = ".*".join(f"{name} [(]" for name in (*known, "evidence"))
    with pytest.raises(QueryFileError, match=f"Known formats: {names}.*BEIR.*TREC.*CSV, TSV or JSON"):
        read_queries(path)
    with pytest.raises(QueryFileError, match="give the metadata of ScholarQuest"):
        read_queries(path, metadata=tmp_path / "nowhere")
