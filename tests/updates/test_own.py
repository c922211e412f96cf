"""A library with people's own files and named sets is updated to what a full build gives."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scholarbase.errors import InvalidRequest, SourceError, TooManyRejects
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.sources import OWN, WITH_PAPERS
from scholarbase.ingest.store import SCHEMES
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.search.library import Library
from scholarbase.updates import own as own_files
from scholarbase.updates.job import update
from tests.conftest import run_cli
from tests.updates import releases
from tests.updates.test_job import assert_same, content

FILES = ("mine.bib", "other.bib")


def entries(rng: random.Random, *known: releases.Release) -> list[str]:
    """BibTeX entries that have ids and titles of papers of these releases, or of no paper."""
    papers = [
        one for release in known for dataset in ("papers", "arxiv") for one in release[dataset].values()
    ]
    found = ["@misc{kept, title = {Kept by every rule}, eprint = {2001.00002}, abstract = {Quark.}}"]
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "keep"),
    [
        (1, "arxiv"),
        pytest.param(2, "text", marks=pytest.mark.slow),
        pytest.param(3, "title", marks=pytest.mark.slow),
    ],
)
def test_own_files_and_sets_are_those_of_a_full_build(tmp_path: Path, seed: int, keep: Any) -> None:
    check(tmp_path, seed, keep, 40)


@pytest.mark.slow
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 10_000), st.integers(1, 120), st.sampled_from(["arxiv", "text", "title"]))
def test_random_own_files(
    tmp_path_factory: pytest.TempPathFactory, seed: int, changes: int, keep: Any
) -> None:
    folder = tmp_path_factory.mktemp("own")
    check(folder, seed, keep, changes)
    shutil.rmtree(folder)


BIB = """
@article{one, title = {One}, author = {Ada, A.}, year = 2007, doi = {10.1000/one}}
@article{two, title = {Two}, author = {Bea, B.}, year = 2008, doi = {10.1000/two}}
"""
NEWER = """
@article{two, title = {Two}, author = {Bea, B.}, year = 2008, doi = {10.1000/two}, keywords = {light}}
@article{three, title = {Three}, author = {Cy, C.}, year = 2009, doi = {10.1000/three}}
"""


def arxiv(path: Path, *numbers: int) -> Path:
    """An arXiv snapshot of papers of which one, two and three are in the BibTeX files."""
    names = ["", "One by A. Ada", "Two by B. Bea", "Three by C. Cy", "Four by D. Doe"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number in numbers:
            title, _, author = names[number].partition(" by ")
            line = {
                "id": f"0704.000{number}",
                "title": title,
                "authors": author,
                "abstract": f"Text {number}.",
            }
            date = {"versions": [{"version": "v1", "created": "Mon, 2 Apr 2007 19:18:42 GMT"}]}
            print(json.dumps(line | date | {"categories": "hep-th"}), file=file)
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two papers of arXiv, of which the set ``mine`` has one, and another paper of that set."""
    bib = write(tmp_path / "base", "mine.bib", [BIB])
    ingest([arxiv(tmp_path / "base" / "arxiv.json", 1, 4)], tmp_path / "library", sets={"mine": [bib]})
    return tmp_path / "library"


def members(library: Library, name: str) -> set[str]:
    return {hit.paper.id for hit in library.search("one two three four", within=[f"set:{name}"]).results}


def records_read(manifest: Manifest) -> list[int]:
    return [manifest.counts[f"records_{kind}"] for kind in ("updated", "unchanged", "deleted")]


