"""Rewrites: by rules and by models, and questions with and without answers."""

from pathlib import Path

import pytest

from scholarbase.search.library import Library
from scholarbase_research.construction.questions import read_questions
from scholarbase_research.construction.rewrites import KINDS, ModelRewriter, RuleRewriter
from scholarbase_research.construction.terms import stems
from scholarbase_research.llm.base import Completion, ModelRequest, Usage
from tests.conftest import SAMPLE
from tests.extensions.research.llm.model_server import FunctionModel

QUESTION = "Which papers study black holes using conformal field theory?"


def test_rules_rewrite_without_a_model(sample: Library) -> None:
    found = RuleRewriter(sample).rewrite(QUESTION, 10, None)
    assert found.rewrites[0][1:] == ("original", QUESTION)
    by_kind: dict[str, list[str]] = {}
    for one in found.rewrites[1:]:
        by_kind.setdefault(one.kind, []).append(one.text)
    assert by_kind["method"][0] == "black holes conformal field theory conformal field theory"
    assert by_kind["task"][0] == "black holes conformal field theory black holes"
    assert set(by_kind) == set(KINDS)
    assert len(found.rewrites) == 11
    assert len({one.text.casefold() for one in found.rewrites}) == 11
    assert [one.number for one in found.rewrites] == list(range(11))


def test_every_rewrite_by_rules_has_the_questions_words(sample: Library) -> None:
    """Rewrites of single parts found fewer answers than as many results of the question."""
    for question in (
        QUESTION,
        "How do neural networks translate text without parallel data, for example by cycles?",
    ):
        wanted = stems(question) - stems("which how do for by example")
        for one in RuleRewriter(sample).rewrite(question, 10, None).rewrites[1:]:
            assert wanted <= stems(one.text), one


REPLY = (
    '{"rewrites": [{"kind": "method", "text": "CFT methods"}, {"kind": "task", "text": "black hole entropy"}, '
    '{"kind": "task", "text": "Black  hole entropy"}, {"kind": "broader", "text": "quantum gravity"}]}'
)


def model(*replies: str) -> FunctionModel:
    left = list(replies)

    def complete(request: ModelRequest) -> Completion:
        return Completion(left.pop(0), usage=Usage(1, 50, 5))

    return FunctionModel("rewriter", complete)


def test_a_model_rewrites(sample: Library) -> None:
    found = ModelRewriter(model("Of course!", f"```json\n{REPLY}\n```"), RuleRewriter(sample)).rewrite(
        QUESTION, 10, None
    )
    assert [one[1:] for one in found.rewrites] == [
        ("original", QUESTION),
        ("method", "CFT methods"),
        ("task", "black hole entropy"),
        ("broader", "quantum gravity"),
    ]
    assert (found.origin, found.error, found.usage) == ("rewriter", None, Usage(2, 100, 10))


@pytest.mark.parametrize(
    "reply", ["no", "{}", '{"rewrites": []}', '{"rewrites": [{"kind": "other", "text": "x"}]}']
)
def test_a_model_that_fails_twice_is_noted(sample: Library, reply: str) -> None:
    found = ModelRewriter(model(reply, reply), RuleRewriter(sample)).rewrite(QUESTION, 10, None)
    assert found.origin == "rules"
    assert found.error is not None
    assert found.error.startswith("The reply ")
    assert found.rewrites == RuleRewriter(sample).rewrite(QUESTION, 10, None).rewrites


def test_questions_with_and_without_answers(tmp_path: Path) -> None:
    assert len(read_questions(SAMPLE / "queries.jsonl").queries[0].answers) == 6
    lines = tmp_path / "mine.txt"
    lines.write_text("What is new?\n\nAnd what is old?\n")
    assert [(one.id, one.text, one.answers) for one in read_questions(lines).queries] == [
        ("q1", "What is new?", ()),
        ("q3", "And what is old?", ()),
    ]
    rows = tmp_path / "mine.jsonl"
    rows.write_text(
        '{"query_id": "a", "question": "What?", "date": "2020-05", "category": "method_capability"}\n'
    )
    query = read_questions(rows).queries[0]
    assert (query.id, query.text, query.date, query.intent) == ("a", "What?", "2020-05", "method_capability")
