"""Scores of a small file of answers, counted by hand, by ``eval qa`` and in Python."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import QueryFileError, RunMismatch
from scholarbase_research.evaluation.qa.examples import (
    Prediction,
    Predictions,
    read_examples,
    read_predictions,
)
from scholarbase_research.evaluation.qa.scoring import Scores, score
from tests import tables
from tests.conftest import ROOT, json_lines, run_cli, succeeded
from tests.extensions.research.llm.model_server import FunctionModel

CASES = ROOT.parent / "shared" / "cases"


def function(name: str, arguments: dict[str, Any], *tags: str) -> dict[str, Any]:
    return {"question": "Q?", "tags": list(tags), "evaluator": {"eval_func": name, "eval_kwargs": arguments}}


EXAMPLES: list[dict[str, Any]] = tables.rows("qa-examples")
PREDICTIONS: list[dict[str, Any]] = tables.rows("qa-predictions")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return json_lines(tmp_path / "predictions.jsonl", PREDICTIONS), json_lines(
        tmp_path / "examples.jsonl", EXAMPLES
    )


def scored(files: tuple[Path, Path], **options: Any) -> Scores:
    predictions, examples = files
    return score(read_examples(examples), read_predictions(predictions), **options)


def counts(scores: Scores, dimension: str) -> dict[str, tuple[int, int, int, int, float | None]]:
    """Label to examples, missing, unreadable, errors and mean accuracy."""
    return {
        group.label: (
            *(group.n, group.missing, group.unreadable, group.errors),
            group.values["accuracy"].mean if "accuracy" in group.values else None,
        )
        for group in scores.groups
        if group.dimension == dimension
    }


def test_groups_are_counted_as_by_hand(files: tuple[Path, Path]) -> None:
    scores = scored(files)
    assert counts(scores, "type") == {
        "single": (3, 0, 0, 1, 0.5),
        "retrieval": (1, 1, 0, 0, 0.0),
        "SA-MCQ": (1, 0, 0, 0, 1.0),
        "MA-MCQ": (2, 0, 1, 0, 0.0),
    }
    assert counts(scores, "element") == {
        "table": (1, 0, 0, 0, 1.0),
        "text": (2, 1, 0, 0, 0.0),
        "image": (1, 0, 0, 1, None),
    }
    assert counts(scores, "evaluation")["subjective"] == (1, 0, 0, 1, None)
    assert counts(scores, "difficulty") == {"Easy": (1, 0, 0, 0, 1.0), "Hard": (2, 0, 1, 0, 0.0)}
    assert counts(scores, "discipline") == {"NLP": (2, 0, 0, 0, 0.5), "CV": (1, 0, 1, 0, 0.0)}
    overall = scores.overall
    assert (overall.n, overall.missing, overall.unreadable, overall.errors) == (9, 2, 1, 1)
    # 2 of 6: e1 and c1 of e1, e2, e3, c1, c2, c3.
    assert overall.values["accuracy"].mean == pytest.approx(2 / 6)
    # Without articles: cat sat on mat, cat is on mat. The other text has no answer.
    assert overall.values["token_f1"].mean == pytest.approx(0.75 / 2)
    assert overall.values["rouge_2"].mean == pytest.approx(0.6 / 2)
    assert overall.values["evidence_f1"].mean == pytest.approx(0.5)


def test_a_missing_judge_is_an_error_and_not_a_zero(files: tuple[Path, Path]) -> None:
    scores = scored(files)
    assert scores.errors.keys() == {"e4"}
    assert "needs a judge" in scores.errors["e4"]
    assert "1 examples could not be scored, and are left out of the means." in scores.notes
    judged = scored(files, judge=FunctionModel("judge", lambda request: "```txt\nTrue\n```"))
    assert not judged.errors
    assert counts(judged, "type")["single"] == (3, 0, 0, 0, pytest.approx(2 / 3))


def test_the_command_prints_and_writes_the_scores(files: tuple[Path, Path], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    done = succeeded("eval", "qa", *files, "--json", "--rows", rows)
    figures = json.loads(done.stdout)
    assert figures["overall"]["measures"]["accuracy"] == {
        "mean": pytest.approx(1 / 3),
        "low": 0.0,
        "high": pytest.approx(2 / 3, abs=0.2),
        "n": 6,
    }
    assert list(figures["errors"]) == ["e4"]
    written = {row["id"]: row for row in map(json.loads, rows.read_text().splitlines())}
    assert written["e1"] == {"id": "e1", "status": "scored", "accuracy": 1.0}
    assert written["c3"] == {"id": "c3", "status": "unreadable", "accuracy": 0.0}
    assert written["e4"]["status"] == "error"
    assert "accuracy" not in written["e4"]
    assert written["t2"]["status"] == "missing"
    shown = run_cli("eval", "qa", *files).stdout
    for text in (
        "retrieval",
        "discipline",
        "rouge_l",
        "needs a judge",
        "2 examples have no predicted answer",
    ):
        assert text in shown


def test_predictions_of_other_examples_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    json_lines(files[0], [*PREDICTIONS, {"id": "e9", "answer": "x"}])
    with pytest.raises(RunMismatch, match=r"1 of 9 .* such as 'e9'"):
        scored(files)
    done = run_cli("eval", "qa", *files)
    assert done.returncode != 0
    assert "e9" in done.stderr


def test_invalid_lines_are_refused_with_their_place(tmp_path: Path) -> None:
    for row, message in (
        ({"id": "x", "evaluator": {"eval_func": "eval_magic"}}, "must have eval_func and eval_kwargs"),
        ({"id": "x", "options": ["a"], "answer": "the first"}, "must name the right options"),
        ({"id": "x", "question": "?"}, "it has no answer or answers"),
        ({"answer": "x"}, "it has no uuid or id"),
        ({"id": "x", "answer": "y", "tags": "text"}, "must be a list of texts"),
    ):
        path = json_lines(tmp_path / "examples.jsonl", [EXAMPLES[0], row])
        with pytest.raises(QueryFileError, match=rf"line 2: .*{message}"):
            read_examples(path)
        skipped = read_examples(path, skip_broken=True)
        assert len(skipped.examples) == 1
        assert "1 broken line was left out" in skipped.notes[0]
    for row, message in (
        ({"id": "e1", "answer": 1}, "the id 'e1' is also the id of line 1"),
        ({"id": "e2", "answer": 1, "pred": 2}, "give one of them"),
    ):
        with pytest.raises(QueryFileError, match=rf"line 2: .*{message}"):
            read_predictions(json_lines(tmp_path / "p.jsonl", [PREDICTIONS[0], row]))


def test_an_unknown_function_scores_0_and_stays_in_the_mean(files: tuple[Path, Path], tmp_path: Path) -> None:
    """AirQA's mean is over all of its examples: one that is left out would raise it."""
    json_lines(files[1], [EXAMPLES[0], {"uuid": "e2", **function("eval_magic", {"gold": "RoBERTa"}, "text")}])
    json_lines(files[0], PREDICTIONS[:2])
    rows = tmp_path / "rows.jsonl"
    done = succeeded("eval", "qa", *files, "--json", "--rows", rows)
    figures = json.loads(done.stdout)
    assert (figures["overall"]["measures"]["accuracy"]["mean"], figures["errors"]) == (0.5, {})
    [note] = figures["notes"]
    assert "1 example has an evaluator that cannot be applied, and scores 0. e2: Unknown" in note
    assert "Unknown evaluation function" in json.loads(rows.read_text().splitlines()[1])["error"]


