"""Works of OpenAlex: JSON lines, Parquet tables and lists of deleted works.

The fields are those of https://developers.openalex.org/api-reference/works; the types of the Parquet columns those of
OpenAlex's own export (ourresearch/openalex-walden, notebooks/snapshot).
"""

import gzip
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scholarbase import Library
from scholarbase.errors import SourceError, TooManyRejects
from scholarbase.ingest import reading
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import DeletedRecord, PaperRecord, Reject
from scholarbase.ingest.sources import Dataset
from scholarbase.ingest.sources.openalex import MAX_WORDS, abstract_of, line_of, parse_works
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.updates.job import update
from tests.conftest import run_cli
from tests.ingest.contents import rejects, rows

TITLE_RULE = IngestRules(keep="title")
TEXT = "The fox of the den and the fox of the hill"
INDEX = {"The": [0], "fox": [1, 7], "of": [2, 8], "the": [3, 6, 9], "den": [4], "and": [5], "hill": [10]}


def work(number: int, **changes: Any) -> dict[str, Any]:
    """A work with the fields and links of https://api.openalex.org/works/W2741809807."""
    return {
        "id": f"https://openalex.org/W{number}",
        "doi": None,
        "title": f"The state of OA {number}",
        "display_name": f"The state of OA {number}",
        "ids": {"openalex": f"https://openalex.org/W{number}"},
        "indexed_in": ["crossref"],
        "publication_date": "2018-02-13",
        "publication_year": 2018,
        "language": "en",
        "type": "article",
        "authorships": [
            {
                "author_position": "first",
                "author": {
                    "id": "https://openalex.org/A5048491430",
                    "display_name": "Heather Piwowar",
                    "orcid": None,
                },
                "institutions": [],
                "is_corresponding": True,
                "raw_author_name": "Heather Piwowar",
            },
            {
                "author_position": "last",
                "author": {"id": None, "display_name": None},
                "raw_author_name": "J. Priem",
            },
        ],
        "topics": [
            {
                "id": "https://openalex.org/T10102",
                "display_name": "scientometrics and bibliometrics research",
                "score": 0.9969,
                "field": {"id": "https://openalex.org/fields/18", "display_name": "Decision Sciences"},
            }
        ],
        "locations": [],
        "primary_location": {
            "is_oa": True,
            "landing_page_url": "https://doi.org/10.7717/peerj.4375",
            "pdf_url": None,
            "source": {"id": "https://openalex.org/S1983995261", "display_name": "PeerJ", "type": "journal"},
        },
        "open_access": {"is_oa": True, "oa_status": "gold", "oa_url": None},
        "is_paratext": False,
        "is_retracted": False,
        "biblio": {"volume": "6", "issue": None, "first_page": "e4375", "last_page": "e4375"},
        "referenced_works": [],
        "referenced_works_count": 0,
        "abstract_inverted_index": INDEX,
        "cited_by_count": 1019,
        "updated_date": "2026-06-24T08:15:30.123456",
    } | changes


def write(path: Path, works: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for one in works:
            print(json.dumps(one), file=file)
    return path


def write_parquet(path: Path, works: list[dict[str, Any]]) -> Path:
    """A table as OpenAlex writes it: the inverted index is a JSON text, ``ids`` a map, and dates are dates."""
    table = []
    for one in works:
        index = one["abstract_inverted_index"]
        table.append(
            one
            | {
                "abstract_inverted_index": None if index is None else json.dumps(index),
                "ids": list(one["ids"].items()),
                "publication_date": date.fromisoformat(one["publication_date"]),
                "updated_date": datetime.fromisoformat(one["updated_date"]).replace(tzinfo=UTC),
            }
        )
    inferred = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "ids"} for row in table])
    ids = pa.array([row["ids"] for row in table], type=pa.map_(pa.string(), pa.string()))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(inferred.append_column("ids", ids), path, compression="snappy")
    return path


def parsed(one: dict[str, Any]) -> PaperRecord:
    record = parse_works(line_of(one))
    assert isinstance(record, PaperRecord), record
    return record


