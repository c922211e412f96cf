"""Values of filters that no paper has in this form: understood, or answered with a warning that names the nearest."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from tests.conftest import json_lines, serving_in_thread, snapshot_of

PAGES = [Path(__file__).parents[2] / page for page in ("docs/arguments.md", "tests/data/filter-values.md")]
ROWS = [
    row
    for page in PAGES
    for row in re.findall(r"^\| `(\{.*?\})` \| (.*) \|$", page.read_text(), re.MULTILINE)
]
"""The filters of the table in the documentation, and more, and what is understood or the warning."""
PAPERS: list[tuple[str, str, str, list[str], str, str, int]] = [
    ("1706.00001", "cs.CL cs.LG", "Neural Information Processing Systems", ["Conference"], "Ashish Vaswani",
     "2017-06-12", 900),
    ("1810.00002", "cs.CL", "Computational Linguistics", ["JournalArticle"], "Jacob Devlin", "2018-10-11", 800),
    ("hep-th/9301068", "hep-th", "Nuclear Physics B", ["JournalArticle"], "David J. Gross", "1993-01-20", 400),
    ("1501.00004", "stat.ML", "Journal of Machine Learning Research (JMLR)", ["JournalArticle"], "Ann Lee",
     "2015-01-05", 30),
    ("2001.00005", "cs.IR", "arXiv.org", ["JournalArticle", "Review"], "Yoshua Bengio", "2020-01-07", 20),
    ("1202.0006", "math.AG", "Annals of Mathematics", ["JournalArticle"], "Bo Chen", "2012-02-03", 10),
    ("1203.0007", "physics.flu-dyn", "Physics of Fluids", ["Review"], "Cleo Diaz", "2012-03-04", 5),
    ("1204.0008", "eess.SY cond-mat.supr-con", "arXiv.org", [], "Dora Evans", "2012-04-05", 0),
]  # fmt: skip


def make_library(folder: Path) -> Path:
    lines = [
        {"id": key, "title": f"Lattice {key}", "categories": categories, "authors": author, "abstract": "A lattice.",
         "versions": [{"version": "v1", "created": day}]}
        for key, categories, _, _, author, day, _ in PAPERS
    ]  # fmt: skip
    rows = [
        {"corpusid": number, "externalids": {"ArXiv": key}, "title": f"Lattice {key}", "venue": venue,
         "publicationtypes": types, "authors": [{"authorId": str(number), "name": author}],
         "publicationdate": day, "year": int(day[:4]), "citationcount": citations, "abstract": "A lattice."}
        for number, (key, _, venue, types, author, day, citations) in enumerate(PAPERS, 1)
    ]  # fmt: skip
    json_lines(folder / "arxiv.jsonl", lines)
    release = snapshot_of(folder / "release", rows, [(2, 1), (5, 1), (5, 2), (4, 1)])
    ingest([folder / "arxiv.jsonl", release], folder / "library")
    return folder / "library"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("values"))


def answered(library: Library, filters: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The papers that pass, and the warnings without the snapshot."""
    filters = {name.replace("from", "from_"): value for name, value in filters.items()}
    response = library.search("lattice", mode="sparse", limit=50, **filters)
    warnings = [text.replace(f" (snapshot {library.snapshot_id})", "") for text in response.warnings]
    return sorted(hit.paper.id for hit in response.results), warnings


def test_values_are_answered_as_documented(library: Library) -> None:
    assert len(ROWS) >= 40
    assert len(answered(library, {})[0]) == len(PAPERS)
    for written, result in ROWS:
        found, warnings = answered(library, json.loads(written))
        if result.startswith("`{"):
            understood = answered(library, json.loads(result.strip("`")))
            assert (found, warnings) == understood, written
            assert found, written
            assert not warnings
        else:
            assert warnings == [result], written
            known = "cs.CL" in written and ["cs.CL"]
            assert found == (answered(library, {"category": known})[0] if known else []), written


TWO: dict[str, Any] = {"category": ["cs.CL", "cs.NLP"], "venue": ["NIPS"]}


