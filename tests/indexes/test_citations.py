"""Citation edges, on a graph small enough to count by hand, and expansion against a plain breadth-first walk."""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scholarbase.errors import LibraryCorrupt, TooManyEdges
from scholarbase.indexes import citations
from scholarbase.indexes.citations import Edge, EdgeRow, Most, NeighbourRow
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.schema import open_for_building
from scholarbase.models.limits import Direction

# id: (citation_count, first_day, last_day)
PAPERS = {
    1: (90, 20170612, 20170612),
    2: (50, 20181011, 20181011),
    3: (None, 20190101, 20191231),
    4: (50, 20190605, 20190605),
    5: (7, None, None),
    6: (0, 20200528, 20200528),
}
# 2, 3, 4, 5 cite 1; 6 cites 2 and 4; 4 cites 2.
EDGES = [(2, 1), (3, 1), (4, 1), (5, 1), (6, 2), (6, 4), (4, 2)]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_for_building(tmp_path / "catalog.sqlite")
    connection.executemany(
        "INSERT INTO papers(id, title, citation_count, first_day, last_day) VALUES (?, ?, ?, ?, ?)",
        [(i, f"Paper {i}", *values) for i, values in PAPERS.items()],
    )
    citations.insert_edges(connection, [EdgeRow(*edge) for edge in EDGES])
    yield connection
    connection.close()