def test_a_work() -> None:
    record = parsed(
        work(
            2741809807,
            doi="https://doi.org/10.7717/PeerJ.4375",
            ids={
                "openalex": "https://openalex.org/W2741809807",
                "doi": "https://doi.org/10.7717/peerj.4375",
                "mag": "2741809807",
                "pmid": "https://pubmed.ncbi.nlm.nih.gov/29456894",
                "pmcid": "https://www.ncbi.nlm.nih.gov/pmc/articles/5815332",
            },
            referenced_works=["https://openalex.org/W1560783210", "https://openalex.org/W1724212071"],
            referenced_works_count=2,
        )
    )
    assert record == PaperRecord(
        title="The state of OA 2741809807",
        external_ids={
            "OpenAlex": "W2741809807",
            "DOI": "10.7717/peerj.4375",
            "MAG": "2741809807",
            "PMID": "29456894",
            "PMCID": "5815332",
        },
        abstract=TEXT,
        authors=[("Heather Piwowar", "A5048491430"), ("J. Priem", None)],
        year=2018,
        publication_date="2018-02-13",
        venue="PeerJ",
        details={
            "journal": ["PeerJ", "6", "e4375"],
            "publication_types": ["JournalArticle"],
            "fields_of_study": ["Decision Sciences", "scientometrics and bibliometrics research"],
            "is_open_access": True,
        },
        citation_count=1019,
        reference_count=2,
        url="https://doi.org/10.7717/peerj.4375",
        references=[1560783210, 1724212071],
    )


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (INDEX, TEXT),
        (dict(reversed(INDEX.items())), TEXT),
        ({}, None),
        (None, None),
        ({"cut": [0], "after": [1], "the": [3]}, "cut after"),
        ({"starts": [1], "late": [2]}, "starts late"),
        ({str(place): [place] for place in range(MAX_WORDS + 5)}, " ".join(map(str, range(MAX_WORDS)))),
    ],
    ids=[
        "words",
        "in another order",
        "empty",
        "null",
        "cut by OpenAlex",
        "without a first word",
        "a whole book",
    ],
)
def test_an_abstract_is_decoded_exactly(index: Any, text: str | None) -> None:
    assert abstract_of(index) == text


@pytest.mark.parametrize(
    ("changes", "arxiv_id"),
    [
        ({"doi": "https://doi.org/10.48550/arXiv.2309.06180"}, "2309.06180"),
        ({"locations": [{"landing_page_url": "http://arxiv.org/abs/hep-th/9901001v2"}]}, "hep-th/9901001"),
        ({"locations": [{"pdf_url": "https://arxiv.org/pdf/2309.06180v1.pdf"}]}, "2309.06180"),
        ({"locations": [{"landing_page_url": "https://doi.org/10.48550/arxiv.2309.06180"}]}, "2309.06180"),
        ({"locations": [{"native_id": "oai:arXiv.org:0704.0001", "landing_page_url": None}]}, "0704.0001"),
        ({"ids": {"arxiv": "https://arxiv.org/abs/2309.06180"}}, "2309.06180"),
        ({"locations": [{"landing_page_url": "https://example.org/abs/2309.06180"}]}, None),
        ({"locations": [{"landing_page_url": "https://arxiv.org/list/cs.CL/new"}]}, None),
    ],
)
def test_arxiv_ids(changes: dict[str, Any], arxiv_id: str | None) -> None:
    assert parsed(work(1, **changes)).arxiv_id == arxiv_id


def test_the_first_of_january_is_a_year() -> None:
    record = parsed(work(1, publication_date="2010-01-01", publication_year=2010))
    assert (record.year, record.publication_date) == (2010, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "no-id"),
        ({"id": "https://openalex.org/A12"}, "bad-id"),
        ({"title": None, "display_name": None}, "no-title"),
        ({"abstract_inverted_index": {"a": ["0"]}}, "bad-type"),
        ({"abstract_inverted_index": {"a": [-1]}}, "bad-type"),
        ({"abstract_inverted_index": "{cut"}, "bad-type"),
        ({"authorships": ["Piwowar"]}, "bad-type"),
        ({"cited_by_count": -1}, "bad-type"),
        ({"primary_location": []}, "bad-type"),
    ],
)
def test_bad_works_are_rejected(changes: dict[str, Any], reason: str) -> None:
    record = parse_works(line_of(work(1, **changes)))
    assert isinstance(record, Reject)
    assert record.reason == reason


def test_deleted_works() -> None:
    line = b'{"deleted": true, "id": "https://openalex.org/W7", "updated_date": "2026-01-02T99"}'
    assert parse_works(line) == DeletedRecord(work=7)


WORKS = [
    work(
        11,
        doi="https://doi.org/10.7717/peerj.4375",
        referenced_works=[f"https://openalex.org/W{n}" for n in (12, 13, 12, 11, 99)],
        referenced_works_count=5,
    ),
    work(12, locations=[{"landing_page_url": "https://arxiv.org/abs/2309.06180"}], is_retracted=True),
    work(13, abstract_inverted_index=None, referenced_works=["https://openalex.org/W11"]),
]


