"""From snapshot files to a library: which papers are kept, how sources are joined, and the counts."""

import json
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from scholarbase.encoders import Encoder, Encodings, LearnedSparse, open_encoder
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.errors import EncoderMismatch, InvalidRequest, SourceError
from scholarbase.identifiers import arxiv_id
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.ingest import writer
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest, snapshot_id
from scholarbase.markup import searchable
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.papers import Journal
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import arxiv_rows, json_lines, run_cli, sample_rows, snapshot_of
from tests.ingest.contents import points, rows, same
from tests.libraries import copied, relist, sample_papers


@pytest.fixture(scope="module")
def packaged() -> Iterator[Encoder]:
    with closing(open_encoder(PACKAGED)) as encoder:
        yield encoder


def query(library: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{library / 'catalog.sqlite'}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def test_counts_equal_those_of_the_raw_files(sample_library: Path) -> None:
    papers = {row["corpusid"]: row for row in sample_rows("papers")}
    arxiv = {arxiv_id(row["id"]) for row in arxiv_rows()}
    in_s2ag = {arxiv_id(p["externalids"]["ArXiv"]) for p in papers.values()}
    with_abstract = {row["corpusid"] for row in sample_rows("abstracts") if row["abstract"]} & papers.keys()
    edges = {(int(r["citingcorpusid"]), int(r["citedcorpusid"])) for r in sample_rows("citations")}
    inside = {(a, b) for a, b in edges if a in papers and b in papers}
    counts = read_manifest(sample_library)[0].counts
    assert counts["papers"] == len(in_s2ag | arxiv)
    assert counts["arxiv_joined"] == len(in_s2ag & arxiv)
    assert counts["s2ag_abstracts_used"] == len(with_abstract)
    assert counts["edges"] == len({(a, b) for a, b in inside if a != b})
    assert counts["self_citations"] == len({(a, b) for a, b in inside if a == b})
    assert counts["points"] == counts["papers"] == counts["abstracts"]


def test_both_sources_are_joined_in_one_paper(sample_library: Path) -> None:
    abstracts = {row["corpusid"] for row in sample_rows("abstracts")}
    paper = next(p for p in sample_rows("papers") if p["corpusid"] not in abstracts)
    record = next(r for r in arxiv_rows() if r["id"] == paper["externalids"]["ArXiv"])
    with Library.open(sample_library) as library:
        found = library.paper(f"CorpusId:{paper['corpusid']}")
        assert found == library.paper(f"arXiv:{record['id']}")
    assert found.citation_count == paper["citationcount"]  # from Semantic Scholar only
    assert found.categories == tuple(record["categories"].split())  # from arXiv only
    assert found.abstract is not None  # missing in Semantic Scholar
    assert found.abstract.split()[:5] == record["abstract"].split()[:5]


def test_both_sources_give_details_of_one_paper(tmp_path: Path) -> None:
    paper = {
        "corpusid": 1,
        "title": "Prompt diphoton production",
        "externalids": {"ArXiv": "0704.0001"},
        "isopenaccess": False,
        "s2fieldsofstudy": [{"category": "Physics", "source": "external"}],
        "publicationtypes": ["JournalArticle"],
        "journal": {"name": "Physical Review D", "volume": "76", "pages": None},
    }
    record = {
        "id": "0704.0001",
        "title": "Prompt diphoton production",
        "abstract": "Photon pairs.",
        "authors": "C. Balazs",
        "categories": "hep-ph",
        "comments": "37 pages",
        "journal-ref": "Phys.Rev.D76:013009,2007",
        "versions": [{"version": "v1", "created": "Mon, 2 Apr 2007 19:18:42 GMT"}],
        "update_date": "2008-11-26",
    }
    other = {**record, "id": "0704.0002", "title": "Another"}
    (tmp_path / "papers.jsonl").write_text(json.dumps(paper))
    (tmp_path / "arxiv.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(other)}\n")
    ingest([tmp_path / "papers.jsonl", tmp_path / "arxiv.jsonl"], tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        joined, alone = library.paper("0704.0001"), library.paper("0704.0002")
        some = library.paper("0704.0001", fields=["title", "versions"])
    assert joined.journal == Journal("Physical Review D", "76", None)
    assert joined.publication_types == ("JournalArticle",)
    assert joined.fields_of_study == ("Physics",)
    assert joined.is_open_access is alone.is_open_access is True
    assert joined.comment == alone.comment == "37 pages"
    assert joined.versions == alone.versions == some.versions == ("2007-04-02T19:18:42Z",)
    assert joined.update_date == "2008-11-26"
    assert alone.journal == Journal("Phys.Rev.D76:013009,2007")
    assert (alone.publication_types, alone.fields_of_study, some.comment) == ((), (), None)


@pytest.mark.parametrize(("keep", "kept"), [("arxiv", {4}), ("text", {1, 4}), ("title", {1, 2, 3, 4})])
def test_the_keep_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: Any, kept: set[int]) -> None:
    """Papers are checked in parts; here each is a part, also those with successive ids."""
    monkeypatch.setattr(writer, "_AT_ONCE", 1)
    release = lines(
        tmp_path / "release",
        papers=[
            {
                "corpusid": 1,
                "title": "No arXiv id, an abstract",
                "externalids": {"DOI": "10.1/a"},
                "authors": [],
            },
            {"corpusid": 2, "title": "Neither", "externalids": None, "authors": None},
            {"corpusid": 3, "title": "An arXiv id, no abstract", "externalids": {"ArXiv": "2401.00002"}},
            {"corpusid": 4, "title": "Both", "externalids": {"ArXiv": "2401.00001"}},
        ],
        abstracts=[{"corpusid": number, "abstract": "Here it is."} for number in (1, 4)],
    )
    library = tmp_path / "library"
    ingest([release], library, rules=IngestRules(keep=keep))
    assert {row[0] for row in query(library, "SELECT corpus_id FROM papers")} == kept
    assert list(verify(library))


def test_every_dataset_of_the_publishers_sample(shared_data: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    done = run_cli("ingest", shared_data / "s2ag-samples", "--library", library, "--keep", "title")
    assert done.returncode == 0, done.stderr
    assert "the dataset embeddings is not used" in done.stderr
    counts = read_manifest(library)[0].counts
    # The samples of 100 records were drawn separately: hardly any record refers to another.
    assert counts["papers"] == counts["lines_papers"] == 100
    assert counts["lines_citations"] == 100
    assert counts["citations_with_an_unknown_end"] == 17
    assert counts["venues"] == counts["lines_publication-venues"] == 100
    assert list(verify(library))
    # The sha in a paper's link is an id of it.
    link = query(library, "SELECT url, corpus_id FROM papers WHERE url LIKE '%/paper/%' LIMIT 1")[0]
    with Library.open(library) as opened:
        assert opened.paper(link[0].rsplit("/", 1)[1]).corpus_id == link[1]


def test_authors_venues_tldrs_and_other_ids_find_their_papers(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    (release / "papers.jsonl").write_text(
        json.dumps(
            {
                "corpusid": 13756489,
                "externalids": {
                    "ArXiv": "1706.03762",
                    "DBLP": "conf/nips/VaswaniSPUJGKP17",
                    "MAG": "2963403868",
                },
                "url": "https://www.semanticscholar.org/paper/204e3073870fae3d05bcbc2f6a8e263d9b72e776",
                "title": "Attention is All you Need",
                "authors": [
                    {"authorId": "40348417", "name": "Ashish Vaswani"},
                    {"authorId": None, "name": "N.N."},
                ],
                "venue": "Neural Information Processing Systems",
                "publicationvenueid": "d9720b90",
                "year": 2017,
                "citationcount": 100000,
                "publicationdate": "2017-06-12",
            }
        )
    )
    (release / "tldrs.jsonl").write_text(
        '{"corpusid": 13756489, "model": "tldr@v2.0.0", "text": "Attention only."}'
    )
    (release / "ids.jsonl").write_text(
        '{"sha": "0123456789abcdef0123456789abcdef01234567", "corpusid": 13756489, "primary": false}'
    )
    (release / "venues.jsonl").write_text(
        '{"id": "d9720b90", "name": "Neural Information Processing Systems", "alternate_names": ["NeurIPS", "NIPS"],'
        ' "alternate_issns": [], "alternate_urls": [], "issn": null, "type": "conference", "url": null}'
    )
    (release / "authors.jsonl").write_text(
        '{"authorid": "40348417", "name": "Ashish Vaswani", "aliases": ["A. Vaswani"], "hindex": 30}\n'
        '{"authorid": "999", "name": "Nobody here", "aliases": null, "hindex": 1}'
    )
    library = tmp_path / "library"
    ingest([release], library, rules=IngestRules(keep="title"))
    assert query(library, "SELECT author_id, h_index FROM authors") == [("40348417", 30)]
    with Library.open(library) as opened:
        for name in (
            "arXiv:1706.03762v5",
            "https://arxiv.org/pdf/1706.03762.pdf",
            "CorpusId:13756489",
            "204e3073870fae3d05bcbc2f6a8e263d9b72e776",
            "0123456789ABCDEF0123456789ABCDEF01234567",
            "MAG:2963403868",
            "DBLP:conf/nips/VaswaniSPUJGKP17",
            "https://www.semanticscholar.org/paper/Attention/204e3073870fae3d05bcbc2f6a8e263d9b72e776",
        ):
            paper = opened.paper(name)
            assert (paper.id, paper.tldr) == ("arXiv:1706.03762", "Attention only.")
        for venue in ("NeurIPS", "nips", "Neural Information Processing Systems"):
            assert opened.search("attention", venue=[venue]).total == 1
        assert opened.search("attention", venue=["ICML"]).total == 0


@pytest.mark.slow
def test_the_snapshot_id_is_the_hash_of_the_manifest(
    dense_library: Path, small_snapshot: Path, packaged: Encoder, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    ingest([small_snapshot], again, encoder=packaged, encoder_location=PACKAGED)
    same(dense_library, again)
    assert (dense_library / "manifest.json").read_bytes() == (again / "manifest.json").read_bytes()
    # Their segments have other names and files.
    one, other = (
        {segment.name for segment in (path / "vectors" / "segments").iterdir()}
        for path in (dense_library, again)
    )
    assert one.isdisjoint(other)
    assert snapshot_id((again / "manifest.json").read_bytes()) == query(again, "SELECT value FROM meta")[0][0]
    # It does not depend on the time and place of the build.
    assert str(tmp_path) not in (again / "manifest.json").read_text()


@pytest.mark.slow
def test_titles_have_weight_four_in_vectors_of_a_static_encoder(tmp_path: Path) -> None:
    """The expected vectors are sums over the table in the package."""
    tokenizer = Tokenizer.from_file(str(PACKAGED_FOLDER / "tokenizer.json"))
    tensors = load_file(PACKAGED_FOLDER / "model.safetensors")
    table = tensors["embeddings"] * tensors["weights"][:, None]

    def mean(title: str, abstract: str, weight: int) -> npt.NDArray[np.float32]:
        # Words that the table lacks have no meaning.
        unknown = tokenizer.token_to_id("[UNK]")
        ids = [
            [
                one
                for one in tokenizer.encode(searchable(text), add_special_tokens=False).ids
                if one != unknown
            ]
            for text in (title, abstract)
        ]
        total: npt.NDArray[np.float32] = weight * table[ids[0]].sum(axis=0) + table[ids[1]].sum(axis=0)
        return total / np.float32(np.linalg.norm(total))

    library, source = tmp_path / "library", snapshot_of(tmp_path / "release", sample_papers()[:20])
    with closing(open_encoder(PACKAGED)) as encoder:
        manifest = ingest([source], library, encoder=encoder, encoder_location=PACKAGED)
    assert manifest.rules["title_weight"] == 4
    stored = points(library)
    held = query(library, "SELECT p.id, title, abstract FROM papers p JOIN abstracts ON paper_id = p.id")
    assert len(held) == 20
    for paper_id, title, abstract in held:
        vector = stored[paper_id][2]
        assert np.dot(vector, mean(title, abstract, 4)) == pytest.approx(
            1, abs=1e-3
        )  # kept in half precision
        assert np.dot(vector, mean(title, abstract, 1)) < 0.995


@pytest.mark.slow
def test_vectors_computed_elsewhere(
    small_snapshot: Path, dense_library: Path, packaged: Encoder, tmp_path: Path
) -> None:
    documents = query(
        dense_library, "SELECT arxiv_id, title, abstract FROM papers JOIN abstracts ON paper_id = id"
    )
    known = documents[:100]
    vectors = packaged.encode_documents([f"{title}\n{abstract}" for _, title, abstract in known]).dense
    folder = tmp_path / "vectors"
    folder.mkdir()
    # One without a paper, one invalid id, one repeated.
    names = [name for name, *_ in known] + ["2401.99999", "nonsense!", known[0][0] + "v2"]
    np.save(folder / "vectors.npy", np.concatenate([vectors, vectors[:3]]))
    (folder / "ids.txt").write_text("\n".join(names) + "\n")
    library = tmp_path / "library"
    manifest = ingest([small_snapshot], library, encoder=packaged, encoder_location=PACKAGED, vectors=folder)
    assert manifest.counts["dense_vectors"] == 100
    assert manifest.counts["vectors_of_no_paper"] == 2
    assert manifest.counts["vectors_repeated"] == 1
    assert list(verify(library))
    stored, given = points(library), dict(zip((name for name, *_ in known), vectors, strict=True))
    for paper_id, name in query(library, "SELECT id, arxiv_id FROM papers"):
        if name in given:
            # In half precision, and of length 1.
            assert np.dot(stored[paper_id][2], given[name]) == pytest.approx(1, abs=2e-3)
        else:
            assert stored[paper_id][2] is None
    with Library.open(library) as opened:
        answer = opened.search(known[3][1], mode="dense", limit=1, min_similarity=-1)
        assert (answer.results[0].paper.id, answer.total) == (f"arXiv:{known[3][0]}", 100)
        # The papers without a vector are found by their words.
        rest = opened.search(documents[-1][1], mode="hybrid", limit=1000)
        assert f"arXiv:{documents[-1][0]}" in [hit.paper.id for hit in rest.results]
        assert (rest.total, rest.total_relation) == (len(rest.results), "eq")


@pytest.mark.slow
def test_vectors_of_another_encoder_are_refused(
    small_snapshot: Path, packaged: Encoder, tmp_path: Path
) -> None:
    vectors = tmp_path / "vectors.npy"
    refused = partial(ingest, [small_snapshot], tmp_path / "library", encoder=packaged, vectors=vectors)
    ids = [str(row["externalids"]["ArXiv"]) for row in sample_rows("papers")][:50]
    rng = np.random.default_rng(0)
    for dimensions, what, is_indexed in ((384, "have 384 dimensions", False), (256, "are not from", True)):
        np.save(vectors, rng.normal(size=(50, dimensions)).astype(np.float32))
        (tmp_path / "ids.txt").write_text("\n".join(ids) + "\n")
        with pytest.raises(EncoderMismatch, match=what):
            refused()
        assert (tmp_path / "library").exists() == is_indexed
    with pytest.raises(InvalidRequest, match="need the encoder"):
        ingest([small_snapshot], tmp_path / "library", vectors=vectors)
    np.save(vectors, rng.normal(size=(1, 256)).astype(np.float32))
    (tmp_path / "ids.txt").write_text("2401.99999\n")
    with pytest.raises(SourceError, match="no vector of a paper"):
        refused()


def test_refused_vectors_are_corrected_without_a_restart(packaged: Encoder, tmp_path: Path) -> None:
    """The right command was refused after a wrong one; the ids of a collection's documents needed ``Doc:``."""
    (tmp_path / "beir").mkdir()
    (tmp_path / "beir" / "corpus.jsonl").write_text('{"_id": "4983", "title": "Cells", "text": "Of mice."}\n')
    (tmp_path / "beir" / "queries.jsonl").write_text('{"_id": "1", "text": "mice"}\n')
    (tmp_path / "ids.txt").write_text("4983\n")
    file = tmp_path / "vectors.npy"
    corrected = partial(ingest, [tmp_path / "beir"], tmp_path / "library", encoder=packaged, vectors=file)
    np.save(file, np.ones((1, 7), dtype=np.float32))
    with pytest.raises(EncoderMismatch, match="have 7 dimensions"):
        corrected()
    np.save(file, packaged.encode_documents(["Cells\nOf mice."]).dense)
    assert corrected().counts["dense_vectors"] == 1


def test_a_paper_has_the_number_of_its_id(sample_library: Path) -> None:
    """By hand: 2023 is the 24th year since 2000, and 9407 of hep-th has the archive's place 19."""
    numbers = {row[2]: row[0] for row in rows(sample_library)["papers"]}
    for paper, number in numbers.items():
        if "/" not in paper:
            year, month, serial = int(paper[:2]), int(paper[2:4]), int(paper[5:])
            assert number == (12 * year + month - 1) * 100_000 + serial
    assert numbers["hep-th/9407087"] == 2**28 + (19 * 1200 + 94 * 12 + 6) * 1000 + 87


@pytest.mark.slow
def test_verify_finds_what_was_changed(dense_library: Path, tmp_path: Path) -> None:
    def damaged(name: str, *statements: str) -> str:
        library = copied(dense_library, tmp_path / name)
        with closing(sqlite3.connect(library / "catalog.sqlite", isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)
        if name == "manifest":
            text = (library / "manifest.json").read_text()
            (library / "manifest.json").write_text(text.replace('"keep": "text"', '"keep": "title"'))
        if name == "vectors":
            shutil.rmtree(library / "vectors")
        else:
            relist(library)
        done = run_cli("verify", "--library", library)
        assert done.returncode == 10, (name, done.stdout, done.stderr)
        return done.stderr

    edge, first = "SELECT citing, cited FROM edges LIMIT 1", "SELECT min(id) FROM papers"
    assert "rows of edges" in damaged("edge", f"DELETE FROM edges WHERE (citing, cited) IN ({edge})")
    assert "citation edge from paper" in damaged(
        "end", f"UPDATE edges SET cited = 99999 WHERE (citing, cited) IN ({edge})"
    )
    assert "papers changed" in damaged(
        "text", f"UPDATE papers SET title = 'Something else' WHERE id IN ({first})"
    )
    assert "full-text index differs" in damaged(
        "words",
        "INSERT INTO fulltext(rowid, title, abstract) SELECT min(id), 'Something', 'else' FROM papers",
    )
    assert "rows of papers" in damaged("row", f"DELETE FROM papers WHERE id IN ({first})")
    assert "the manifest was changed" in damaged("manifest")
    assert "is missing: the copy is incomplete" in damaged("vectors")


def lines(folder: Path, **datasets: list[dict[str, Any]]) -> Path:
    """A release with a file of these records for each dataset."""
    folder.mkdir()
    for dataset, records in datasets.items():
        json_lines(folder / f"{dataset}.jsonl", records)
    return folder


@pytest.mark.slow
def test_a_job_killed_while_it_counts_document_frequencies_ends_with_the_same_rows(
    small_snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    ingest([small_snapshot], whole)
    write = FrequencyCounter.write

    def fail(counter: FrequencyCounter, db: sqlite3.Connection) -> None:
        write(counter, db)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FrequencyCounter, "write", fail)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                ingest([small_snapshot], broken)
    ingest([small_snapshot], broken)
    same(whole, broken)
    assert rows(broken)["document_frequencies"]
    assert list(verify(broken))


def test_an_alias_of_a_dropped_paper_goes_to_the_kept_one(tmp_path: Path) -> None:
    """The record of a journal has no abstract and is dropped; the preprint with the same DOI is kept."""
    release = lines(
        tmp_path / "release",
        papers=[
            {"corpusid": 1, "title": "In the journal", "externalids": {"DOI": "10.1000/shared"}},
            {"corpusid": 2, "title": "As a preprint", "externalids": {"DOI": "10.1000/shared"}},
        ],
        abstracts=[{"corpusid": 2, "abstract": "Kept."}],
    )
    ingest([release], tmp_path / "library", rules=IngestRules(keep="text"))
    with Library.open(tmp_path / "library") as library:
        assert library.paper("DOI:10.1000/shared").id == "CorpusId:2"


def test_two_corpus_ids_of_one_arxiv_paper_are_one_paper(tmp_path: Path) -> None:
    release = lines(
        tmp_path / "release",
        papers=[
            {"corpusid": 1, "title": "Record", "externalids": {"ArXiv": "2001.00001"}},
            {
                "corpusid": 2,
                "title": "The record",
                "externalids": {"ArXiv": "2001.00001", "DOI": "10.1000/second"},
            },
            {"corpusid": 3, "title": "Another", "externalids": {"ArXiv": "2001.00003"}},
        ],
        abstracts=[{"corpusid": n, "abstract": f"Abstract {n}."} for n in (2, 3)],
        citations=[
            {"citingcorpusid": "3", "citedcorpusid": "2"},
            {"citingcorpusid": "1", "citedcorpusid": "2"},
        ],
    )
    manifest = ingest([release], tmp_path / "library")
    assert manifest.counts["papers"] == 2
    assert manifest.counts["arxiv_ids_repeated"] == 1
    assert "papers_without_arxiv_id" not in manifest.counts
    assert (manifest.counts["edges"], manifest.counts["self_citations"]) == (1, 1)
    with Library.open(tmp_path / "library") as library:
        names = ("arXiv:2001.00001", "CorpusId:1", "CorpusId:2", "DOI:10.1000/second")
        assert {library.paper(name).id for name in names} == {"arXiv:2001.00001"}
        assert library.paper("CorpusId:2").abstract == "Abstract 2."
        assert library.citations("CorpusId:1").total == 1


@pytest.mark.slow
def test_many_parts_take_few_open_files(tmp_path: Path) -> None:
    """An ingest of millions of papers has thousands of parts, and a process may have a thousand files open."""
    parts = DenseParts(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(600, 4)).astype(np.float32)
    for number, vector in enumerate(vectors):
        sparse = [LearnedSparse(np.array([number], np.uint32), np.array([0.5], np.float32))]
        parts.write(number, np.array([number + 1]), Encodings(vector[None], sparse))
    few = len(list(Path("/proc/self/fd").iterdir())) + 200  # other tests of this process may have files open
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        lookup = parts.open()
        found = [lookup.get(number + 1) for number in range(600)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for number, item in enumerate(found):
        assert item[0] is not None
        assert item[0].tolist() == vectors[number].tolist()
        assert item[1] is not None
        assert item[1].indices == [number]
    assert lookup.get(601) == (None, None)