def test_every_form_of_airqas_file_is_scored() -> None:
    """The forms of the 553 examples, with their gold values as answers and a judge that agrees with everything."""
    path = CASES / "airqa.jsonl"
    if not path.exists():
        pytest.skip("needs the shared cases beside the checkout")
    expected = json.loads((CASES / "expected.json").read_text())["airqa.jsonl"]
    answers = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        arguments = row["evaluator"]["eval_kwargs"]
        parts = arguments.get("eval_kwargs_list")
        answers[row["uuid"]] = _gold(arguments) if parts is None else [_gold(part) for part in parts]
    found = read_examples(path)
    assert len(found.examples) == expected["loaded"] == expected["examples"] == 40
    predictions = Predictions("gold", {name: Prediction(name, one) for name, one in answers.items()}, ())
    scores = score(found, predictions, judge=FunctionModel("judge", lambda request: "True"))
    assert not scores.errors
    # The misspelt argument.
    [wrong] = [row for row in scores.rows if row.values["accuracy"] == 0]
    assert "Is 'fomulas' meant?" in str(wrong.error)
    assert scores.overall.values["accuracy"].mean == 39 / 40


def _gold(arguments: Mapping[str, Any]) -> Any:
    gold = arguments.get("gold", arguments.get("reference_answer", "anything"))
    # Any one element of those is right.
    return gold[0] if isinstance(gold, list) and "PICARD" in gold else gold
