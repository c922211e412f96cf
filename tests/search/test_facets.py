"""Facets: their counts are those of SQL statements written here, and of the papers that a search returns."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.ingest.job import ingest
from scholarbase.models.responses import Facet
from scholarbase.search.library import Library
from tests.conftest import snapshot_of


def counts(facet: Facet) -> dict[Any, int]:
    return {one.value: one.papers for one in facet.values}


def by_sql(
    library: Library, condition: str, values: tuple[Any, ...]
) -> tuple[int, dict[str, dict[Any, int]]]:
    """The number of papers that meet a condition, and their numbers by value, one statement for each paper's row."""
    with closing(sqlite3.connect(f"file:{library.path}/catalog.sqlite?immutable=1", uri=True)) as connection:
        rows = connection.execute(
            f"SELECT year, categories, venue FROM papers WHERE {condition}", values
        ).fetchall()
    return len(rows), {
        "year": Counter(year for year, _, _ in rows if year is not None),
        "category": Counter(one for _, listed, _ in rows for one in (listed or "").split()),
        "venue": Counter(venue for _, _, venue in rows if venue),
    }


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "from_": st.integers(1990, 2005).map(str),
        "to": st.integers(2005, 2012).map(str),
        "category": st.sampled_from(["hep-th", "cs", "cs.CL", "gr-qc", "q-fin.ST"]),
        "min_citations": st.integers(0, 200),
    },
)


@settings(max_examples=40, deadline=None)
@given(filters=FILTERS)
def test_counts_equal_those_of_sql_on_random_filters(sample: Library, filters: dict[str, Any]) -> None:
    conditions, values = ["1"], []
    if "from_" in filters:
        conditions.append("first_day >= ?")
        values.append(int(filters["from_"]) * 10_000)
    if "to" in filters:
        conditions.append("last_day <= ?")
        values.append(int(filters["to"]) * 10_000 + 1231)
    if "category" in filters:
        name = filters["category"]
        conditions.append("(' ' || categories || ' ' LIKE ? OR ' ' || categories LIKE ?)")
        values += [f"% {name} %", f"% {name}.%" if "." not in name else f"% {name} %"]
    if "min_citations" in filters:
        conditions.append("citation_count >= ?")
        values.append(filters["min_citations"])
    total, expected = by_sql(sample, " AND ".join(conditions), tuple(values))
    found = sample.facets(**filters, limit=1000)
    assert (found.counted, found.total, found.total_relation) == ("filters", total, "eq")
    assert counts(found.year) == expected["year"]
    assert [one.value for one in found.year.values] == sorted(expected["year"])
    assert counts(found.category) == expected["category"]
    # The sample has no list of venues' names, and no two spellings of one.
    assert found.venue.distinct == len(expected["venue"])
    assert counts(found.venue).items() <= expected["venue"].items()
    assert sum(expected["year"].values()) + found.year.unknown == total
    assert sum(expected["venue"].values()) + found.venue.unknown == total


def test_the_first_values_have_most_papers(sample: Library) -> None:
    few, all_of_them = sample.facets(limit=3), sample.facets(limit=1000)
    assert few.category.values == all_of_them.category.values[:3]
    numbers = [one.papers for one in all_of_them.category.values]
    assert numbers == sorted(numbers, reverse=True)
    assert few.category.distinct == len(numbers) == all_of_them.category.distinct
    assert len(few.year.values) == few.year.distinct > 3


@pytest.mark.parametrize("engine", ["bm25", "fts5"])
def test_with_q_the_results_of_the_search_are_counted(sample: Library, engine: Any) -> None:
    papers = [hit.paper for hit in sample.iter_search("black holes", engine=engine, limit=1000)]
    found = sample.facets("black holes", engine=engine, limit=1000)
    assert found.counted == "results"
    assert found.total == len(papers)
    assert counts(found.year) == Counter(paper.year for paper in papers)
    assert counts(found.category) == Counter(one for paper in papers for one in paper.categories)


def test_a_search_with_more_results_says_so(sample: Library) -> None:
    found = sample.facets("theory of strings, gravity, fields or models")
    assert (found.counted, found.total, found.total_relation) == ("results", 1000, "gte")


def test_a_hybrid_search_is_counted_to_its_end(dense: Library) -> None:
    papers = [hit.paper for hit in dense.iter_search("string theory")]
    found = dense.facets("string theory")
    assert found.total == len(papers)
    assert counts(found.year) == Counter(paper.year for paper in papers)


@pytest.mark.parametrize("q", ["gravity OR string*", "black holes", '"string theory" NOT duality', "zzyzxq"])
def test_exact_counts_every_match_of_the_full_text_index(sample: Library, q: str) -> None:
    words = {"black holes": "black OR holes", "gravity OR string*": "gravity OR string*"}.get(q, q)
    condition = "id IN (SELECT rowid FROM fulltext WHERE fulltext MATCH ?)"
    total, expected = by_sql(sample, condition, (words,))
    found = sample.facets(q, exact=True, limit=1000)
    assert (found.counted, found.total, found.total_relation) == ("matches", total, "eq")
    assert counts(found.year) == expected["year"]
    total, expected = by_sql(sample, f"{condition} AND first_day >= 20000101", (words,))
    found = sample.facets(q, exact=True, from_="2000")
    assert (found.total, counts(found.year)) == (total, expected["year"])


def test_nothing_is_counted_of_a_query_without_words(sample: Library) -> None:
    found = sample.facets("...", exact=True)
    assert (found.total, found.year.values, found.venue.values) == (0, (), ())


# -- venues with several names -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def venues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Six papers: three of one conference under two names, one of another with a spelling of its own, two without."""
    names = ["ACL", "ACL", "Annual Meeting of the ACL", "nature", None, ""]
    rows = [
        {
            "corpusid": number,
            "title": f"Paper number {number}",
            "abstract": "About facets.",
            "year": 2000 + number if number < 6 else None,
            "venue": name,
            "externalids": {"ArXiv": f"2401.{number:05d}"},
        }
        for number, name in enumerate(names, 1)
    ]
    folder = tmp_path_factory.mktemp("venues")
    snapshot_of(folder / "snapshot", rows)
    venue = {"id": "v1", "name": "Annual Meeting of the ACL", "alternate_names": ["ACL", "ACL Conference"]}
    (folder / "snapshot" / "publication-venues").mkdir()
    (folder / "snapshot" / "publication-venues" / "00000.jsonl").write_text(json.dumps(venue) + "\n")
    ingest([folder / "snapshot"], folder / "library")
    with Library.open(folder / "library") as library:
        yield library


def test_all_names_of_a_venue_are_one_value(venues: Library) -> None:
    found = venues.facets()
    assert counts(found.venue) == {"ACL": 3, "nature": 1}
    assert (found.venue.distinct, found.venue.unknown, found.year.unknown) == (2, 2, 1)
    assert (found.category.values, found.category.unknown) == ((), 6)
    for name, papers in counts(found.venue).items():
        assert venues.facets(venue=[name]).total == papers
        assert venues.search("facets", venue=[name]).total == papers
