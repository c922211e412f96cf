"""JSON documents of papers: arrays, pages of APIs, and objects over several lines."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholarbase.bibliographies.json_items import LISTS
from scholarbase.errors import SourceError
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources import Dataset, StoredBytes, discover, read_records
from scholarbase.ingest.sources.json_records import json_records
from scholarbase.search.library import Library
from scholarbase.updates.job import update
from tests.conftest import json_lines
from tests.ingest.sources.test_own import papers, rejects, written

WORK = {
    "id": "https://openalex.org/W1",
    "title": "A work",
    "authorships": [{"author": {"id": "https://openalex.org/A5", "display_name": "Ann Bell"}}],
    "referenced_works": ["https://openalex.org/W2"],
    "publication_year": 2001,
}
ANSWER = {
    "paperId": "a" * 40,
    "externalIds": {"ArXiv": "1706.03762", "CorpusId": 13756489},
    "title": "An answer",
    "authors": [{"authorId": "9", "name": "Ann Bell"}],
    "publicationDate": "2017-06-12",
    "venue": "",
    "publicationVenue": {"name": "NeurIPS"},
    "journal": {"name": "J", "volume": "3", "pages": "1-2"},
    "tldr": {"model": "m", "text": "It is short."},
    "citationCount": 7,
    "fieldsOfStudy": ["Physics"],
}
ITEM = {
    "title": ["An item"],
    "author": [{"given": "A", "family": "Bell"}, {"name": "Org, Inc."}],
    "DOI": "10.1000/i",
}
ARXIV = {"id": "0704.0001", "title": "Of arXiv", "categories": "hep-ph", "authors": "A. Bell and C. Dee"}
LISTED = {"title": "Of a list", "authors": ["Ann Bell", "Carl Dee"], "url": "https://doi.org/10.1000/L"}

FORMS: list[tuple[str, Callable[[Any], str]]] = [
    ("array", lambda record: json.dumps([record])),
    ("page", lambda record: json.dumps({"meta": {"data": [1]}, "results": [record], "next": None})),
    ("data", lambda record: json.dumps({"total": 1, "data": [record]}, indent=1)),
    ("pages", lambda record: json.dumps([{"results": [record]}, {"results": []}])),
    ("page-lines", lambda record: json.dumps({"results": [record]}) + '\n{"results": []}\n'),
    ("object", lambda record: json.dumps(record, indent=2)),
    ("line", json.dumps),
    ("wrapped", lambda record: json.dumps({"status": "ok", "message": {"items": [record]}})),
    ("message", lambda record: json.dumps({"status": "ok", "message": record})),
]


@pytest.mark.parametrize("form", [form for _, form in FORMS], ids=[name for name, _ in FORMS])
def test_a_record_is_the_same_in_every_form(form: Callable[[Any], str], tmp_path: Path) -> None:
    def read(record: Any) -> Any:
        path = written(tmp_path / "my.json", form(record))
        [paper] = papers(path)
        assert not rejects(path)
        return paper

    work = read(WORK)
    assert (work.title, work.authors, work.year, work.references) == (
        "A work",
        [("Ann Bell", "A5")],
        2001,
        [2],
    )
    answer = read(ANSWER)
    assert (answer.arxiv_id, answer.authors, answer.citation_count) == ("1706.03762", [("Ann Bell", "9")], 7)
    assert (answer.publication_date, answer.venue, answer.tldr) == ("2017-06-12", "NeurIPS", "It is short.")
    assert answer.external_ids == {"sha": "a" * 40, "CorpusId": "13756489"}
    assert answer.details["journal"] == ["J", "3", "1-2"]
    item = read(ITEM)
    assert (item.title, item.external_ids) == ("An item", {"DOI": "10.1000/i"})
    assert [name for name, _ in item.authors] == ["A Bell", "Org, Inc."]
    arxiv = read(ARXIV)
    assert (arxiv.arxiv_id, arxiv.categories, len(arxiv.authors)) == ("0704.0001", ["hep-ph"], 2)
    listed = read(LISTED)
    assert (listed.title, listed.external_ids, len(listed.authors)) == ("Of a list", {"DOI": "10.1000/l"}, 2)


@pytest.mark.parametrize(
    ("record", "arxiv_id", "authors"),
    [
        ({"citedPaper": ANSWER, "contexts": []}, "1706.03762", ["Ann Bell"]),
        ({"citingPaper": ANSWER, "isInfluential": True}, "1706.03762", ["Ann Bell"]),
        (
            {"entry_id": "http://arxiv.org/abs/2101.00001v1", "title": "T", "categories": ["cs.CL"]},
            "2101.00001",
            [],
        ),
        (
            {"id": "http://arxiv.org/abs/2101.00001v2", "title": "T", "categories": ["cs.CL"]},
            "2101.00001",
            [],
        ),
        (
            {"type": "book", "title": "T", "author": "Ann Bell; Carl Dee", "issued": "2019"},
            None,
            ["Ann Bell", "Carl Dee"],
        ),
        ({"title": "T", "author": "Ann Bell, Carl Dee", "year": "2019"}, None, ["Ann Bell", "Carl Dee"]),
        (
            {"title": "T", "authors": [{"name": "Ann Bell"}, {"given": "Carl", "family": "Dee"}]},
            None,
            ["Ann Bell", "Carl Dee"],
        ),
        ({"paperId": None, "title": "Of no id", "authors": []}, None, []),
    ],
)
def test_records_of_other_programs(
    record: Any, arxiv_id: str | None, authors: list[str], tmp_path: Path
) -> None:
    [paper] = papers(written(tmp_path / "my.json", json.dumps([record])))
    assert (paper.arxiv_id, [name for name, _ in paper.authors]) == (arxiv_id, authors)
    assert paper.arxiv_id or paper.external_ids


def test_what_fits_no_known_form_is_refused_with_its_keys(tmp_path: Path) -> None:
    path = written(tmp_path / "my.json", '[{"name": "x", "score": 1}]')
    with pytest.raises(
        SourceError, match=r"records with the keys name, score\. Works of OpenAlex \(id, .*--columns"
    ):
        papers(path)
    assert [paper.title for paper in papers(path, title="name")] == ["x"]
    with pytest.raises(SourceError, match="its JSON has no records"):
        papers(written(tmp_path / "none.json", "[]"))


@pytest.mark.parametrize(
    ("text", "titles", "lines"),
    [
        ('[{"title": "A"}, {"title": "B",, "x": [{}]}, {"title": "C"}]', ["A", "C"], [1]),
        ('[\n {"title": "A"},\n {"title": "B},\n {"title": "C"}\n]', ["A", "C"], [3]),
        ('[\n {"title": "A"},\n {"title": ["B"},\n {"title": "C"}\n]', ["A", "C"], [3]),
        ('[{"title": "A"},\n{"title": "B"', ["A"], [2]),
        (
            '{"results": [{"title": "A"},\n 7, {"title": "B"}], "n": {"data": [{"title": "no"}]}}',
            ["A", "B"],
            [2],
        ),
    ],
)
def test_records_behind_a_broken_one(text: str, titles: list[str], lines: list[int], tmp_path: Path) -> None:
    path = written(tmp_path / "my.json", text)
    assert [paper.title for paper in papers(path)] == titles
    assert [line for line, _ in rejects(path)] == lines


class _Slow(io.BytesIO):
    """A stream of a few bytes at a time."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read(3)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), _VALUES, min_size=1, max_size=3), max_size=4),
    st.sampled_from((None, 1, "\t")),
    st.booleans(),
    st.sampled_from(sorted(LISTS)),
)
def test_records_are_those_of_json(records: list[Any], indent: Any, ascii: bool, key: str) -> None:
    def dumped(value: Any) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=ascii)

    pages = [{"n": 1, key: records}] if records else []
    for text in (dumped(records), dumped(pages), "\n".join(map(dumped, records))):
        data = text.encode("utf-8", "surrogatepass")
        found = [(line, json.loads(raw)) for line, raw in json_records(_Slow(data))]  # type: ignore[arg-type]
        assert [record for _, record in found] == records
        assert all("{" in text.split("\n")[line - 1] for line, _ in found)


