"""Episodes of an environment with a policy by script, or with a model behind a URL of OpenAI's form.

    pip install "scholarbase[evaluation]"
    python examples/episodes.py papers queries.jsonl
    python examples/episodes.py papers queries.jsonl --model http://localhost:8090/v1#my-model

The first argument is the folder of a library, or the URL of a server. ``scholarbase eval trajectory`` measures the
files that are written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

import httpx

from scholarbase_research.agents.react import SYSTEM
from scholarbase_research.episodes import Episode, Episodes, Rules

ID = re.compile(r"^ {3}((?:arXiv|CorpusId|DOI):\S+)$", re.M)


def scripted(episode: Episode) -> None:
    """One search, whose results are the answer."""
    found = episode.call("search_papers", {"q": episode.query.text, "limit": 20})
    episode.call("answer", {"ids": ID.findall(found)})


def model(episode: Episode, url: str, name: str) -> None:
    """A model that calls the tools, until it answers or replies without a call."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": episode.query.text},
    ]
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    with httpx.Client(headers=headers, timeout=600) as client:
        while not episode.done:
            body = {"model": name, "messages": messages, "tools": episode.environment.schemas}
            response = client.post(f"{url}/chat/completions", json=body).raise_for_status()
            message = response.json()["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                if episode.done:
                    return
                function = call["function"]
                text = episode.call(function["name"], json.loads(function["arguments"] or "{}"))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("location", help="the folder of a library, or the URL of a server")
    parser.add_argument("queries")
    parser.add_argument("--model", help="URL#NAME; by default the policy is a script")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--sessions", help="the folder of the sessions of a library")
    parser.add_argument("--out", type=Path, default=Path("episodes"))
    options = parser.parse_args()
    with Episodes(options.location, options.queries, Rules(cost=0.01), sessions=options.sessions) as episodes:
        names, rewards = [], []
        for number in range(options.episodes):
            episode = episodes.start(number % len(episodes.tasks))
            if options.model:
                model(episode, *options.model.split("#"))
            else:
                scripted(episode)
            names.append(episode.name)
            rewards.append(episode.reward)
        print(f"{len(rewards)} episodes, mean reward {sum(rewards) / len(rewards):.4f}")
        print(*episodes.export(names, options.out))


if __name__ == "__main__":
    main()
