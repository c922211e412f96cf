"""Imported TREC runs: trec_eval's order, ids of any form. pytrec_eval gives the expected values."""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import pytrec_eval

from scholarbase.errors import QueryFileError
from scholarbase.models.source import Source
from scholarbase.search.library import Library
from scholarbase_research.evaluation.imports import import_run, read_trec
from scholarbase_research.evaluation.queries import Answer, Query, QuerySet
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, Run
from scholarbase_research.evaluation.runs import RUN

ABSENT = "arXiv:2401.99999"


@pytest.fixture
def papers(sample: Library) -> list[str]:
    """Twelve papers of the library."""
    return [hit.paper.id for hit in sample.search("language models", limit=12).results]


def imported(
    source: Source,
    tmp_path: Path,
    text: str | bytes | Path,
    *,
    query_ids: Sequence[str] = ("q1", "q2"),
    answer: str = ABSENT,
    folder: str = "run",
    restart: bool = False,
) -> Run:
    if isinstance(text, Path):
        path = text
    else:
        path = tmp_path / "other.trec"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    queries = QuerySet("questions", "jsonl", tuple(Query(i, i, (Answer(answer),)) for i in query_ids))
    judged = [JudgedQuery(i, i, (JudgedAnswer(answer, "absent"),)) for i in query_ids]
    command = "scholarbase eval import other.trec"
    return import_run(
        source,
        partial(read_trec, path),
        queries,
        judged,
        {"answers": len(judged)},
        tmp_path / folder,
        name="other",
        command=command,
        restart=restart,
    )


def ranked(run: Run, query_id: str = "q1") -> list[str]:
    return [result.id for result in run.rankings[query_id]]


def facts(run: Run) -> dict[str, object]:
    assert run.manifest.search is not None
    return run.manifest.search


def test_results_are_ordered_as_in_trec_eval(sample: Library, tmp_path: Path, papers: list[str]) -> None:
    chance = random.Random(7)
    for _ in range(12):
        # Few different scores; two of them are equal as 32-bit floats.
        scores = {paper_id: chance.choice([1.0, 1.0 + 1e-12, 0.5, -2.0, 1e-3]) for paper_id in papers}
        lines = [
            f"q1 Q0 {paper_id} {chance.randint(1, 99)} {scores[paper_id]!r} tag\n" for paper_id in papers
        ]
        chance.shuffle(lines)
        run = imported(sample, tmp_path, "".join(lines), restart=True)
        expected = {}
        for paper_id in papers:
            measured = pytrec_eval.RelevanceEvaluator({"q1": {paper_id: 1}}, {"recip_rank"}).evaluate(
                {"q1": scores}
            )
            expected[round(1 / measured["q1"]["recip_rank"])] = paper_id
        assert ranked(run) == [expected[rank] for rank in range(1, len(papers) + 1)]


def test_ids_of_any_form_are_found_and_the_best_rank_of_a_paper_counts(
    sample: Library, tmp_path: Path, papers: list[str]
) -> None:
    paper = next(hit.paper for hit in sample.search("string theory", limit=20).results if hit.paper.corpus_id)
    link = f"https://arxiv.org/abs/{paper.id.removeprefix('arXiv:')}v1"
    lines = f"""
        q1 Q0 {papers[0]} 1 3.0 tag
        q1 Q0 {link} 2 2.5 tag
        q1 Q0 {ABSENT}v2 3 2.0 tag
        q1 Q0 CorpusId:{paper.corpus_id} 4 1.0 tag
        q1 Q0 {papers[0]} 5 0.5 tag
    """
    run = imported(sample, tmp_path, lines)
    assert ranked(run) == [papers[0], paper.id, ABSENT]
    assert [result.score for result in run.rankings["q1"]] == [3.0, 2.5, 2.0]
    assert ranked(run, "q2") == []
    counted = {"lines": 5, "duplicates": 2, "papers": 3, "papers_absent": 1, "queries_without_results": 1}
    assert facts(run).items() >= counted.items()


def test_a_written_run_can_be_imported_again(sample: Library, tmp_path: Path, papers: list[str]) -> None:
    """Query ids with white space and percent signs, and ids that contain percent escapes."""
    odd = ["What is 100% of it?", "a%20b"]
    link = "URL:https://example.org/a%20b"
    lines = f"q1 Q0 {papers[0]} 1 2 t\nq1 Q0 {link} 2 1 t\nq2 Q0 {papers[1]} 1 1 t\n"
    lines = lines.replace("q1", odd[0].replace("%", "%25").replace(" ", "%20")).replace("q2", "a%2520b")
    first = imported(sample, tmp_path, lines, query_ids=odd, answer=link)
    assert ranked(first, odd[0]) == [papers[0], link]
    assert ranked(first, odd[1]) == [papers[1]]
    again = imported(sample, tmp_path, tmp_path / "run" / RUN, query_ids=odd, answer=link, folder="again")
    assert again.rankings == first.rankings


def test_results_are_documents_of_a_collection_if_the_answers_are(sample: Library, tmp_path: Path) -> None:
    """BEIR's runs have bare numbers as document ids, which are not valid ids elsewhere."""
    lines = "q1 Q0 4983 1 2 bm25\nq1 Q0 MED-10 2 1 bm25\nq1 Q0 Doc:7 3 0.5 bm25\n"
    run = imported(sample, tmp_path, lines, answer="Doc:31715818")
    assert ranked(run) == ["Doc:4983", "Doc:MED-10", "Doc:7"]
    with pytest.raises(QueryFileError, match=r"line 1: The paper id '4983' is a number without its scheme"):
        imported(sample, tmp_path, lines)


def test_the_error_for_an_invalid_line_has_its_number(sample: Library, tmp_path: Path) -> None:
    for line, message in (
        ("q1 Q0 arXiv:1706.03762 1 0.5", "has 5 fields: a line of a TREC run has six"),
        ("q9 Q0 arXiv:1706.03762 1 0.5 tag", "the query 'q9', which is not in the query set"),
        ("q1 Q0 nonsense 1 0.5 tag", "'nonsense' is not a valid paper id"),
        ("q1 Q0 arXiv:1706.03762 1 high tag", "has the score 'high'"),
        ("q1 Q0 arXiv:1706.03762 1 nan tag", "has the score 'nan'"),
        ("q1 Q0 arXiv:1706.03762 1 1e39 tag", "has the score '1e39'"),
        ("q1 Q0 arXiv:1706.03762 1 1_0 tag", "has the score '1_0'"),
    ):
        with pytest.raises(QueryFileError, match=r"other\.trec, line 2") as caught:
            imported(sample, tmp_path, f"q1 Q0 {ABSENT} 1 1.0 tag\n{line}\n")
        assert message in str(caught.value)
        assert not (tmp_path / "run").exists()
