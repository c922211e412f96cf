"""``eval qa --judge``: a model server decides, and a cassette repeats it."""

from collections.abc import Sequence
from pathlib import Path

import orjson

from scholarbase.errors import ModelError
from tests.conftest import run_cli, succeeded
from tests.extensions.research.llm.model_server import Reply, in_order, model_server

REFERENCE = {"reference_answer": "Intelligence of machines.", "question": "What is AI?"}


def write(folder: Path, answers: Sequence[str]) -> tuple[Path, Path]:
    """The files of predictions and of examples that a judge decides."""
    evaluator = {"eval_func": "eval_reference_answer_with_llm", "eval_kwargs": REFERENCE}
    rows = {
        "predictions": [{"uuid": str(n), "answer": answer} for n, answer in enumerate(answers)],
        "examples": [
            {"uuid": str(n), "question": "What is AI?", "evaluator": evaluator} for n in range(len(answers))
        ],
    }
    for name, lines in rows.items():
        (folder / name).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder / "predictions", folder / "examples"


def test_a_model_judges_and_a_cassette_repeats_it(tmp_path: Path) -> None:
    files = write(tmp_path, ["Thinking machines.", "A fruit."])
    tape = tmp_path / "tape.jsonl"

    def decide(body: dict[str, object]) -> Reply:
        return Reply(f"```\n{'Thinking machines' in str(body['messages'])}\n```")

    command = ["eval", "qa", *files, "--json", "--cassette", tape]
    with model_server(decide) as server:
        judge = f"{server.url}#judge"
        first = succeeded(*command, "--judge", judge, "--record")
        assert len(server.requests) == 2
    again = run_cli(*command, "--judge", judge)
    assert again.stdout == first.stdout
    figures = orjson.loads(first.stdout)
    assert not figures["errors"]
    assert figures["overall"]["measures"]["accuracy"]["mean"] == 0.5


def test_a_wrong_key_ends_the_job(tmp_path: Path) -> None:
    files = write(tmp_path, ["Thinking machines."] * 30)
    with model_server(in_order(Reply(status=401, body=b""))) as server:
        done = run_cli("eval", "qa", *files, "--judge", f"{server.url}#judge")
        # No more than those that were asked at once, none of them a second time.
        assert 1 <= len(server.requests) <= 8
    assert done.returncode == ModelError.exit_code, done.stderr
    assert "SCHOLARBASE_MODEL_API_KEY" in done.stderr
    assert not done.stdout
