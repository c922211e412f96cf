"""``exclude``: papers with a phrase are left out of every leg, before its cut. What has a phrase is seen here in the
raw records' own texts."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.indexes.vectors import index
from scholarbase.models.requests import Filters
from scholarbase.search import lookup
from scholarbase.search.library import Library
from tests.libraries import opened_library, papers_of
from tests.search.test_library import WAYS, ids

TEXTS = [
    ("Replication of databases", "Local replication and remote replication are compared."),
    ("Locally replicated stores", "Databases of many sites."),
    ("Replication, local and remote", "Databases again."),
    ("Databases", "Nothing more is said."),
    ("The local of databases", "Replication follows in the abstract."),
    ("LOCAL-REPLICATIONS: databases", "Capitals, a hyphen and a plural."),
    ("Databases of Erdős numbers", 'He said "graph" AND left.'),
    ("Databases and c++", "(title: x OR y*) NEAR(z)"),
    ("量子 databases", "深度"),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("exclusion")
    rows = [row | {"publicationdate": f"200{row['corpusid']}-01-01"} for row in papers_of(TEXTS)]
    edges = [(1, 2), (2, 3), (2, 6), (1, 4), (4, 5)]
    with opened_library(folder, rows, edges) as opened:
        yield opened


@pytest.mark.parametrize("engine", ["bm25", "feedback", "fts5"])
def test_papers_with_a_phrase_are_left_out(small: Library, engine: Any) -> None:
    cases: list[tuple[Any, set[int]]] = [
        (["local replication"], {1, 2, 6}),  # stems: locally replicated, replications
        (["replication local"], {3}),  # the order counts, punctuation does not
        (["LOCAL   Réplication!"], {1, 2, 6}),
        (['"local replication"'], {1, 2, 6}),
        (["local replication", "erdos number"], {1, 2, 6, 7}),
        ("local replication", {1, 2, 6}),
        (["databases replication"], set()),  # not over the end of the title
        (["graph AND left"], {7}),
        (["graph OR local"], set()),
        (["local*"], {1, 2, 3, 5, 6}),
        (["c++"], {8}),
        (["title: x"], {8}),
        (["NEAR(z)"], {8}),
        (["量子"], {9}),
        (["量"], set()),
        (["'; DROP TABLE papers"], set()),
        (['a " b', 'c""d'], set()),
        ([], set()),
    ]
    for phrases, left_out in cases:
        found = small.search("databases replication", engine=engine, exclude=phrases, exact=True)
        assert {hit.paper.corpus_id for hit in found.results} == set(range(1, 10)) - left_out, phrases
        assert found.total == 9 - len(left_out)


@pytest.mark.parametrize("way", WAYS)
def test_every_leg_leaves_them_out_before_its_cut(dense: Library, way: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"limit": 1000, "fields": ["title", "abstract"], **way}
    everything = dense.search("gauge theory", **asked).results
    having = {
        hit.paper.id
        for hit in everything
        if re.search(r"\bgauge\W+theor(y|ies)\b", f"{hit.paper.title} | {hit.paper.abstract}", re.IGNORECASE)
    }
    assert 0 < len(having) < len(everything)
    left = dense.search("gauge theory", exclude=["gauge theory"], **asked)
    assert set(ids(left)) == {hit.paper.id for hit in everything} - having
    assert left.total == len(left.results)
    few = dense.search("gauge theory", exclude=["gauge theory"], **(asked | {"limit": 5}))
    assert few.results == left.results[:5]


@pytest.mark.parametrize("way", WAYS)
def test_a_long_list_is_left_out_as_a_short_one_is(
    dense: Library, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is told of a short list; of a long one it finds more, up to a limit, and they are left out after."""
    asked: dict[str, Any] = {"exclude": ["gauge theory"], "fields": ["title"], **way}
    told = [dense.search("gauge theory", limit=limit, **asked) for limit in (3, 20, 1000)]
    monkeypatch.setattr(index, "LONG_EXCLUSION", 0)
    for most_fetched in (20_000, 40):
        monkeypatch.setattr(index, "MOST_FETCHED", most_fetched)
        assert [dense.search("gauge theory", limit=limit, **asked) for limit in (3, 20, 1000)] == told


