"""Questions from topics: categories, intents, filters with reasons, duplicates, quotas; a scripted model server."""

import json
from pathlib import Path
from typing import Any

import pytest

from scholarbase_research.construction.questions import read_questions
from tests.conftest import run_cli, succeeded
from tests.extensions.research.llm.model_server import Reply, in_order, model_server

TOPICS = ["graph neural networks", "soil chemistry", "graph neural network", "quantum compilers", "broken"]
TEXTS = {
    "method_capability": "Which papers use {} for molecules?",
    "setting_anchor": "Which papers evaluate {} on small data sets?",
    "claim_comparison": "Which papers claim that {} outperform older approaches?",
    "scope_control": "Which surveys of {} leave out hardware?",
}


def script(body: dict[str, Any]) -> Reply:
    """Two categories for each topic but soil; two questions about compilers have flaws."""
    prompt = body["messages"][0]["content"]
    topic = prompt.partition("Topic: ")[2].partition("\n")[0]
    if prompt.startswith("Which of these"):
        if topic == "broken":
            return Reply("I would say cs.LG.")
        found = {"soil chemistry": ["physics.chem-ph"], "quantum compilers": ["cs.PL"]}.get(
            topic, ["cs.LG", "cs.SI"]
        )
        return Reply(json.dumps({"categories": found}))
    if prompt.startswith("Write one question"):
        topic = topic.partition(" (")[0]
        return Reply(json.dumps({name: text.format(topic) for name, text in TEXTS.items()}))
    verdict = "keep"
    if "quantum" in prompt and "surveys" in prompt:
        verdict = "too narrow"
    if "quantum" in prompt and "claim" in prompt:
        verdict = "not judgeable"
    return Reply(json.dumps({"verdict": verdict, "reason": "So it is."}))


def run(folder: Path, url: str, *options: str) -> dict[str, Any]:
    topics = folder / "topics.txt"
    topics.write_text("\n".join([*TOPICS, "", "Quantum  Compilers"]) + "\n")
    done = succeeded(
        "construct", "queries", topics, "--model", url, "--out", folder / "out", "--json", *options
    )
    manifest: dict[str, Any] = json.loads(done.stdout)
    return manifest


@pytest.mark.slow
def test_questions_of_topics(tmp_path: Path) -> None:
    with model_server(script) as server:
        manifest = run(tmp_path, server.url, "--cosine", "0.85")
        asked = len(server.requests)
        assert run(tmp_path, server.url, "--cosine", "0.85") == manifest
        # Replies are kept, but for those that were malformed.
        again = [body["messages"][0]["content"] for body in server.requests[asked:]]
    assert len(again) == 2
    assert all("Topic: broken\n" in prompt for prompt in again)
    assert (manifest["topics"], manifest["questions"]) == (5, 6)
    assert manifest["reasons"] == {
        "duplicate": 4,
        "no categories": 1,
        "not judgeable": 1,
        "outside computer science": 1,
        "too narrow": 1,
    }
    assert manifest["intents"] == {
        "claim_comparison": 1,
        "method_capability": 2,
        "scope_control": 1,
        "setting_anchor": 2,
    }
    assert manifest["categories"] == {"cs.LG": 4, "cs.PL": 2}
    read = read_questions(tmp_path / "out" / "questions.jsonl").queries
    assert (read[0].id, read[0].intent, read[0].category) == ("Q_000001", "method_capability", "cs.LG")
    assert read[0].text == "Which papers use graph neural networks for molecules?"
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    duplicate = next(one for one in rejected if one["reason"].startswith("duplicate"))
    assert duplicate["reason"].endswith("of: Which papers use graph neural networks for molecules?")
    assert "(cosine 0." in duplicate["reason"]
    # 5 topics, one of them asked twice; 3 with questions; 12 questions.
    assert manifest["usage"]["replies"] == asked == 5 + 1 + 3 + 12


@pytest.mark.slow
def test_malformed_replies_gave_no_questions_without_an_error_and_were_final(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text("graph neural networks\nquantum compilers\n")
    command = ["construct", "queries", tmp_path / "topics.txt", "--out", tmp_path / "out", "--model"]
    with model_server(in_order(Reply("I would say cs.LG."))) as server:
        for requests in (4, 8):
            done = run_cli(*command, server.url)
            assert done.returncode == 26
            assert "the replies to 2 requests were malformed, such as that about 'graph neural" in done.stderr
            assert len(server.requests) == requests
    assert not (tmp_path / "out" / "questions.jsonl").exists()
    with model_server(script) as server:
        done = succeeded(*command, server.url, "--json", "--cosine", "1")
        assert (json.loads(done.stdout)["questions"], len(server.requests)) == (6, 2 + 2 + 8)
        assert run_cli(*command, server.url, "--json", "--cosine", "1").stdout == done.stdout
        assert len(server.requests) == 12
    # The last reply to a request counts, offline too.
    tape = ["--cassette", tmp_path / "out" / "replies.jsonl", "--json", "--cosine", "1"]
    assert run_cli(*command, "http://127.0.0.1:1/v1#scripted", *tape).stdout == done.stdout