def test_every_list_has_the_same_warnings(library: Library) -> None:
    first = "arXiv:1706.00001"
    expected = library.search("lattice", **TWO).warnings
    assert len(expected) == 2
    tools, arguments = Tools(library), {"fields": ["title"], **TWO}
    with serving_in_thread(library) as url:
        over_http = httpx.get(f"{url}/v1/search", params={"q": "lattice", **TWO}).json()
        text = httpx.get(f"{url}/v1/search", params={"q": "lattice", "format": "text", **TWO}).text
    assert all(f"Warning: {warning}" in text for warning in expected)
    for warnings in (
        library.search_batch([{"q": "lattice", **TWO}])[0].warnings,
        library.similar(first, **TWO).warnings,
        library.expand([first], **TWO).warnings,
        library.facets(**TWO).warnings,
        library.facets("lattice", **TWO).warnings,
        tools.call("search_papers", {"q": "lattice", **arguments})["warnings"],
        tools.call("expand_papers", {"seeds": [first], **arguments})["warnings"],
        over_http["warnings"],
    ):
        assert tuple(warnings) == expected
    for edges in (library.citations, library.references):
        late, nobody = edges(first, author="Yoshua Bengo", from_="2050").warnings[::-1]
        assert "Nearest to 'Yoshua Bengo': 'Yoshua Bengio'." in nobody
        assert "the latest date is 2020-01-07" in late


def test_types_filter_every_list_and_leg(library: Library) -> None:
    reviews, others = ["arXiv:1203.0007", "arXiv:2001.00005"], len(PAPERS) - 2
    for wanted, count in (("Review", 2), ("-Review", others), (["Review", "Conference"], 3)):
        for engine in ("bm25", "feedback", "fts5"):
            assert (
                library.search("lattice", mode="sparse", engine=engine, type=wanted, exact=True).total
                == count
            )
        assert library.facets(type=wanted).total == count
    assert sorted(hit.paper.id for hit in library.search("lattice", type="Review").results) == reviews
    assert [hit.paper.id for hit in library.expand(["1706.00001"], type="surveys").results] == reviews[1:]
    assert library.expand(["1706.00001"], type=["JournalArticle", "-Review"]).total == 2


def test_many_long_unknown_values_have_short_warnings(library: Library) -> None:
    filters: dict[str, Any] = {
        "category": [f"{number:04}{'x' * 46}" for number in range(1000)],
        "venue": [f"{number:04}{'y ' * 248}" for number in range(1000)],
        "author": [f"{number:04}{'z' * 496}" for number in range(500)],
    }
    _, warnings = answered(library, filters)
    assert [warning.partition(":")[0] for warning in warnings] == ["author", "category", "venue"]
    assert all(len(warning) < 1500 for warning in warnings)
    assert " and 990 more" in warnings[1]
    with pytest.raises(InvalidRequest, match="A value of venue has 10,000 characters"):
        library.search("lattice", venue=["v" * 10_000])


def test_only_types_are_left_out(library: Library) -> None:
    for name, sign in product(("category", "venue", "author"), "-!~"):
        message = f"{name} '{sign}cs.CL' would leave papers out, but this filter only keeps papers"
        with pytest.raises(InvalidRequest, match=re.escape(message)):
            library.search("lattice", **{name: ["hep-th", f"{sign}cs.CL"]})  # type: ignore[arg-type]


def test_an_index_that_cannot_list_values_warns(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise VectorIndexError("No appropriate index for faceting: `types`.")

    with Library.open(library.path) as other:
        monkeypatch.setattr(other._vectors, "values", fail)
        [warning] = other.search("lattice", type="foo").warnings
        assert warning.endswith("has a publication type.")
        assert other.search("lattice", type="Review").total == 2


def test_values_pass_as_sent_if_the_vectors_cannot_be_read(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise VectorIndexError("The server is down.")

    with Library.open(library.path) as other:
        for name in ("first", "values"):
            monkeypatch.setattr(other._vectors, name, fail)
        response = other.expand(["arXiv:1706.00001"], category=["cs.new"], to="1960")
        assert (response.total, response.warnings) == (0, ())
        assert other.expand(["arXiv:1706.00001"], category=["cs.AR", "cs.IR"]).total == 1