def test_a_phrase_and_ids_and_syntax_go_together(dense: Library) -> None:
    q = 'gauge NOT "string theory"'
    plain = dense.search(q, limit=1000, fields=["title"])
    assert plain.mode == "hybrid"
    one = ids(plain)[0]
    found = ids(dense.search(q, limit=1000, exclude=["black hole"], exclude_ids=[one]))
    holes = ids(dense.search('"black hole"', mode="sparse", limit=1000))
    assert set(found) == set(ids(plain)) - {one, *holes}


def test_neighbours_with_a_phrase_are_left_out_and_walked_over(small: Library) -> None:
    asked: dict[str, Any] = {"direction": "references", "hops": 2}
    every = {n.paper.corpus_id: n.hops for n in small.expand(["CorpusId:1"], **asked).results}
    assert every == {2: 1, 4: 1, 3: 2, 5: 2, 6: 2}
    found = small.expand(["CorpusId:1"], exclude=["local replication"], **asked)
    assert {n.paper.corpus_id: n.hops for n in found.results} == {4: 1, 3: 2, 5: 2}
    assert found.total == 3
    assert small.expand(["CorpusId:4"], exclude=["local"], **asked).total == 0


def test_phrases_with_a_colon_are_phrases() -> None:
    phrases = ("arXiv: a review", "BERT: pre-training", "ratio 1:10", "doi:", "10.1 tables")
    assert Filters(exclude=phrases).exclude == phrases
    assert Filters(exclude="one text").exclude == ("one text",)


@pytest.mark.parametrize("engine", ["bm25", "feedback", "fts5"])
def test_an_exclusion_that_leaves_nothing_says_so(small: Library, engine: Any) -> None:
    nothing = small.search("databases", engine=engine, exclude=["database", "erdos"], limit=1, offset=2)
    assert (nothing.total, nothing.results, nothing.next_offset) == (0, (), None)
    assert nothing.warnings == ("exclude removes every result: 9 without it.",)
    earlier = small.search("databases", engine=engine, exclude=["database"], as_of="2004-12")
    assert earlier.warnings == ("exclude removes every result: 4 without it.",)
    unmatched = small.search("zzyzx", engine=engine, exclude=["database"])
    assert (unmatched.total, unmatched.warnings) == (0, ())
    assert "warnings" not in unmatched.to_dict()
    [one] = small.search_batch([{"q": "databases", "engine": engine, "exclude": ["databases"]}])
    assert "9 without it" in one.warnings[0]


def test_an_unknown_id_excludes_nothing_and_is_named(small: Library) -> None:
    everything = small.search("databases")
    found = small.search("databases", exclude_ids=["arXiv:2001.00001", "CorpusId:1"], fields=["title"])
    assert ids(found) == [i for i in ids(everything) if i != small.paper("CorpusId:1").id]
    [warning] = found.warnings
    assert "'arXiv:2001.00001'" in warning
    assert "CorpusId:1'" not in warning
    assert found.to_dict()["warnings"] == [warning]
    assert "'arXiv:2001.00001'" in small.expand(["CorpusId:1"], exclude_ids="arXiv:2001.00001").warnings[0]
    many = small.search("databases", exclude_ids=[f"arXiv:2001.{n:05}" for n in range(1, 100)])
    assert many.warnings[0].endswith("and 79 more.")
    # A later paper cannot be a result either.
    later = max((hit.paper for hit in everything.results), key=lambda paper: paper.publication_date or "")
    earlier = small.search("databases", as_of="2004-12", exclude_ids=later.id)
    assert earlier.results == small.search("databases", as_of="2004-12").results
    assert f"as of 2004-12: {later.id!r}" in earlier.warnings[0]


def test_too_many_papers_are_refused_by_name(small: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MAX_SYNTAX_MATCHES", 8)
    with pytest.raises(
        InvalidRequest, match=r"exclude \['databases\.'\] matches more than 8 papers: use longer phrases"
    ):
        small.search("local", exclude=["databases."])  # not one that was looked for before
    # Papers that are not there yet are none of them.
    assert small.search("remote", exclude=["stores"], as_of="2003-12").total == 2