def test_a_library_of_works(tmp_path: Path) -> None:
    """Ids of every form resolve, citations are those between held works, and retractions are marked."""
    source = write(tmp_path / "works/updated_date=2026-06-24/part_0000.gz", WORKS)
    manifest = ingest([source.parent.parent], tmp_path / "library", rules=TITLE_RULE)
    assert [fact.dataset for fact in manifest.sources] == ["openalex"]
    assert manifest.counts["openalex_works"] == 3
    assert manifest.counts["citations_outside_the_library"] == 1
    assert manifest.counts["self_citations"] == 1
    assert manifest.counts["edges"] == 3
    with Library.open(tmp_path / "library") as library:
        for name in (
            "OpenAlex:W11",
            "openalex:w0011",
            "https://openalex.org/works/W11",
            "10.7717/PEERJ.4375",
        ):
            assert library.paper(name).id == "OpenAlex:W11"
        assert library.paper("OpenAlex:W12").id == "arXiv:2309.06180"
        cited = library.references("OpenAlex:W11").results
        assert {one.paper.id for one in cited} == {"arXiv:2309.06180", "OpenAlex:W13"}
        assert {one.paper.id: one.paper.status for one in cited}["arXiv:2309.06180"] == "retracted"
        assert [one.paper.id for one in library.citations("OpenAlex:W11").results] == ["OpenAlex:W13"]
        [author] = library.search_authors("Piwowar").results
        assert (author.id, author.paper_count) == ("A5048491430", 3)
        assert library.search("state", author=["A5048491430"]).total == 3
        assert library.search("fox den").total == 2


@pytest.mark.slow
def test_parquet_and_json_lines_give_the_same_library(tmp_path: Path) -> None:
    one = write(tmp_path / "jsonl/part_0000.gz", WORKS)
    other = write_parquet(tmp_path / "parquet/part_0000.parquet", WORKS)
    hashes = [
        ingest([source], tmp_path / f"library-{source.suffix}", rules=TITLE_RULE).content_hash
        for source in (one, other)
    ]
    assert hashes[0] == hashes[1]


def test_a_cut_parquet_file_is_a_clear_error(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "part_0000.parquet", WORKS)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(
        SourceError, match=r"part_0000\.parquet is incomplete or damaged: .* Download it again\."
    ):
        ingest([path], tmp_path / "library", rules=TITLE_RULE)
    assert not (tmp_path / "library" / "manifest.json").exists()


def test_a_parquet_file_of_vectors_is_no_source(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["2309.06180"], "vector": [[0.5, 0.5]]}), tmp_path / "vectors.parquet")
    with pytest.raises(SourceError, match=r"its columns are id, vector.*--vectors"):
        ingest([tmp_path / "vectors.parquet"], tmp_path / "library")


@pytest.mark.slow
def test_bad_rows_are_counted_with_their_numbers(tmp_path: Path) -> None:
    bad = [*WORKS, work(14, title="", display_name=None)]
    for path in (
        write(tmp_path / "a/part_0000.gz", bad),
        write_parquet(tmp_path / "b/part_0000.parquet", bad),
    ):
        library = tmp_path / f"library{path.suffix}"
        assert ingest([path], library, rules=TITLE_RULE).rejects == {"no-title": 1}
        [reject] = rejects(library)
        assert (reject["file"], reject["line"]) == (path.name, 4)
    many = write(tmp_path / "c/part_0000.gz", [*WORKS, *(work(n, title=7) for n in range(20, 40))])
    with pytest.raises(
        TooManyRejects, match=r"20 of 23 lines of the dataset openalex.*line 4 of part_0000\.gz"
    ):
        ingest([many], tmp_path / "many", rules=TITLE_RULE)


@pytest.mark.slow
def test_the_newest_record_of_a_work_counts(tmp_path: Path) -> None:
    """A work moves to a newer partition when it changes. Whoever keeps the older ones has it twice."""
    old = work(11, title="An old and much longer title", referenced_works=["https://openalex.org/W13"])
    new = work(
        11, title="New", updated_date="2026-07-01T00:00:00", referenced_works=["https://openalex.org/W12"]
    )
    contents = []
    for name, order in (("one", (old, new)), ("two", (new, old))):
        for number, one in enumerate(order):
            write(tmp_path / name / f"{number}.gz", [one, *WORKS[1:]])
        ingest([tmp_path / name], tmp_path / f"library-{name}", rules=TITLE_RULE)
        contents.append({t: r for t, r in rows(tmp_path / f"library-{name}").items() if t != "meta"})
    assert contents[0] == contents[1]
    with Library.open(tmp_path / "library-one") as library:
        assert library.paper("OpenAlex:W11").title == "New"
        assert [one.paper.id for one in library.references("OpenAlex:W11").results] == ["arXiv:2309.06180"]


