"""``eval qa --judge``: a model server decides, and a cassette repeats it."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.conftest import run_cli
from tests.llm.model_server import Reply, model_server


def test_a_model_judges_and_a_cassette_repeats_it(tmp_path: Path) -> None:
    reference = {"reference_answer": "Intelligence of machines.", "question": "What is AI?"}
    examples = [
        {
            "uuid": str(number),
            "question": "What is AI?",
            "evaluator": {"eval_func": "eval_reference_answer_with_llm", "eval_kwargs": reference},
        }
        for number in range(2)
    ]
    answers = [{"uuid": "0", "answer": "Thinking machines."}, {"uuid": "1", "answer": "A fruit."}]
    for name, rows in (("examples", examples), ("predictions", answers)):
        (tmp_path / name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    tape = tmp_path / "tape.jsonl"

    def decide(body: dict[str, object]) -> Reply:
        return Reply(f"```\n{'Thinking machines' in str(body['messages'])}\n```")

    command = ["eval", "qa", tmp_path / "predictions", tmp_path / "examples", "--json", "--cassette", tape]
    with model_server(decide) as server:
        judge = f"{server.url}#judge"
        first = run_cli(*command, "--judge", judge, "--record")
        assert first.returncode == 0, first.stderr
        assert len(server.requests) == 2
    again = run_cli(*command, "--judge", judge)
    assert again.stdout == first.stdout
    figures = orjson.loads(first.stdout)
    assert not figures["errors"]
    assert figures["overall"]["measures"]["accuracy"]["mean"] == 0.5
