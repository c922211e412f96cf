"""A construction with a real model server that fails in every way: retried, recorded, never a silent zero."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scholarbase.search.library import Library
from scholarbase_research.construction.job import construct_answers
from scholarbase_research.construction.judging import Panel
from scholarbase_research.construction.process import Setup
from scholarbase_research.llm.base import Price
from scholarbase_research.llm.judges import ModelJudge
from tests.extensions.research.construction.test_job import rows
from tests.extensions.research.construction.toy import RUBRIC, by_title, toy_id, toy_queries, toy_setup
from tests.extensions.research.llm.model_server import Reply, model_server

PROSE = Reply("It is about the same topic, so I would say that it fits.")
FAILURES = {
    "beta reference number3": [PROSE, PROSE],
    "beta reference number4": [Reply('{"reason": "", "score": 7}'), Reply('{"reason": "", "score": -1}')],
    "beta reference number5": [
        Reply('{"reason": "It ', finish="length"),
        Reply('{"reason"', finish="length"),
    ],
    "beta reference partial": [PROSE],
    "alpha beta gamma partial": [Reply(status=429, headers={"Retry-After": "0"}, body=b"")],
    "alpha citing strict": [Reply(silent=True)],
    "gamma second strict": [Reply(body=b'{"choices": [{"message": {"content": "{')],
}
"""What the server sends first for the paper with this title, before a good verdict."""


def script(body: dict[str, Any]) -> Reply:
    prompt = body["messages"][1]["content"]
    title = prompt.partition("Title: ")[2].partition("\n")[0]
    with LOCK:
        SENT[title] += 1
        failures = FAILURES.get(title, [])
        if SENT[title] <= len(failures):
            return failures[SENT[title] - 1]
    score, reason = by_title({"title": title})
    return Reply(f'{{"reason": "{reason}", "score": {score}}}')


LOCK = threading.Lock()
SENT: Counter[str] = Counter()


@pytest.mark.slow
def test_a_model_server_that_fails_in_every_way(toy: Library, tmp_path: Path) -> None:
    SENT.clear()
    with model_server(script) as server:
        panel = Panel(RUBRIC, [ModelJudge(server.model(timeout=2.0, retries=3), RUBRIC)])
        base = toy_setup(toy, panel, citations=5)
        setup = Setup(base.sources, base.rewriter, panel, base.limits, prices={"scripted": Price(1e6, 1e6)})
        figures = construct_answers(toy, toy_queries(), tmp_path, setup)
    decided = {
        paper: found for paper, *found in rows(tmp_path, "SELECT paper, score, decision FROM decisions")
    }
    for name in ("R3", "R4", "R5"):
        assert decided[toy_id(name)] == [None, "unjudged"]
    assert decided[toy_id("R1")] == [1.0, "partial"]
    assert decided[toy_id("P1")] == [1.0, "partial"]
    assert decided[toy_id("C01")] == decided[toy_id("H1")] == decided[toy_id("S1")] == [2.0, "strict"]
    errors = dict(rows(tmp_path, "SELECT paper, error FROM verdicts WHERE error IS NOT NULL"))
    assert set(errors) == {toy_id(name) for name in ("R3", "R4", "R5")}
    assert "not a JSON object" in errors[toy_id("R3")]
    assert "has the score -1, which is not one of 0, 1, 2" in errors[toy_id("R4")]
    assert "was cut at the limit of tokens" in errors[toy_id("R5")]
    # No zero: the only mismatches are papers that the server judged so. Unjudged papers are in no qrels.
    qrels = (tmp_path / "qrels.tsv").read_text()
    assert not any(toy_id(name) in qrels for name in ("R3", "R4", "R5"))
    [judge] = figures["judging"]["judges"]
    assert (judge["errors"], judge["retried"]) == (3, 4)
    # Every reply with a body costs 100 + 20 tokens: one for each verdict, and one more for each that was retried.
    replies = judge["verdicts"] + judge["retried"]
    assert figures["cost"]["total"] == 120.0 * replies
    assert sum(SENT.values()) == replies + 3  # 429, silence and the cut body
