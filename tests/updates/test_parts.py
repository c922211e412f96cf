"""OpenAlex partitions and OAI harvests as changes: the library of a full build, in any order of the parts."""

import random
from pathlib import Path
from typing import Any

import pytest

from scholarbase import Library
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.updates.job import update
from tests.ingest.sources import harvests
from tests.ingest.sources.test_oai import KNOWN, write_lines
from tests.ingest.sources.test_openalex import work, write, write_parquet
from tests.updates import releases
from tests.updates.test_job import assert_same

WORKS = range(1, 25)
TITLE_RULE = IngestRules(keep="title")


class Parts:
    """Works, arXiv records and papers of Semantic Scholar that change from day to day."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.works: dict[int, dict[str, Any]] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.s2ag = {name: held for name, held in releases.first(self.rng).items() if name != "arxiv"}
        self.day = 10

    def change(self, count: int, folder: Path) -> Path:
        """Change so many works and records, and write what changed as parts of one day. Returns their folder."""
        self.day += 1
        when = f"2026-06-{self.day}"
        works, gone = {}, []
        records: dict[str, str] = {}
        for _ in range(count):
            number, arxiv_id = self.rng.choice(WORKS), self.rng.choice(releases.arxiv_ids())
            if self.rng.random() < 0.25:
                if self.works.pop(number, None):
                    gone.append(number)
                    works.pop(number, None)
                self.records.pop(arxiv_id, None)
                records[arxiv_id] = harvests.deleted(arxiv_id, when)
                continue
            works[number] = self.works[number] = self.work(number, when)
            gone = [one for one in gone if one != number]
            self.records[arxiv_id] = KNOWN | {
                "id": arxiv_id,
                "title": self.words(3),
                "doi": None,
                "abstract": self.rng.choice([self.words(6), None]),
                "comments": self.rng.choice([None, "This paper has been withdrawn"]),
                "update_date": when,
            }
            records[arxiv_id] = harvests.raw(self.records[arxiv_id])
        if works:
            self.write_works(folder / f"works/updated_date={when}", list(works.values()))
        if gone:
            lines = "".join(f"https://openalex.org/W{number},{when}\n" for number in gone)
            (folder / "deleted_ids.csv").parent.mkdir(parents=True, exist_ok=True)
            (folder / "deleted_ids.csv").write_text(f"work_id,deleted_date\n{lines}")
        harvests.write(folder / f"arXivRaw/{when}..{when}/pages/000001.xml.gz", records.values())
        return folder

    def words(self, count: int) -> str:
        return " ".join(self.rng.choice(releases.WORDS) for _ in range(count))

    def work(self, number: int, when: str) -> dict[str, Any]:
        cited = self.rng.sample([*WORKS, 99], self.rng.randint(0, 6))
        places = [{"landing_page_url": f"https://arxiv.org/abs/{self.rng.choice(releases.arxiv_ids())}"}]
        return work(
            number,
            title=self.words(3),
            doi=f"https://doi.org/10.1000/{self.rng.randint(1, 8)}" if self.rng.random() < 0.4 else None,
            locations=places if self.rng.random() < 0.4 else [],
            is_retracted=self.rng.random() < 0.2,
            abstract_inverted_index=inverted(self.words(5)) if self.rng.random() < 0.7 else None,
            referenced_works=[f"https://openalex.org/W{one}" for one in cited],
            cited_by_count=self.rng.randint(0, 9),
            updated_date=f"{when}T0{self.rng.randint(0, 9)}:00:00",
        )

    def write_works(self, folder: Path, works: list[dict[str, Any]]) -> None:
        self.rng.shuffle(works)
        cut = self.rng.randint(0, len(works))
        for part, some in enumerate((works[:cut], works[cut:])):
            if some and self.rng.random() < 0.5:
                write_parquet(folder / f"part_{part:04}.parquet", some)
            elif some:
                write(folder / f"part_{part:04}.gz", some)

    def write_all(self, folder: Path) -> Path:
        """Write the present release as a whole."""
        self.write_works(folder / "works", list(self.works.values()))
        records = list(map(harvests.raw, self.records.values()))
        self.rng.shuffle(records)
        harvests.write(folder / "pages/000001.xml.gz", records)
        return releases.write(self.rng, self.s2ag, folder)


def inverted(text: str) -> dict[str, list[int]]:
    index: dict[str, list[int]] = {}
    for place, word in enumerate(text.split()):
        index.setdefault(word, []).append(place)
    return index


@pytest.mark.parametrize(
    ("seed", "keep"),
    [
        pytest.param(2, "arxiv", marks=pytest.mark.slow),
        pytest.param(4, "title", marks=pytest.mark.slow),
    ],
)
def test_parts_as_changes_give_the_library_of_a_full_build(tmp_path: Path, seed: int, keep: Any) -> None:
    parts, rules = Parts(seed), IngestRules(keep=keep)
    first = parts.change(60, tmp_path / "first")
    s2ag = releases.write(parts.rng, parts.s2ag, tmp_path / "s2ag")
    ingest([s2ag, first], tmp_path / "library", rules=rules)
    changes = [parts.change(12, tmp_path / f"changes-{n}") for n in range(2)]
    update(tmp_path / "library", changes, tmp_path / "updated")
    ingest([parts.write_all(tmp_path / "whole")], tmp_path / "full", rules=rules)
    assert_same(tmp_path / "updated", tmp_path / "full")
    # The same parts that were kept since the first day, and the changes in another order.
    ingest([*changes, first, s2ag], tmp_path / "kept", rules=rules)
    assert_same(tmp_path / "kept", tmp_path / "full")
    update(tmp_path / "library", changes[::-1], tmp_path / "reversed")
    assert_same(tmp_path / "reversed", tmp_path / "full")


@pytest.mark.slow
def test_an_older_record_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    """Edges by OpenAlex ids do not depend on the order in which works come."""
    versions = [
        work(
            1, title="First", updated_date="2026-06-01T00:00:00", referenced_works=["https://openalex.org/W2"]
        ),
        work(
            1,
            title="Second",
            updated_date="2026-06-02T00:00:00",
            referenced_works=["https://openalex.org/W3"],
        ),
    ]
    sources = [write(tmp_path / f"{n}.gz", [one]) for n, one in enumerate(versions)]
    sources.append(
        write(tmp_path / "others.gz", [work(2), work(3, referenced_works=["https://openalex.org/W1"])])
    )
    hashes = set()
    for number, (first, *later) in enumerate((sources, sources[1::-1] + sources[2:])):
        library = tmp_path / f"library-{number}"
        ingest([first], library, rules=TITLE_RULE)
        hashes.add(update(library, later, tmp_path / f"updated-{number}").content_hash)
    assert len(hashes) == 1
    with Library.open(tmp_path / "updated-0") as held:
        assert [one.paper.id for one in held.references("OpenAlex:W1").results] == ["OpenAlex:W3"]
        assert [one.paper.id for one in held.citations("OpenAlex:W1").results] == ["OpenAlex:W3"]


@pytest.mark.slow
def test_a_folder_of_harvests_is_no_chain_of_releases(tmp_path: Path) -> None:
    """Both have folders whose names are two dates."""
    folder = tmp_path / "arXivRaw"
    harvests.write(folder / "2005-09-16..2026-11-21/pages/000001.xml.gz", [harvests.raw(KNOWN)])
    ingest([folder], tmp_path / "library")
    new = KNOWN | {"id": "0704.0002", "update_date": "2026-11-22"}
    harvests.write(folder / "2026-11-22..2026-11-22/pages/000001.xml.gz", [harvests.raw(new)])
    manifest = update(tmp_path / "library", [folder], tmp_path / "updated")
    assert (manifest.counts["papers"], manifest.counts["records_updated"]) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("day", [None, pytest.param("2026-11-22", marks=pytest.mark.slow)])
def test_a_record_without_a_newer_date_replaces_the_stored_one(tmp_path: Path, day: str | None) -> None:
    """A shorter line of arXiv's snapshot was left out."""
    lines = [KNOWN | {"title": title, "update_date": day} for title in ("A longer title", "Short")]
    sources = [write_lines(tmp_path / f"{n}.jsonl", [line]) for n, line in enumerate(lines)]
    ingest(sources[:1], tmp_path / "library")
    update(tmp_path / "library", sources[1:], tmp_path / "updated")
    with Library.open(tmp_path / "updated") as library:
        assert library.paper("0704.0001").title == "Short"


