"""Judges of claims: a language model behind OpenAI's interface, and a cross-encoder, where the user has one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scholarbase import Client, Library
from scholarbase.errors import InvalidRequest, ModelError, RerankerError
from scholarbase.rerankers.base import Scores
from scholarbase.settings import load_settings
from scholarbase_research.claims import check_claim, check_draft
from tests.conftest import run_cli, serving_in_thread
from tests.extensions.research.llm.model_server import ModelServer, Reply, in_order, model_server

PAPER = "arXiv:hep-th/9301068"
CLAIM = "Two dimensional QCD is a string theory."


def reply(label: str, sentence: Any = 1, reason: str = "It says so.") -> Reply:
    return Reply(json.dumps({"label": label, "sentence": sentence, "reason": reason}))


@contextmanager
def judged_by(sample_library: Path, *replies: Reply) -> Iterator[tuple[Library, ModelServer]]:
    """The sample with a language model that replies so."""
    with model_server(in_order(*replies)) as server:
        settings = load_settings(model=server.url, model_api_key="secret-key")
        with Library.open(sample_library, encoder="none", settings=settings) as library:
            yield library, server


class Agreeing:
    """A cross-encoder that gives one score to all sentences."""

    name, fingerprint = "agreeing", None

    def __init__(self, score: float) -> None:
        self._score = score

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        if self._score < 0:
            raise RerankerError("The model failed.")
        return np.full(len(texts), self._score, dtype=np.float32)

    def close(self) -> None:
        pass


def test_a_language_model_gives_the_label(sample_library: Path) -> None:
    with judged_by(sample_library, reply("supported", 2)) as (library, server):
        found = check_claim(library, CLAIM, PAPER, judge="model")
        assert (found.label, found.reason) == ("supported", "It says so.")
        judged = found.to_dict()["judged"]
        assert judged == {"judge": "scripted", "label": "supported", "reason": "It says so.", "sentence": 2}
        assert server.keys == ["Bearer secret-key"]
        [request] = server.requests
        prompt = request["messages"][0]["content"]
        assert CLAIM in prompt
        assert f"2. {found.sentences[1].text}" in prompt
        assert request["response_format"]["json_schema"]["schema"]["properties"]["label"]["enum"]
        with serving_in_thread(library) as url, Client(url) as client:
            assert client.check_claim(CLAIM, PAPER, judge="model") == found.to_dict()
        assert "judged" not in check_claim(library, CLAIM, PAPER).to_dict()


def test_a_label_without_its_sentence_is_asked_for_again(sample_library: Path) -> None:
    """A verdict must name what decides; the comparison of words remains if the second reply is malformed too."""
    with judged_by(sample_library, reply("contradicts", 0), reply("contradicts", 1)) as (library, server):
        assert check_claim(library, CLAIM, PAPER, judge="model").label == "contradicts"
        assert len(server.requests) == 2
    for bad in (reply("false"), reply("supported", 9), reply("supported", True), Reply("no JSON")):
        with judged_by(sample_library, bad) as (library, server):
            found = check_claim(library, CLAIM, PAPER, judge="model")
            by_words = check_claim(library, CLAIM, PAPER)
            assert (found.label, found.reason) == (by_words.label, by_words.reason)
            assert found.to_dict()["judged"]["label"] is None


def test_a_paper_that_is_not_held_is_not_judged(sample_library: Path) -> None:
    with judged_by(sample_library, reply("contradicts")) as (library, server):
        found = check_claim(library, CLAIM, "10.1000/of.no.paper", judge="model")
        assert (found.label, server.requests) == ("not_found", [])


def test_a_model_that_fails_is_an_error(sample_library: Path) -> None:
    with judged_by(sample_library, Reply(status=401)) as (library, _):
        with pytest.raises(ModelError):
            check_claim(library, CLAIM, PAPER, judge="model")
        with serving_in_thread(library) as url:
            body = {"claim": CLAIM, "reference": PAPER, "judge": "model"}
            response = httpx.post(f"{url}/v1/claims/check", json=body)
        assert response.status_code >= 500
        assert "secret-key" not in response.text


def test_a_draft_is_judged_by_several_requests_at_once(sample_library: Path) -> None:
    draft = " ".join(f"Sentence number {n} of the draft says something [@{PAPER}]." for n in range(1, 7))
    with judged_by(sample_library, reply("not_found", 0, "No sentence says it.")) as (library, server):
        results = check_draft(library, draft, judge="model").citations
    assert [one.claim for one in results] == [
        f"Sentence number {n} of the draft says something." for n in range(1, 7)
    ]
    assert {one.reason for one in results} == {"No sentence says it."}
    assert len(server.requests) == 6


@pytest.mark.parametrize(("score", "label"), [(0.9, "supported"), (0.1, "not_found")])
def test_a_cross_encoder_gives_the_label(sample_library: Path, score: float, label: str) -> None:
    with Library.open(sample_library, encoder="none", rerankers={"nli": Agreeing(score)}) as library:
        found = check_claim(library, CLAIM, PAPER, judge="nli")
        assert found.label == label
        assert found.to_dict()["judged"]["score"] == score
        number = check_claim(library, "Two dimensional QCD has a coupling of 1/77.", PAPER, judge="nli")
        assert (number.missing_numbers, number.label) == (("77",), "not_found")


def test_a_cross_encoder_that_fails_is_an_error(sample_library: Path) -> None:
    with (
        Library.open(sample_library, encoder="none", rerankers={"nli": Agreeing(-1)}) as library,
        pytest.raises(RerankerError),
    ):
        check_claim(library, CLAIM, PAPER, judge="nli")


def test_without_a_judge_the_request_is_refused(
    sample: Library, sample_library: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match="set SCHOLARBASE_MODEL to its URL and name"):
        check_claim(sample, CLAIM, PAPER, judge="model")
    with pytest.raises(InvalidRequest, match="use one of model, or leave judge out"):
        check_claim(sample, CLAIM, PAPER, judge="minilm")
    draft = tmp_path / "draft.md"
    draft.write_text(f"{CLAIM} [@{PAPER}]")
    done = run_cli("check-draft", draft, "--library", sample_library, "--judge", "model")
    assert (done.returncode, "SCHOLARBASE_MODEL" in done.stderr) == (2, True)
    with model_server(in_order(reply("supported"))) as server:
        done = run_cli(
            "check-draft", draft, "--library", sample_library, "--judge", "model", "--json",
            SCHOLARBASE_MODEL=server.url,
        )  # fmt: skip
    assert json.loads(done.stdout)["claims"] == {"supported": 1}
