"""A process of its own, and this one while it starts, parse lines into the same records, in the same order."""

from pathlib import Path

import orjson
import pytest

from scholarbase.errors import SourceError
from scholarbase.ingest.records import Reject
from scholarbase.ingest.sources import PARSERS, Dataset, parsing
from scholarbase.ingest.sources.parsing import parsed
from tests.ingest.sources import test_openalex, test_s2ag

ARXIV = Path(__file__).parent / "data" / "arxiv.jsonl"
DOCUMENT = {
    "_id": "MED-10",
    "title": "Statin use",
    "text": "Recent <i>studies</i> suggest that $x^2$ …",
    "metadata": {},
}
TOO_LONG = Reject("too-long", "The line has 70,000,000 bytes.")


@pytest.mark.slow
def test_a_worker_gives_the_records_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_BYTES_AT_ONCE", 1)
    monkeypatch.setattr(parsing, "_FIRST", 1)
    others = {
        Dataset.ARXIV: ARXIV.read_bytes().splitlines(),
        Dataset.OPENALEX: [orjson.dumps(test_openalex.work(number)) for number in (1, 2)],
        Dataset.BEIR: [orjson.dumps(DOCUMENT)],
    }
    for dataset in PARSERS:
        contents = others.get(dataset) or test_s2ag.sample(dataset)
        numbered = [*enumerate([*contents, b"{", TOO_LONG, *contents], 1)]
        expected = [
            (number, content, PARSERS[dataset](content))
            if isinstance(content, bytes)
            else (number, b"", content)
            for number, content in numbered
        ]
        assert [*parsed(dataset, numbered, in_worker=True)] == expected, dataset


def test_a_worker_that_ends_early_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "WORKER", "this")
    monkeypatch.setattr(parsing, "_FIRST", 0)
    with pytest.raises(
        SourceError, match="The process that parses arxiv ended with status 0: see its messages"
    ):
        [*parsed(Dataset.ARXIV, [(1, b"{}")], in_worker=True)]
