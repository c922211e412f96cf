"""Libraries with full texts: built in any order, killed, verified, moved."""

import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.ingest import fulltexts, passages
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from scholarbase.updates.job import update
from tests.conftest import run_cli
from tests.documents.records import papers, record, write
from tests.ingest.contents import rejects

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of thirty papers with full texts, and its source beside it."""
    folder = tmp_path_factory.mktemp("texts")
    ingest([], folder / "library", documents=[write(folder / "texts.jsonl.gz", papers(30))])
    return folder / "library"


@pytest.mark.slow
def test_the_texts_make_papers_passages_and_marks(whole: Path) -> None:
    manifest, _ = read_manifest(whole)
    counts = manifest.counts
    assert (counts["papers"], counts["documents"], counts["in_text_citations"]) == (30, 30, 29)
    assert counts["passages"] == 30  # each text is shorter than 512 tokens
    assert manifest.documents is not None
    assert manifest.documents["chunker"] == "tokens-512"
    with Library.open(whole) as library:
        contexts = library.citation_contexts("2001.00004")
    [context] = contexts.results
    assert context.paper is not None
    assert context.paper.id == "arXiv:2001.00005"
    assert context.passage.text == "As shown before [1], zeta grows."
    assert list(verify(whole))


@pytest.mark.slow
def test_stopped_at_a_commit_and_resumed_the_library_is_the_same(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltexts, "DOCUMENTS_PER_COMMIT", 7)
    monkeypatch.setattr(passages, "PASSAGES_PER_BATCH", 9)
    transaction = Checkpoint.transaction
    for stop in (5, 11):
        commits = 0

        def counted(checkpoint: Checkpoint, stop: int = stop) -> AbstractContextManager[None]:
            nonlocal commits
            commits += 1
            if commits == stop:
                raise KeyboardInterrupt
            return transaction(checkpoint)

        library, texts = tmp_path / f"{stop}", [whole.parent / "texts.jsonl.gz"]
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "transaction", counted)
            with pytest.raises(KeyboardInterrupt):
                ingest([], library, documents=texts)
        assert not (library / "manifest.json").exists()
        ingest([], library, documents=texts)
        assert read_manifest(library)[1] == read_manifest(whole)[1]
        assert list(verify(library))


@pytest.mark.slow
def test_the_order_of_files_does_not_change_the_content(whole: Path, tmp_path: Path) -> None:
    some = papers(30)
    files = [
        write(tmp_path / f"{name}.jsonl.gz", part)
        for name, part in (("a", some[20:]), ("b", some[:20][::-1]))
    ]
    for name, order in (("one", files), ("two", files[::-1])):
        manifest = ingest([], tmp_path / name, documents=order)
        assert manifest.content_hash == read_manifest(whole)[0].content_hash


@pytest.mark.slow
def test_a_text_of_no_paper_is_rejected_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "2001.99999.txt").write_text("A text.\n\nIt has two paragraphs.")
    write(tmp_path / "texts" / "held.jsonl.gz", papers(2))
    manifest = ingest([], tmp_path / "library", documents=[tmp_path / "texts"])
    assert manifest.rejects == {"no-paper": 1}
    assert manifest.counts["documents"] == 2
    assert "2001.99999" in rejects(tmp_path / "library")[0]["detail"]


@pytest.mark.slow
def test_texts_of_one_title_stay_with_the_papers_that_their_names_say(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    names = ("2302.00002v1", "2309.00009v3", "copy of gadgets")
    for name in names:
        (texts / f"{name}.md").write_text(
            f"---\ntitle: Quantum gadgets for sorting lists\nauthors: [Carl Cole]\n---\n# One\n\nThis is {name}."
        )
    ingest([], tmp_path / "library", documents=[texts])
    with Library.open(tmp_path / "library") as library:
        for name in names[:2]:
            read = library.text(name, section="One")
            assert (read.id, read.text) == (f"arXiv:{name[:-2]}", f"One\n\nThis is {name}.")
        assert library.manifest.counts["documents"] == 3


@pytest.mark.slow
def test_the_most_faithful_text_of_the_latest_version_is_read(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    write(texts / "a.jsonl.gz", [record(1, [("One", "The text of unarXive.")], version=2)])
    (texts / "2001.00001v2.txt").write_text("The plain text of version 2.")
    (texts / "2001.00001v3.txt").write_text("The plain text of version 3.")
    ingest([], tmp_path / "library", documents=[texts])
    with Library.open(tmp_path / "library") as library:
        about = library.text("2001.00001").document
        assert (about.version, about.source, about.versions) == (3, "text", (2, 3))
        assert library.text("2001.00001", version=2).document.source == "unarxive"
        found = library.search_passages("plain text of version", mode="sparse").results
        assert [hit.passage.version for hit in found] == [3]


@pytest.mark.slow
def test_of_two_texts_of_one_version_and_source_the_longer_stays(tmp_path: Path) -> None:
    short, long = (record(1, [("One", text)]) for text in ("Short.", "This one is longer."))
    for name, order in (("a", [short, long]), ("b", [long, short])):
        ingest([], tmp_path / name, documents=[write(tmp_path / f"{name}.jsonl.gz", order)])
        with Library.open(tmp_path / name) as library:
            assert "This one is longer." in (library.text("2001.00001", section="1").text or "")
    assert read_manifest(tmp_path / "a")[0].content_hash == read_manifest(tmp_path / "b")[0].content_hash
    assert read_manifest(tmp_path / "a")[0].counts["documents_repeated"] == 1


@pytest.mark.parametrize(
    "chunker",
    [
        pytest.param("sentences-10-1", marks=pytest.mark.slow),
        pytest.param("sentences-512", marks=pytest.mark.slow),
        pytest.param("paragraphs", marks=pytest.mark.slow),
    ],
)
def test_every_chunker_makes_a_library(whole: Path, tmp_path: Path, chunker: str) -> None:
    manifest = ingest(
        [],
        tmp_path / "library",
        documents=[whole.parent / "texts.jsonl.gz"],
        rules=IngestRules(chunker=chunker),
    )
    assert manifest.documents is not None
    assert manifest.documents["chunker"] == chunker
    with Library.open(tmp_path / "library") as library:
        hits = library.search_passages('"number 7"', mode="sparse").results
    assert {hit.paper.id for hit in hits} == {"arXiv:2001.00007"}


def test_another_chunker_needs_restart(whole: Path) -> None:
    with pytest.raises(Exception, match="other chunker"):
        ingest(
            [], whole, documents=[whole.parent / "texts.jsonl.gz"], rules=IngestRules(chunker="paragraphs")
        )


def test_an_update_refuses_full_texts(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="full texts"):
        update(whole, [whole.parent / "texts.jsonl.gz"], tmp_path / "new")


@pytest.mark.slow
def test_pack_keeps_full_texts(whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    packed, unpacked = tmp_path / "packed.tar.zst", tmp_path / "unpacked"
    for command in (("pack", whole, packed), ("unpack", packed, "--library", unpacked)):
        done = run_cli(*command)
        assert done.returncode == 0, done.stderr
    assert list(verify(tmp_path / "unpacked"))
    with Library.open(tmp_path / "unpacked") as library:
        assert re.search("We study", library.text("2001.00009", section="Introduction").text or "")


@pytest.mark.slow
def test_rejects_of_other_sources_are_no_rejects_of_documents(tmp_path: Path) -> None:
    """A bibliography may have up to 100 entries without a title, whatever comes beside it."""
    entries = [f"@article{{a{number}, author = {{Ada One}}}}" for number in range(20)]
    (tmp_path / "own.bib").write_text("\n".join([*entries, "@article{whole, title = {A whole entry}}"]))
    texts = write(tmp_path / "texts.jsonl.gz", papers(3))
    ingest([tmp_path / "own.bib"], tmp_path / "library", documents=[texts])
    counts = read_manifest(tmp_path / "library")[0].counts
    assert (counts["papers"], counts["documents"]) == (4, 3)
    assert len(rejects(tmp_path / "library")) == 20