@pytest.mark.slow
def test_a_newer_file_replaces_the_one_of_its_name(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Library.open(base) as library:
        assert members(library, "mine") == {"arXiv:0704.0001", "DOI:10.1000/two"}
        assert library.paper("DOI:10.1000/one").id == "arXiv:0704.0001"
    newer = write(tmp_path / "changes", "mine.bib", [NEWER])
    manifest = update(base, [newer], tmp_path / "new")
    assert (
        "mine.bib replaces the file of that name in the library, which loses 1 of its 2 entries"
        in caplog.text
    )
    assert (manifest.counts["own_entries"], manifest.counts["own_joined"]) == (2, 0)
    assert records_read(manifest) == [2, 0, 1]
    assert manifest.sets == {"mine": {"sources": ["mine.bib"], "papers": 2}}
    with Library.open(tmp_path / "new") as library:
        assert members(library, "mine") == {"DOI:10.1000/two", "DOI:10.1000/three"}
        assert "DOI" not in library.paper("arXiv:0704.0001").external_ids
    # Its entries are the same on other lines.
    again = write(tmp_path / "again", "mine.bib", ["% Moved", NEWER])
    assert records_read(update(tmp_path / "new", [again], tmp_path / "same")) == [0, 2, 0]
    # The preprint of an entry's paper comes, and the entry joins it.
    later = arxiv(tmp_path / "later.json", 3)
    assert update(tmp_path / "new", [later], tmp_path / "later").counts["own_joined"] == 1
    with Library.open(tmp_path / "later") as library:
        assert members(library, "mine") == {"DOI:10.1000/two", "arXiv:0704.0003"}
        assert library.paper("DOI:10.1000/three").abstract == "Text 3."
    ingest([later, tmp_path / "base" / "arxiv.json"], tmp_path / "full", sets={"mine": [newer]})
    assert_same(tmp_path / "later", tmp_path / "full")


@pytest.mark.slow
def test_citations_follow_a_paper_that_loses_the_id_of_an_entry(tmp_path: Path) -> None:
    """With the entry's arXiv id the paper had another number."""
    papers = [{"corpusid": n, "title": f"T {n}", "externalids": {"DOI": f"10.1000/{n}"}} for n in (7, 8)]
    lines = [json.dumps(one) for one in papers]
    (tmp_path / "s2" / "papers").mkdir(parents=True)
    (tmp_path / "s2" / "papers" / "0.jsonl").write_text("\n".join(lines))
    cites = {"citationid": 1, "citingcorpusid": 8, "citedcorpusid": 7}
    (tmp_path / "s2" / "citations.jsonl").write_text(json.dumps(cites))
    entry = "@misc{a, title={T 7}, doi={10.1000/7}"
    old = write(tmp_path / "old", "mine.bib", [entry + ", eprint={1706.03762}}"])
    new = write(tmp_path / "new", "mine.bib", [entry + "}"])
    for name, bib in (("with", old), ("without", new)):
        ingest([tmp_path / "s2", bib], tmp_path / name, rules=IngestRules("title"))
    update(tmp_path / "with", [new], tmp_path / "updated")
    assert_same(tmp_path / "updated", tmp_path / "without")
    update(tmp_path / "without", [old], tmp_path / "back")
    assert_same(tmp_path / "back", tmp_path / "with")


@pytest.mark.slow
def test_a_record_that_comes_back_is_not_in_its_earlier_sets(base: Path, tmp_path: Path) -> None:
    theirs = {"theirs": [arxiv(tmp_path / "theirs" / "arxiv.json", 2, 3)]}
    update(base, [], tmp_path / "0", sets=theirs)
    gone = tmp_path / "gone" / "arxiv" / "deletes" / "1.jsonl"
    gone.parent.mkdir(parents=True)
    gone.write_text('{"id": "0704.0003"}\n')
    update(tmp_path / "0", [tmp_path / "gone", arxiv(tmp_path / "back.json", 3)], tmp_path / "1")
    with Library.open(tmp_path / "1") as library:
        assert members(library, "theirs") == {"arXiv:0704.0002"}
        assert members(library, "mine") == {"arXiv:0704.0001", "arXiv:0704.0002"}


@pytest.mark.slow
def test_a_file_of_another_name_is_added_to_a_set_by_the_command_line(base: Path, tmp_path: Path) -> None:
    more = write(tmp_path / "changes", "more.bib", [NEWER])
    other = arxiv(tmp_path / "changes" / "other.json", 3)
    bare = arxiv(tmp_path / "changes" / "bare.json", 4)
    bare.write_text(bare.read_text().replace("Text 4.", ""))
    arguments = ("--set", f"mine={more}", "--set", f"theirs={other}", "--library", tmp_path / "new")
    done = run_cli("update", base, bare, *arguments)
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stdout
    assert "1 paper without an abstract or a full text" in done.stdout
    about = run_cli("info", "--library", tmp_path / "new").stdout
    shown = ("4 updated, 0 unchanged, 0 deleted", "of this update alone", "1 paper without", "bare.json")
    assert all(words in about for words in shown)
    manifest = read_manifest(tmp_path / "new")[0]
    assert manifest.sets["mine"] == {"sources": ["mine.bib", "more.bib"], "papers": 3}
    assert manifest.updates[0]["sets"] == {"mine": ["more.bib"], "theirs": ["other.json"]}
    with Library.open(tmp_path / "new") as library:
        assert members(library, "mine") == {"arXiv:0704.0001", "DOI:10.1000/two", "arXiv:0704.0003"}
        assert members(library, "theirs") == {"arXiv:0704.0003"}
    assert "No changes" in run_cli("update", base, "--library", tmp_path / "none").stderr


@pytest.mark.slow
def test_own_files_that_cannot_be_taken_are_refused(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bib = write(tmp_path / "changes", "mine.bib", [NEWER])

    def refused(error: type[Exception], match: str, *paths: Path, **options: Any) -> None:
        with pytest.raises(error, match=match):
            update(base, paths, tmp_path / "new", **options)
        assert not (tmp_path / "new" / "manifest.json").exists()

    again = write(tmp_path / "again", "mine.bib", [NEWER])
    refused(InvalidRequest, r"2 files of people's own are named mine\.bib", bib, again)
    step = tmp_path / "diff" / "bibtex" / "updates"
    write(step, "mine.bib", [NEWER])
    refused(SourceError, "has files of people's own, which are no differences", tmp_path / "diff")
    refused(SourceError, r"none\.bib has no entry", write(tmp_path / "changes", "none.bib", ["% none"]))
    bad = write(tmp_path / "changes", "bad.bib", ["@misc{a, year = 1}"])
    refused(TooManyRejects, r"1 of 1 entries of bad\.bib were rejected. The first is at line 1", bad)
    abstracts = tmp_path / "abstracts.json"
    abstracts.write_text('{"corpusid": 1, "abstract": "Text"}\n')
    refused(InvalidRequest, "takes files of papers", bib, sets={"mine": [abstracts]})
    theirs = {"theirs": [arxiv(tmp_path / "theirs.json", 3)]}
    update(base, [], tmp_path / "theirs", sets=theirs)
    gone = tmp_path / "gone" / "arxiv" / "deletes" / "1.jsonl"
    gone.parent.mkdir(parents=True)
    gone.write_text('{"id": "0704.0003"}\n')
    with pytest.raises(SourceError, match="leave the set 'theirs' without a paper"):
        update(tmp_path / "theirs", [tmp_path / "gone"], tmp_path / "new")
    monkeypatch.setattr(own_files, "MAX_ENTRIES", 1)
    refused(InvalidRequest, "have more than 1 entries, too many for an update", bib)


def test_each_dataset_of_papers_has_the_scheme_of_its_keys() -> None:
    assert SCHEMES.keys() == WITH_PAPERS - OWN