def stored(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT * FROM edges ORDER BY citing, cited").fetchall()


def test_rows_of_one_edge_are_merged(catalog: sqlite3.Connection) -> None:
    catalog.execute("DELETE FROM edges")
    rows = [
        EdgeRow(2, 1, None, None, ["background"]),
        EdgeRow(2, 1, False, ["as in [1]"], []),
        EdgeRow(2, 1, True, ["another"], ["method"]),
        EdgeRow(2, 1, False),
        EdgeRow(3, 1, False),
        EdgeRow(4, 1),
    ]
    citations.insert_edges(catalog, rows)
    once = stored(catalog)
    assert once == [
        (2, 1, 1, '["as in [1]"]', '["background"]'),
        (3, 1, 0, None, None),
        (4, 1, None, None, None),
    ]
    citations.insert_edges(catalog, rows)
    assert stored(catalog) == once


def test_self_citations_are_not_stored(catalog: sqlite3.Connection) -> None:
    citations.insert_edges(catalog, [EdgeRow(5, 5)])
    assert len(stored(catalog)) == len(EDGES)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("-citation_count", [2, 4, 5, 3]),
        ("citation_count", [5, 2, 4, 3]),
        ("-date", [4, 3, 2, 5]),
        ("date", [2, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("at_most", [None, 10])
def test_sorts_put_nulls_last_and_break_ties_by_id(
    catalog: sqlite3.Connection, sort: str, order: list[int], at_most: int | None
) -> None:
    page = citations.page(catalog, 1, "citations", 10, 0, sort, at_most=at_most)  # type: ignore[arg-type]
    assert [edge.paper_id for edge in page] == order


@pytest.mark.parametrize("at_most", [None, 10])
def test_of_equal_first_days_the_last_one_decides(catalog: sqlite3.Connection, at_most: int | None) -> None:
    days = [(7, 20200101, 20201231), (8, 20200101, 20200101)]
    catalog.executemany("INSERT INTO papers(id, title, first_day, last_day) VALUES (?, 'x', ?, ?)", days)
    citations.insert_edges(catalog, [EdgeRow(7, 6), EdgeRow(8, 6)])
    newest = citations.page(catalog, 6, "citations", 10, 0, "-date", at_most=at_most)
    oldest = citations.page(catalog, 6, "citations", 10, 0, "date", at_most=at_most)
    assert [edge.paper_id for edge in newest] == [7, 8]
    assert [edge.paper_id for edge in oldest] == [8, 7]


def test_a_page_is_cut_at_its_limit_however_few_edges_there_are(catalog: sqlite3.Connection) -> None:
    assert citations.few(catalog, 1, "citations") == 4
    assert [e.paper_id for e in citations.page(catalog, 1, "citations", 3, at_most=4)] == [2, 4, 5]
    assert [e.paper_id for e in citations.page(catalog, 1, "citations", 4, 3, at_most=4)] == [3]


def test_few_is_none_for_a_hub(catalog: sqlite3.Connection) -> None:
    ids = range(1000, 1001 + citations.FEW)
    catalog.executemany("INSERT INTO papers(id, title) VALUES (?, 'A paper')", [(i,) for i in ids])
    citations.insert_edges(catalog, [EdgeRow(i, 6) for i in ids])
    assert citations.count(catalog, 6, "citations") == len(ids)
    assert citations.few(catalog, 6, "citations") is None
    assert citations.few(catalog, 6, "references") == 2


def test_fault_3_totals_count_the_edges_that_paging_returns(catalog: sqlite3.Connection) -> None:
    """The papers' own citation_count says 90; the library has four edges, and counts and pages four."""
    assert citations.count(catalog, 1, "citations") == 4
    pages = [citations.page(catalog, 1, "citations", 3, offset) for offset in (0, 3, 6)]
    assert [[edge.paper_id for edge in page] for page in pages] == [[2, 4, 5], [3], []]
    assert citations.count(catalog, 1, "references") == 0
    assert citations.count(catalog, 6, "references") == 2
    assert citations.count(catalog, 999, "citations") == 0


def test_filters_hold_for_counts_and_pages_alike(catalog: sqlite3.Connection) -> None:
    for filters, passing in [
        (ResolvedFilters(min_citations=50), [2, 4]),
        (ResolvedFilters(first_day=20190101, last_day=20191231), [4, 3]),
        (ResolvedFilters(first_day=20190601), [4]),
        (ResolvedFilters(exclude=frozenset({4})), [2, 5, 3]),
        (ResolvedFilters(within=frozenset()), []),
    ]:
        for at_most in (None, 4):
            page = citations.page(catalog, 1, "citations", 10, filters=filters, at_most=at_most)
            assert [edge.paper_id for edge in page] == passing
        assert citations.count(catalog, 1, "citations", filters) == len(passing)


def test_a_page_has_the_details_of_each_edge(catalog: sqlite3.Connection) -> None:
    citations.insert_edges(catalog, [EdgeRow(6, 2, True, ["we follow [2]", "see [2]"], ["methodology"])])
    assert citations.page(catalog, 6, "references", 10) == [
        Edge(2, True, ("we follow [2]", "see [2]"), ("methodology",)),
        Edge(4, None, (), ()),
    ]


def test_expansion_counts_each_neighbour_once(catalog: sqlite3.Connection) -> None:
    # 6 reaches 2 and 4; 5 reaches 1. Repeated seeds count once.
    assert citations.expand(catalog, [6, 5, 6], "references") == (
        3,
        [NeighbourRow(1, 1, 1), NeighbourRow(2, 1, 1), NeighbourRow(4, 1, 1)],
    )
    # In two hops 6 also reaches 1, through 2 and 4.
    total, two = citations.expand(catalog, [6, 5], "references", 2)
    assert (total, two[0]) == (3, NeighbourRow(1, 2, 1))
    assert citations.expand(catalog, [2, 1], "both")[1] == [NeighbourRow(4, 2, 1), *ONE_SEED]
    assert citations.expand(catalog, [], "both") == (0, [])


ONE_SEED = [NeighbourRow(5, 1, 1), NeighbourRow(6, 1, 1), NeighbourRow(3, 1, 1)]


def test_expansion_filters_the_neighbours_and_not_the_papers_between(catalog: sqlite3.Connection) -> None:
    only_1 = ResolvedFilters(min_citations=60)
    assert citations.expand(catalog, [6], "references", 2, only_1) == (1, [NeighbourRow(1, 1, 2)])


Counts = dict[int, int | None]
Graph = tuple[sqlite3.Connection, Counts, set[tuple[int, int]]]


@pytest.fixture(scope="module")
def graph(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[sqlite3.Connection, Counts, set[tuple[int, int]]]]:
    """80 papers with their citation counts, and 300 edges between them."""
    dice = random.Random(11)
    counts = {i: dice.choice([None, 0, 1, 3, 9, 2**62]) for i in range(1, 81)}
    pairs = {(dice.randrange(1, 81), dice.randrange(1, 81)) for _ in range(300)}
    edges = {(citing, cited) for citing, cited in pairs if citing != cited}
    connection = open_for_building(tmp_path_factory.mktemp("graph") / "catalog.sqlite")
    connection.executemany("INSERT INTO papers(id, title, citation_count) VALUES (?, 'x', ?)", counts.items())
    citations.insert_edges(connection, [EdgeRow(*edge) for edge in edges])
    yield connection, counts, edges
    connection.close()


def ranked(reached: dict[int, dict[int, int]], counts: Counts) -> list[NeighbourRow]:
    """The neighbours in order, of the hops in which each seed reaches a paper."""
    rows = sorted(
        (-len(by), min(by.values()), counts[i] is None, -(counts[i] or 0), i) for i, by in reached.items()
    )
    return [NeighbourRow(row[-1], -row[0], row[1]) for row in rows]


@pytest.mark.parametrize("direction", ["citations", "references", "both"])
@pytest.mark.parametrize("hops", [1, 2])
def test_expansion_agrees_with_a_breadth_first_walk(
    graph: Graph, direction: Direction, hops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where neighbours are read in batches, and for a page."""
    connection, counts, edges = graph
    ways: dict[int, set[int]] = {i: set() for i in counts}
    for citing, cited in edges:
        if direction != "citations":
            ways[citing].add(cited)
        if direction != "references":
            ways[cited].add(citing)
    seeds = {3, 17, 18, 40, 41, 66}
    reached: dict[int, dict[int, int]] = {}
    for seed in seeds:
        ring = {seed}
        for hop in range(1, hops + 1):
            ring = set().union(*(ways[i] for i in ring))
            for i in ring - seeds:
                reached.setdefault(i, {}).setdefault(seed, hop)
    expected = ranked(reached, counts)
    for at_once in (1, 7, 50_000):
        monkeypatch.setattr(citations, "_BATCH", at_once)
        assert citations.expand(connection, seeds, direction, hops, limit=1000) == (len(expected), expected)
    assert len(expected) > 10
    few = ResolvedFilters(min_citations=1, exclude=frozenset(range(10, 40)))
    passing = ranked(
        {i: by for i, by in reached.items() if (counts[i] or 0) >= 1 and not 10 <= i < 40}, counts
    )
    found = citations.expand(connection, seeds, direction, hops, few, 3, 2)
    assert found == (len(passing), passing[2:5])


def test_an_expansion_of_too_many_edges_is_rejected(
    catalog: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(citations, "MAX_STEPS", 3)
    with pytest.raises(TooManyEdges, match="follows more than 3 edges"):
        citations.expand(catalog, [1], "citations")
    with pytest.raises(TooManyEdges, match="follows more than 3 edges"):
        citations.expand(catalog, [2, 3], "both", 2)


def test_cocitations_are_those_counted_by_hand(catalog: sqlite3.Connection) -> None:
    """4 cites 1 and 2; 6 cites 2 and 4."""
    assert citations.cocited(catalog, 2, 10) == ([(1, 1.0), (4, 1.0)], False)
    assert citations.cocited(catalog, 1, 10) == ([(2, 1.0)], False)
    assert citations.cocited(catalog, 6, 10) == ([], False)
    citations.insert_edges(catalog, [EdgeRow(3, 2), EdgeRow(5, 6)])
    assert citations.cocited(catalog, 1, 10) == ([(2, 2.0), (6, 1.0)], False)
    assert citations.cocited(catalog, 1, 1) == ([(2, 2.0)], True)
    only_6 = ResolvedFilters(within=frozenset({6}))
    assert citations.cocited(catalog, 1, 1, only_6) == ([(6, 1.0)], False)
    # Only the year of 3 is known, so that it is cited from the end of 2019 on; the date of 5 is not known.
    assert citations.cocited(catalog, 1, 10, as_of=20190701) == ([(2, 1.0)], False)
    assert citations.cocited(catalog, 1, 10, as_of=20191231) == ([(2, 2.0)], False)


def test_cocitations_count_the_newest_citing_papers(
    catalog: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 is cited by 4 (2019) and 6 (2020), 1 by 4, 3 (of 2019), 2 (2018) and 5 (undated), in this order."""
    monkeypatch.setattr(citations, "MAX_CITING", 1)
    assert citations.cocited(catalog, 2, 10) == ([(4, 1.0)], True)
    assert citations.cocited(catalog, 2, 10, as_of=20191231) == ([(1, 1.0)], False)
    assert citations.cocited(catalog, 1, 10) == ([(2, 1.0)], True)
    citations.insert_edges(catalog, [EdgeRow(5, 6)])
    monkeypatch.setattr(citations, "MAX_CITING", 3)
    assert citations.cocited(catalog, 1, 10) == ([(2, 1.0)], True)
    monkeypatch.setattr(citations, "MAX_CITING", 4)
    assert citations.cocited(catalog, 1, 10) == ([(2, 1.0), (6, 1.0)], False)


def test_cocitations_read_a_bounded_number_of_references(
    catalog: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 6, then those of 4."""
    for most, found in ((1, []), (2, [(4, 1.0)]), (3, [(1, 1.0), (4, 1.0)])):
        monkeypatch.setattr(citations, "MAX_REFERENCES", most)
        assert citations.cocited(catalog, 2, 10) == (found, True)
    monkeypatch.setattr(citations, "MAX_REFERENCES", 5)
    assert citations.cocited(catalog, 2, 10) == ([(1, 1.0), (4, 1.0)], False)


def test_cocitations_agree_with_a_plain_count(catalog: sqlite3.Connection) -> None:
    draw = random.Random(3)
    catalog.executemany("INSERT INTO papers(id, title) VALUES (?, 'A paper')", [(i,) for i in range(7, 200)])
    edges = {(draw.randint(7, 199), draw.randint(7, 199)) for _ in range(3000)}
    citations.insert_edges(catalog, [EdgeRow(*edge) for edge in sorted(edges)])
    edges = {(a, b) for a, b in edges if a != b}
    for paper in (7, 50, 199):
        citing = {a for a, b in edges if b == paper}
        counts = Counter(b for a, b in edges if a in citing and b != paper)
        for excluded in (frozenset[int](), frozenset(range(60, 120))):
            expected = sorted(
                ((i, float(count)) for i, count in counts.items() if i not in excluded),
                key=lambda row: (-row[1], row[0]),
            )
            filters = ResolvedFilters(exclude=excluded)
            assert citations.cocited(catalog, paper, 30, filters) == (expected[:30], len(expected) > 30)
            assert citations.cocited(catalog, paper, 500, filters) == (expected, False)


def test_check_finds_edges_without_a_paper(catalog: sqlite3.Connection) -> None:
    citations.check(catalog)
    catalog.execute("INSERT INTO edges(citing, cited) VALUES (6, 77)")
    with pytest.raises(LibraryCorrupt, match="from paper 6 to paper 77"):
        citations.check(catalog)


@pytest.mark.parametrize("direction", ["citations", "references", "both"])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize(
    ("most", "filters"),
    [
        (Most(2, 3), ResolvedFilters(min_citations=3)),
        (Most(None, 1), ResolvedFilters()),
        (Most(0, 0), ResolvedFilters()),
        (Most(1_000, 1_000), ResolvedFilters(min_citations=3)),
    ],
)
def test_an_expansion_follows_the_first_edges_of_each_paper(
    graph: Graph, direction: Direction, hops: int, most: Most, filters: ResolvedFilters
) -> None:
    """Counted paper by paper in Python: the most cited that pass the filters and are not seeds."""
    connection, counts, edges = graph
    seeds = {3, 17, 41}

    def followed(paper: int, passes: Callable[[int], bool]) -> set[int]:
        found: set[int] = set()
        citing = [a for a, b in edges if b == paper] if direction != "references" else []
        cited = [b for a, b in edges if a == paper] if direction != "citations" else []
        for ends, limit in ((citing, most.citations), (cited, most.references)):
            kept = [i for i in ends if i not in seeds and passes(i)]
            kept.sort(key=lambda i: (counts[i] is None, -(counts[i] or 0), i))
            found.update(kept[:limit])
        return found

    def passes(paper: int) -> bool:
        return filters.min_citations is None or (counts[paper] or 0) >= filters.min_citations

    reached: dict[int, dict[int, int]] = {}
    for seed in seeds:
        near = followed(seed, passes)
        far = (
            set().union(*(followed(i, passes) for i in followed(seed, lambda i: True)))
            if hops == 2
            else set()
        )
        for hop, found in ((2, far), (1, near)):
            for i in found:
                reached.setdefault(i, {})[seed] = hop
    expected = ranked(reached, counts)
    found = citations.expand(connection, seeds, direction, hops, filters, limit=1000, most=most)
    assert found == (len(expected), expected)
