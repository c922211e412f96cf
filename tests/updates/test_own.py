"""A library with people's own files and named sets is updated to what a full build gives."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scholarbase.errors import InvalidRequest, SourceError, TooManyRejects
from scholarbase.ingest.job import IngestRules, ingest
from scholarbase.ingest.sources import OWN, WITH_PAPERS
from scholarbase.ingest.store import SCHEMES
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.updates import own as own_files
from scholarbase.updates.job import update
from tests.conftest import run_cli
from tests.updates import releases
from tests.updates.test_job import assert_same, content

FILES = ("mine.bib", "other.bib")


def entries(rng: random.Random, *known: releases.Release) -> list[str]:
    """BibTeX entries that have ids and titles of papers of these releases, or of no paper."""
    papers = [one for release in known for dataset in ("papers", "arxiv") for one in release[dataset].values()]
    found = []
    for number in range(rng.randint(1, 14)):
        paper, fields = rng.choice(papers), {"title": f"Own {rng.randint(1, 4)}"}
        if rng.random() < 0.6:
            names = paper["authors"]
            first = names if isinstance(names, str) else " ".join(one["name"] for one in names[:1])
            fields |= {"title": paper["title"].lower(), "author": first.partition(",")[0]}
        if rng.random() < 0.3:
            fields["eprint"] = rng.choice(releases.arxiv_ids())
        if rng.random() < 0.3:
            fields["doi"] = f"10.1000/{rng.randint(1, 10)}"
        if rng.random() < 0.2:
            fields["note"] = f"CorpusId:{rng.randint(1, releases.PAPERS + 4)}"
        if rng.random() < 0.5:
            fields["abstract"] = rng.choice(["A graph of one's own.", "Quark."])
        fields["year"] = str(rng.randint(1995, 2020))
        fields = {name: value for name, value in fields.items() if value}
        found.append(f"@misc{{k{number}, {', '.join(f'{n} = {{{v}}}' for n, v in fields.items())}}}")
    return found


def write(folder: Path, name: str, found: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(found))
    return folder / name


def check(folder: Path, seed: int, keep: Any, changes: int) -> None:
    """Update a random library with two own files and two sets, and compare it with a full build."""
    rng = random.Random(seed)
    rules = IngestRules(keep=keep)
    before = releases.first(rng)
    after = releases.changed(rng, before, changes)
    old = {name: entries(rng, before, after) for name in FILES}
    new = {name: entries(rng, before, after) if rng.random() < 0.5 else old[name] for name in FILES}

    def full(place: str, release: releases.Release, own: dict[str, list[str]]) -> Path:
        source = releases.write(rng, release, folder / place / "source")
        mine, other = (write(folder / place, name, own[name]) for name in FILES)
        sets: Any = {"mine": [mine], "snap": [source / "arxiv"]}
        ingest([source, other], folder / place / "library", sets=sets, rules=rules)
        return folder / place / "library"

    diff = releases.write_diff(rng, before, after, folder / "diff")
    changed = [write(folder / "changes", name, new[name]) for name in FILES if new[name] != old[name]]
    arxiv = diff / "arxiv" / "updates"
    sets = {"snap": [arxiv]} if arxiv.exists() else {}
    update(full("0", before, old), [diff, *changed], folder / "updated", sets=sets)
    assert_same(folder / "updated", full("1", after, new))
    assert read_manifest(folder / "updated")[0].sets.keys() == {"mine", "snap"}
    # Applied again, the changes change nothing.
    update(folder / "updated", [diff, *changed], folder / "again", sets=sets)
    assert content(folder / "again") == content(folder / "updated")


@pytest.mark.parametrize(
    ("seed", "keep"),
    [
        (1, "arxiv"),
        pytest.param(2, "abstract", marks=pytest.mark.slow),
        pytest.param(3, "title", marks=pytest.mark.slow),
    ],
)
def test_own_files_and_sets_are_those_of_a_full_build(tmp_path: Path, seed: int, keep: Any) -> None:
    check(tmp_path, seed, keep, 40)


@pytest.mark.slow
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 10_000), st.integers(1, 120), st.sampled_from(["arxiv", "abstract", "title"]))
def test_random_own_files(tmp_path_factory: pytest.TempPathFactory, seed: int, changes: int, keep: Any) -> None:
    check(tmp_path_factory.mktemp("own"), seed, keep, changes)