@pytest.mark.slow
def test_a_record_that_is_deleted_put_the_paper_of_another_source_into_a_set(tmp_path: Path) -> None:
    """In an update; an ingest of the same files did not."""
    paper = {"corpusid": 7, "title": "T", "externalids": {"ArXiv": "0704.0001"}}
    s2ag = write_lines(tmp_path / "papers.jsonl", [paper])
    page = tmp_path / "arXivRaw" / "pages" / "000001.xml.gz"
    harvests.write(
        page, [harvests.raw(KNOWN | {"id": "0704.0002"}), harvests.deleted("0704.0001", "2026-06-11")]
    )
    ingest([s2ag], tmp_path / "full", rules=TITLE_RULE, sets={"new": [page]})
    ingest([s2ag], tmp_path / "library", rules=TITLE_RULE)
    update(tmp_path / "library", [], tmp_path / "updated", sets={"new": [page]})
    assert_same(tmp_path / "updated", tmp_path / "full")
    assert read_manifest(tmp_path / "updated")[0].sets["new"]["papers"] == 1


def test_a_rejected_line_removes_its_record_unless_another_is_valid(tmp_path: Path) -> None:
    """A full release with these lines would have the same papers."""
    names = ("2101.00001", "2101.00002", "2101.00003", "2101.00004")
    first, second, third, fourth = ({**KNOWN, "id": name, "title": name, "doi": None} for name in names)
    lines = [
        {**first, "title": None},
        *({**second, "title": None}, {**second, "title": "Corrected"}),
        *({**third, "title": None}, third),
        *({**fourth, "title": "Corrected"}, {**fourth, "title": None}),
    ]
    ingest([write_lines(tmp_path / "old.json", [first, second, third, fourth])], tmp_path / "old")
    update(
        tmp_path / "old", [write_lines(tmp_path / "new.json", lines)], tmp_path / "new", max_reject_share=1.0
    )
    with Library.open(tmp_path / "new") as library:
        papers = library.papers(names)
    assert [paper and paper.title for paper in papers] == [None, "Corrected", "2101.00003", None]
