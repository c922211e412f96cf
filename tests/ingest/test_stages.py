"""Every stage of a build says that it moves, or that it cannot."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from tests.conftest import SAMPLE, sample_rows

PAPERS = 10_500
MOST_UNITS = 10_000
"""Units of work between two updates of a stage."""
UNCOUNTED = {
    "index records",
    "build vector graph",
    "compare random papers",
    "count words",
    "index source records",
    "finish databases",
}
"""The stages that are one call, of which no part can be counted."""


@dataclass
class Stage:
    name: str
    unit: str | None
    total: int | None
    advances: list[int] = field(default_factory=list)
    position: int = 0

    def advance(self, count: int) -> None:
        self.advances.append(count)

    def at(self, done: int) -> None:
        self.position = done


class Recorder:
    """Records the stages and their updates."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[Stage]:
        stage = Stage(name, unit, total)
        self.stages.append(stage)
        yield stage


@pytest.mark.slow
def test_no_stage_of_a_build_stands_still(tmp_path: Path) -> None:
    """The terminal showed "99%, 0:04 left" while the graph was built, and "merge records 0" for a minute."""
    papers = list(sample_rows("papers"))
    abstracts = {row["corpusid"]: row["abstract"] for row in sample_rows("abstracts")}
    with (tmp_path / "papers.jsonl").open("wb") as out, (tmp_path / "abstracts.jsonl").open("wb") as texts:
        for number in range(PAPERS):
            row = papers[number % len(papers)]
            abstract = abstracts.get(row["corpusid"]) or "None."
            new = row | {"corpusid": number + 1, "externalids": None, "title": f"{row['title']} {number}"}
            for record in (new, new | {"title": f"{new['title']}, again"})[: 2 if number % 3 == 0 else 1]:
                out.write(orjson.dumps(record) + b"\n")
            texts.write(orjson.dumps({"corpusid": number + 1, "abstract": abstract}) + b"\n")
    recorder = Recorder()
    sources = [tmp_path / "papers.jsonl", tmp_path / "abstracts.jsonl", SAMPLE / "s2ag" / "citations"]
    with closing(open_encoder(PACKAGED)) as encoder:
        manifest = ingest(
            sources, tmp_path / "l", encoder=encoder, encoder_location=PACKAGED, reporter=recorder
        )
    assert manifest.counts["papers"] == PAPERS
    assert {stage.name for stage in recorder.stages if stage.unit is None} == UNCOUNTED
    for stage in recorder.stages:
        if stage.unit is None:
            assert not stage.advances
        elif stage.unit not in ("bytes", "lines"):
            assert max(stage.advances, default=0) <= MOST_UNITS, stage.name
            if stage.total is not None:
                # Position and count agree, so that the percentage and the time left are right.
                assert sum(stage.advances) == stage.total, stage.name
    counted = {stage.name: sum(stage.advances) for stage in recorder.stages}
    assert counted["compare records"] == PAPERS // 3
    assert counted["merge records"] >= PAPERS // 3
    assert counted["keep rule"] == counted["index full text"] == counted["hash vectors"] == PAPERS
