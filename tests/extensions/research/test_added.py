"""What other extensions add to research: query formats and baseline agents."""

import json
from pathlib import Path

import pytest

from tests.extensions.test_door import package
from tests.forks import run_fork

EXTENSION = """
from scholarbase_research.evaluation.formats.reading import Format
from scholarbase_research.evaluation.queries import Answer, Query


def _query(record, reading):
    fields = record.fields
    return Query(fields["topic"], fields["query"], tuple(Answer(paper) for paper in fields["relevant"]))


class Titles:
    name = "titles"

    def __init__(self, limit):
        self.identity = {"policy": self.name, "limit": limit}

    def run(self, tools, trace, to):
        found = trace.call(tools, "match_titles", {"titles": [trace.query.text]}, 1)
        trace.answer(found.ids, 2)
        trace.stop = "answered"


class Mine(Extension):
    def query_formats(self):
        names = frozenset(("topic", "query", "relevant"))
        return [Format("Mine", names, lambda found: names <= set(found), _query, "topic, query, relevant")]

    def baselines(self):
        return {"titles": lambda limit, model: Titles(limit)}
"""


@pytest.mark.slow
def test_a_baseline_of_another_extension_answers_questions_in_its_format(
    sample_library: Path, tmp_path: Path
) -> None:
    path = str(package(tmp_path, "mine", EXTENSION))
    question = {
        "topic": "t1",
        "query": "Holomorphic anomalies in topological field theories",
        "relevant": ["arXiv:hep-th/9302103"],
    }
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    where = ("--library", sample_library, "--encoder", "none")
    command = ("agent", "run", "q.jsonl", "--policy", "titles", *where)
    done = run_fork(*command, cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "agent" / "trajectory.jsonl").read_text().splitlines()]
    assert [(row["tool"], row["ids"]) for row in rows] == [
        ("match_titles", ["arXiv:hep-th/9302103"]),
        ("answer", ["arXiv:hep-th/9302103"]),
    ]
    unknown = run_fork("agent", "run", "q.jsonl", "--policy", "none", *where, cwd=tmp_path, PYTHONPATH=path)
    assert unknown.returncode == 2
    assert "'search', 'search-expand', 'react', 'titles'" in unknown.stderr
    (tmp_path / "q.jsonl").write_text('{"a": 1}')
    refused = run_fork("eval", "run", "q.jsonl", *where, cwd=tmp_path, PYTHONPATH=path)
    assert "Mine (topic, query, relevant)" in refused.stderr
