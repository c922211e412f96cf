"""Estimates of unseen papers: over HTTP, by the tool, of a session, and none where too little is known."""

from pathlib import Path

import httpx
import orjson
import pytest

from scholarbase import Library
from scholarbase.errors import InvalidRequest
from scholarbase.sessions.session import CallRecord
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase_research.completeness import estimate_recall
from scholarbase_research.completeness.checking import RecallBody, search_samples
from scholarbase_research.completeness.samples import Sample, estimates, new_by_rank, new_by_sample, yields
from tests.conftest import run_cli, serving_in_thread

QUESTION = "two-dimensional QCD string theory"
SEED = "arXiv:hep-th/9301068"
SAMPLES = (
    Sample("words", "q", ("a", "b", "x", "c", "y")),
    Sample("meaning", "q", ("a", "z", "d", "b", "w")),
    Sample("words", "r", ("a", "b", "e", "y", "x")),
)
RELEVANT = frozenset("abcde")


def test_legs_texts_and_steps_are_compared() -> None:
    """By words a, b, c, e and by meaning a, b, d: 5 * 4 / 3 - 1 in all. The text q has a, b, c, d and r has a, b, e, so
    that three papers are in one of two texts: 1/2 * 3^2 / (2 * 2) are unseen."""
    by_method = {
        one.method: one for one in estimates(SAMPLES, RELEVANT, frozenset(), new_by_rank(SAMPLES, RELEVANT))
    }
    assert set(by_method) == {"legs", "rewrites", "saturation"}
    assert by_method["legs"].unseen == round(5 * 4 / 3 - 1 - 5, 1)
    assert by_method["rewrites"].unseen == round(9 / 8, 1)
    assert all(one.lower_bound for one in by_method.values())


def test_papers_known_from_elsewhere_are_compared_with_all_searches() -> None:
    """Of the known a, f and g the searches returned a, besides b, c, d, e: 4 * 6 / 2 - 1 in all, 7 of them seen."""
    known = frozenset("afg")
    first = estimates(SAMPLES, RELEVANT | known, known, ())[0]
    assert (first.method, first.unseen, first.lower_bound) == ("known", 4 * 6 / 2 - 1 - 7, False)
    assert first.low <= first.unseen <= first.high


def test_too_few_papers_give_no_number() -> None:
    assert estimates(SAMPLES, frozenset("ab"), frozenset(), (2, 0)) == ()
    assert estimates(SAMPLES, frozenset("fgh"), frozenset("fgh"), (0, 0)) == ()


def test_new_papers_of_steps_and_yields() -> None:
    assert new_by_sample(SAMPLES, RELEVANT) == [3, 1, 1] == [len("abc"), len("d"), len("e")]
    assert new_by_rank(SAMPLES, RELEVANT) == [1, 1, 2, 1, 0]
    best = yields({str(n): one.ids for n, one in enumerate(SAMPLES)}, RELEVANT)
    assert [(one.name, one.papers, one.relevant, one.only) for one in best] == [
        ("0", 5, 3, 1),
        ("1", 5, 3, 1),
        ("2", 5, 3, 1),
    ]


def test_a_rewrite_by_rule_has_new_words_and_none_twice(sample: Library) -> None:
    question = "LLMs: OPT, LLaMA, BLOOM, PaLM"
    samples = search_samples(sample, RecallBody(q=question, relevant=["arXiv:2005.14165"]))
    rewrites = [one.text.casefold().split() for one in samples if one.text != question]
    assert len(rewrites) == 3
    assert all(len(set(words)) == len(words) > 5 for words in rewrites)


def test_http_the_tool_and_python_give_the_same(sample: Library) -> None:
    hits = sample.search(QUESTION, limit=4, fields=["id"]).results
    relevant = [hit.paper.id for hit in hits]
    request = {"q": QUESTION, "relevant": relevant[:3], "known": relevant[3:], "depth": 20, "read": relevant}
    expected = estimate_recall(sample, **request).to_dict()
    assert [one["method"] for one in expected["estimates"]][:1] == ["known"]
    assert expected["share"]["returned"] == 1
    assert expected["seeds"]
    assert expected["years"]
    assert 0 < expected["risk"] <= 1
    with serving_in_thread(sample) as url:
        assert httpx.post(f"{url}/v1/completeness", json=request).json() == expected
        text = httpx.post(f"{url}/v1/completeness", json={**request, "format": "text"}).text
        assert text.startswith("Relevant: 4. The searches returned 1 of the 1 that are known from elsewhere.")
        listed = httpx.get(f"{url}/v1/tools?set=completeness").json()["tools"]
        assert [one["function"]["name"] for one in listed] == ["estimate_recall"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        answer = httpx.post(
            f"{url}/mcp/completeness",
            json={**message, "params": {"name": "estimate_recall", "arguments": request}},
            headers={"Accept": "application/json, text/event-stream"},
        ).json()
        assert answer["result"]["structuredContent"]["estimates"] == expected["estimates"]
        assert answer["result"]["content"][0]["text"] == expected["observation"]
    called = Tools(sample, tool_set="completeness").call("estimate_recall", request)
    assert called["estimates"] == expected["estimates"]


def test_one_paper_says_that_it_is_too_few(sample: Library) -> None:
    found = estimate_recall(sample, QUESTION, relevant=[SEED, "arXiv:2001.00001"])
    assert found.estimates == ()
    assert "too few for an estimate" in found.observation
    assert "Relevant: 1, and 1 that the library lacks." in found.observation
    for arguments in (
        {},
        {"relevant": ["arXiv:2001.00001"]},
        {"relevant": [SEED] * 501},
        {"relevant": [SEED], "read": [SEED, SEED], "population": 1},
        {"relevant": [SEED], "population": 100},  # was ignored
        {"relevant": [SEED], "read": [SEED], "population": 10**15},  # the risk was 0.00001 instead of 1
    ):
        with pytest.raises(InvalidRequest):
            estimate_recall(sample, QUESTION, **arguments)


def test_a_session_is_compared_by_its_calls(sample: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path / "sessions") as store:
        tools = Tools(sample, session="s", store=store)
        found = tools.call("search_papers", {"q": QUESTION, "limit": 20})
        tools.call("search_papers", {"q": "QCD2 string", "limit": 20})
        answer = [hit["paper"]["id"] for hit in found["results"]][:5]
        tools.call("expand_papers", {"seeds": answer[:2]})
        store.record(store.session("s").session, [CallRecord("answer", "answer", {}, tuple(answer))]).result(
            60
        )
    with serving_in_thread(sample, sessions=str(tmp_path / "sessions")) as url:
        made = httpx.post(f"{url}/v1/sessions/s/completeness", json={}).json()
        assert made["relevant"] == 5
        assert made["new"] == [5, 0, 0]
        assert made["estimates"]
        assert httpx.post(f"{url}/v1/sessions/none/completeness", json={}).status_code == 404
    options = ["--library", str(sample.path), "--encoder", "none", "--sessions", str(tmp_path / "sessions")]
    printed = run_cli("session", "completeness", "s", "--json", *options)
    assert orjson.loads(printed.stdout)["estimates"] == made["estimates"]
    assert run_cli("session", "completeness", "s", *options).stdout == f"{made['observation']}\n"
