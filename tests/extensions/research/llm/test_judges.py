"""Judges: rubrics as data, malformed verdicts retried once and then recorded as errors, never as zero."""

from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.llm.asking import Malformed
from scholarbase_research.llm.base import Completion, Usage
from scholarbase_research.llm.judges import ModelJudge, parse_reply
from scholarbase_research.llm.rubrics import open_rubric
from tests.extensions.research.llm.model_server import (
    FunctionModel,
    ModelServer,
    Reply,
    in_order,
    model_server,
)

ITEM = {
    "question": "Which papers study $N=4$ super Yang-Mills?",
    "title": "Strings",
    "abstract": "We ${do} things.",
    "metadata": "1998",
}
GOOD = '{"reason": "It says so.", "score": 2}'


def judge_at(server: ModelServer) -> ModelJudge:
    return ModelJudge(server.model(retries=2), open_rubric("relevance-0-2"))


MALFORMED = (
    Reply("I think that this paper is quite relevant."),
    Reply('{"reason": "", "score": 3}'),
    Reply('{"reason": "", "score": true}'),
    Reply('{"reason": "fine"}'),
    Reply('{"reason": "It sa', finish="length"),
    Reply(None),
    Reply("[2]"),
)


@pytest.mark.slow
def test_a_malformed_verdict_is_retried_once_and_then_no_zero() -> None:
    for malformed in MALFORMED:
        with model_server(in_order(malformed, Reply(GOOD))) as server:
            verdict = judge_at(server).judge(ITEM)
        assert (verdict.score, verdict.reason, verdict.error) == (2.0, "It says so.", None)
        assert verdict.usage == Usage(2, 200, 40)  # the malformed reply costs too
        # The second request quotes the reply and says what was wrong.
        assert len(server.requests) == 2
        assert server.requests[1]["messages"][:2] == server.requests[0]["messages"]
        assert "Reply again" in server.requests[1]["messages"][3]["content"]
        with model_server(in_order(malformed)) as server:
            verdict = judge_at(server).judge(ITEM)
        assert verdict.score is None
        assert (verdict.error or "").startswith("The reply ")
        assert verdict.usage.replies == len(server.requests) == 2


def test_an_adjudication_sees_the_earlier_verdicts() -> None:
    with model_server(in_order(Reply(GOOD))) as server:
        judge = judge_at(server)
        first = judge.judge(ITEM)
        again = judge.judge(ITEM, verdicts="a: 1 (unclear)")
    assert "a: 1 (unclear)" in server.requests[1]["messages"][1]["content"]
    assert first.prompt_hash != again.prompt_hash


def test_labels_are_read_strictly() -> None:
    for rubric, reply, score in (
        ("relevance-0-2", '```json\n{"reason": "r", "score": "1"}\n```', 1.0),
        ("relevance-half", '{"reason": "r", "score": 0.5}', 0.5),
        ("relevance-1-10", '{"reason": "It fits.", "score": 10}', 10.0),
    ):
        assert parse_reply(open_rubric(rubric), Completion(reply))[0] == score
    for rubric, reply in (("relevance-half", '{"score": 0.7}'), ("relevance-1-10", '{"score": 0}')):
        with pytest.raises(Malformed):
            parse_reply(open_rubric(rubric), Completion(reply))


def test_aggregation_disagreement_and_grades() -> None:
    by_mean, by_majority = open_rubric("relevance-0-2"), open_rubric("relevance-binary")
    assert by_mean.aggregate([2, 1, 2]) == pytest.approx(5 / 3)
    assert by_majority.aggregate([1, 0, 1]) == 1
    assert by_majority.aggregate([1, 0]) == 0  # tied
    assert by_mean.disagree([2, 1])
    assert not by_mean.disagree([2])
    assert not open_rubric("relevance-1-10").disagree([5, 7])
    assert [by_mean.is_borderline(score) for score in (0.5, 1.0, 1.9, 2.0)] == [False, True, True, False]
    assert [by_mean.grade(score) for score in (0, 0.9, 1, 1.9, 2)] == [0, 0, 1, 1, 2]
    assert [open_rubric("relevance-half").grade(score) for score in (0, 0.5, 1)] == [0, 1, 2]


RUBRIC = """
prompt = "Is $title about $question? Costs $$5."
aggregation = "minimum"
threshold = 1
range = [0, 1]
"""


def test_a_rubric_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(RUBRIC)
    rubric = open_rubric(str(path))
    request = rubric.request(ITEM)
    assert request.messages[0].content == f"Is Strings about {ITEM['question']}? Costs $5."
    assert rubric.aggregate([1, 0, 1]) == 0
    judge = ModelJudge(FunctionModel("fixed", lambda request: '{"score": 1}'), rubric)
    assert judge.judge(ITEM).score == 1


def test_a_wrong_rubric_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for old, new, message in (
        ("threshold = 1", "threshold = 7", "threshold is 7"),
        ("range = [0, 1]", "range = [0, 1]\nweight = 2", "weight"),
        ("range = [0, 1]", "range = [1, 1]", "it has 1 labels"),
        ("range = [0, 1]", "", "either labels or range"),
        ("prompt =", "system =", "prompt"),
        ("range = [0, 1]", "range = [0, 1]\ndisagreement = 0", "disagreement"),
        ("[0, 1]", "[0, 1", "not valid TOML"),
    ):
        path.write_text(RUBRIC.replace(old, new))
        with pytest.raises(InvalidRequest, match=message):
            open_rubric(str(path))