def test_an_array_makes_the_library_of_its_lines(tmp_path: Path) -> None:
    works = [WORK, WORK | {"id": "https://openalex.org/W2", "title": "Another", "referenced_works": []}]
    json_lines(tmp_path / "lines.jsonl", works)
    (tmp_path / "array.json").write_text(json.dumps({"results": works}))
    found = []
    for name in ("lines.jsonl", "array.json"):
        out = tmp_path / name.partition(".")[0]
        assert ingest([tmp_path / name], out, rules=IngestRules(keep="title")).counts["edges"] == 1
        with Library.open(out) as library:
            found.append([hit.paper for hit in library.search("work another").results])
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_an_update_with_a_page_makes_the_library_of_a_full_build(tmp_path: Path) -> None:
    old = WORK | {"updated_date": "2024-01-01"}
    new = [old | {"title": "Changed", "updated_date": "2025-01-01"}, WORK | {"id": "https://openalex.org/W2"}]
    for name, records in (("old", [old]), ("page", {"results": new}), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(records))
    for name in ("old", "new"):
        ingest([tmp_path / f"{name}.json"], tmp_path / name, rules=IngestRules(keep="title"))
    update(tmp_path / "old", [tmp_path / "page.json"], tmp_path / "updated")
    manifests = []
    for name in ("updated", "new"):
        with Library.open(tmp_path / name) as library:
            manifests.append(library.manifest.content)
    assert manifests[0] == manifests[1]


def test_a_document_with_several_kinds_of_papers(tmp_path: Path) -> None:
    path = tmp_path / "mixed.json"
    path.write_bytes(
        b"\xef\xbb\xbf" + orjson.dumps([WORK, LISTED, ANSWER, ARXIV, ITEM, "a", 5, {"no": "title"}])
    )
    [file] = discover([path])
    entries = [entry.record for entry in read_records(file, StoredBytes(), {})]
    assert file.dataset is Dataset.JSON_LINES
    assert [type(one).__name__ for one in entries] == ["PaperRecord"] * 5 + ["Reject"] * 3
    details = [one.detail for one in entries if isinstance(one, Reject)]
    assert [detail.partition(":")[0] for detail in details] == ["Record 6", "Record 7", "Record 8"]


def test_numbers_that_python_writes_and_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text('[{"title": "A title", "year": NaN}]')
    [file] = discover([path])
    [entry] = read_records(file, StoredBytes(), {})
    assert isinstance(entry.record, PaperRecord)
    path.write_text('[{"year": NaN}]')
    with pytest.raises(SourceError, match="its JSON has records with the keys year"):
        discover([path])


@pytest.mark.parametrize("text", ["Title\nA title\n", "sep=\t\nTitle\tYear\nA title\t2001\n"])
def test_csv_of_one_column_and_of_tabs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text)
    [file] = discover([path])
    [entry] = read_records(file, StoredBytes(), {})
    assert isinstance(entry.record, PaperRecord)
    assert entry.record.title == "A title"
