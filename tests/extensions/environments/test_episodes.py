"""Episodes with a script and with a model, and their rewards against those of an evaluation of the exported runs."""

import threading
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.episodes import Episode, Episodes, Rules
from scholarbase_research.evaluation.measures import evaluate
from scholarbase_research.evaluation.runs import read_run
from tests.conftest import ROOT, run_cli
from tests.extensions.environments.model import ID, serve
from tests.forks import run_fork

QUERIES = ROOT / "sample" / "queries.jsonl"


def search_and_answer(episode: Episode, limit: int) -> None:
    found = episode.call("search_papers", {"q": episode.query.text, "limit": limit, "max_tokens": 20_000})
    episode.call("get_papers", {"nonsense": 1})
    episode.call("answer", {"ids": ID.findall(found)})


@pytest.mark.parametrize("ranking", ["answer-only", "observed"])
def test_rewards_are_those_of_an_evaluation(sample_library: Path, tmp_path: Path, ranking: str) -> None:
    rules = Rules(measure="R@5", ranking=ranking, cost=0.25)  # type: ignore[arg-type]
    rewards: dict[str, float] = {}
    with Episodes(sample_library, QUERIES, rules, sessions=tmp_path / "sessions") as episodes:
        names = []
        for number in range(len(episodes.tasks)):
            episode = episodes.start(number)
            search_and_answer(episode, 1 + number % 20)
            rewards[episode.query.id] = episode.reward
            names.append(episode.name)
        [path] = episodes.export(names, tmp_path / "export")
    arguments = (
        "--library",
        sample_library,
        "--ranking",
        ranking,
        "--out",
        tmp_path / "runs",
        "--name",
        "run",
    )
    run_cli("eval", "trajectory", path, QUERIES, *arguments)
    measured = evaluate(read_run(tmp_path / "runs" / "run"), ["R@5"]).values("R@5")
    assert rewards == {task: value - 0.5 for task, value in measured.items()}
    assert len(set(rewards.values())) > 1


def test_a_second_call_without_budget_ends_the_episode(server: str) -> None:
    with Episodes(server, QUERIES, Rules(calls=1, cost=0.25)) as episodes:
        episode = episodes.start(seed=1)
        assert episode.query == episodes.start(seed=1).query
        texts = [episode.call("search_papers", {"q": "QCD", "limit": 1}) for _ in range(3 - 1)]
        assert "0 are left" in texts[1]
        assert not episode.done
        assert episodes.resume(episode.name, episode.query.id).refused == 1
        episode.call("search_papers", {"q": "QCD"})
        assert episodes.resume(episode.name, episode.query.id).done
        assert episode.done
        assert episode.reward == -0.25
        with pytest.raises(InvalidRequest, match="has ended"):
            episode.call("search_papers", {"q": "QCD"})


def test_another_process_cannot_answer_an_episode_again(sample_library: Path, tmp_path: Path) -> None:
    with Episodes(sample_library, QUERIES, sessions=tmp_path) as episodes:
        episode = episodes.start(0)
        again = episodes.resume(episode.name, episode.query.id)
        assert not again.done
        again.call("answer", {"ids": []})
        with pytest.raises(InvalidRequest, match="has ended"):
            episodes.resume(episode.name, episode.query.id).call("answer", {"ids": [ID]})
        with pytest.raises(InvalidRequest, match="There is no task 'no'"):
            episodes.resume(episode.name, "no")


@pytest.mark.parametrize(
    "rule",
    [{"measure": "no"}, {"ranking": "no"}, {"as_of": "no"}, {"as_of": "1993"}, {"cost": float("nan")}],
)
def test_a_wrong_rule_is_an_error_before_the_first_episode(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Rules(**rule)


def test_a_date_of_each_query_holds_for_its_episode(sample_library: Path, tmp_path: Path) -> None:
    with Episodes(sample_library, QUERIES, Rules(as_of="query"), sessions=tmp_path) as episodes:
        episode = episodes.start(0)
        episode.call("search_papers", {"q": episode.query.text})
        [line] = episodes.lines(episode.name)
    assert line["arguments"]["as_of"] == episode.query.date


@pytest.mark.slow
@pytest.mark.parametrize("with_model", [False, True])
def test_the_example(sample_library: Path, tmp_path: Path, with_model: bool) -> None:
    model = serve()
    thread = threading.Thread(target=model.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{model.server_address[1]}/v1#stub"
    arguments = (sample_library, QUERIES, "--sessions", tmp_path / "s", "--out", tmp_path, "--episodes", "3")
    try:
        done = run_fork(
            *(*arguments, *(("--model", url) if with_model else ())),
            code="import runpy; runpy.run_path('examples/episodes.py', run_name='__main__')",
            imports=["scholarbase_research.episodes", "scholarbase_research.agents.react"],
            cwd=ROOT,
        )
    finally:
        model.shutdown()
        thread.join()
        model.server_close()
    assert "3 episodes, mean reward 0." in done.stdout, done.stderr