def test_lists_of_deleted_and_merged_works(tmp_path: Path) -> None:
    """A deletion counts for the records that are older, in any order of the files."""
    write(tmp_path / "source/works.gz", [*WORKS, work(14, updated_date="2026-08-02T00:00:00")])
    (tmp_path / "source/deleted_ids.csv").write_text(
        "work_id,deleted_date\nhttps://openalex.org/W13,2026-06-24\nhttps://openalex.org/W14,2026-08-01\n"
    )
    with gzip.open(tmp_path / "source/2026-07-01.csv.gz", "wt") as file:
        file.write("merge_date,id,merge_into_id\n2026-07-01,W12,W11\n")
    manifest = ingest([tmp_path / "source"], tmp_path / "library", rules=TITLE_RULE)
    with Library.open(tmp_path / "library") as library:
        found = library.papers(["OpenAlex:W11", "OpenAlex:W12", "OpenAlex:W13", "OpenAlex:W14"])
    assert [paper is not None for paper in found] == [True, False, False, True]
    assert manifest.counts["edges"] == 0
    assert manifest.counts["openalex_deleted"] == 3


def test_works_join_the_papers_of_other_sources(tmp_path: Path) -> None:
    """Semantic Scholar's values stay, and a work fills those that are missing; two works of one arXiv paper are one."""
    paper = {
        "corpusid": 7,
        "externalids": {"ArXiv": "2309.06180", "MAG": None},
        "title": "The state of OA",
        "authors": [],
        "year": 2023,
    }
    (tmp_path / "papers.jsonl").write_text(json.dumps(paper) + "\n")
    at_arxiv = {"locations": [{"landing_page_url": "https://arxiv.org/abs/2309.06180"}]}
    works = [
        work(n, **at_arxiv, cited_by_count=n, referenced_works=["https://openalex.org/W9"]) for n in (21, 22)
    ]
    write(tmp_path / "works.gz", [*reversed(works), work(9)])
    sources = [tmp_path / "papers.jsonl", tmp_path / "works.gz"]
    manifest = ingest(sources, tmp_path / "library", rules=IngestRules())
    assert manifest.counts["openalex_joined"] == 2
    with Library.open(tmp_path / "library") as library:
        for name in ("OpenAlex:W21", "OpenAlex:W22", "CorpusId:7"):
            found = library.paper(name)
            assert (found.id, found.title, found.abstract) == ("arXiv:2309.06180", "The state of OA", TEXT)
        assert (found.citation_count, found.external_ids["OpenAlex"], found.year) == (21, "W21", 2018)
        assert library.citations("OpenAlex:W9").total == 1
    # The last line of an ingest did not count them.
    done = run_cli("ingest", *sources, "--library", tmp_path / "library", "--encoder", "none")
    assert "2 records of papers that another record has" in done.stdout, done.stderr


@pytest.mark.slow
def test_citations_of_works_continue_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "works.gz", WORKS)
    whole = ingest([source], tmp_path / "whole", rules=TITLE_RULE)
    without = ingest([source], tmp_path / "without", rules=IngestRules(keep="title", records=False))
    assert (without.content_hash, without.counts) == (whole.content_hash, whole.counts)
    monkeypatch.setattr(reading, "WORKS_PER_COMMIT", 1)
    write_batch, batches = CatalogWriter.write, []

    def fails_once(self: CatalogWriter, dataset: Dataset, *args: Any, **options: Any) -> Any:
        if dataset == "citations":
            batches.append(dataset)
            if len(batches) == 2:
                raise KeyboardInterrupt
        return write_batch(self, dataset, *args, **options)

    monkeypatch.setattr(CatalogWriter, "write", fails_once)
    with pytest.raises(KeyboardInterrupt):
        ingest([source], tmp_path / "library", rules=TITLE_RULE)
    assert ingest([source], tmp_path / "library", rules=TITLE_RULE).to_bytes() == whole.to_bytes()
    new = write(tmp_path / "new.gz", [work(13, title="New", updated_date="2026-08-01T00:00:00")])
    one, other = (
        update(tmp_path / name, [new], tmp_path / f"updated-{name}") for name in ("whole", "library")
    )
    assert one.content_hash == other.content_hash
    assert one.counts["edges"] == 2, "the first work still cites the changed one"
