"""SQL statements: views, the sandbox, and errors as sentences."""

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.errors import Busy, InvalidRequest, InvalidSql, LibraryError, NothingLeft, TimeLimit
from scholarbase.markup import plain
from scholarbase.models.sql import SqlResponse
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_sql.dialect import prepared
from scholarbase_sql.views import COLUMNS, EXAMPLES
from tests import tables
from tests.conftest import ROOT, sample_edges, sample_rows
from tests.sql_libraries import LATER, STRINGS, TEXT, with_texts

LATE: Final = 60.0
"""Seconds for a statement that is cut off after one, on a busy machine."""


@pytest.fixture(scope="module")
def path(sample_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_texts(sample_library, tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module")
def library(path: Path) -> Iterator[Library]:
    with Library.open(path, settings=load_settings(timeout=30)) as library:
        yield library


def rows(library: Library, query: str, **options: Any) -> list[tuple[Any, ...]]:
    return list(library.sql(query, **options).rows)


# -- views ----------------------------------------------------------------------------------------------


def test_the_statements_of_airqas_appendix_run(library: Library) -> None:
    """The two examples of its action Query (https://arxiv.org/abs/2509.16952, appendix B), and with ids held here."""
    abstract = "SELECT abstract FROM metadata WHERE paper_id = '{}';"
    page = (
        "SELECT pages.page_number FROM images JOIN pages JOIN metadata ON images.ref_page_id = pages.page_id AND "
        "pages.ref_paper_id = metadata.paper_id WHERE metadata.paper_id = '{}' AND images.image_caption LIKE "
        "'%Figure 3%';"
    )
    assert rows(library, abstract.format("12345678")) == rows(library, page.format("12345678")) == []
    [(text,)] = rows(library, abstract.format(STRINGS))
    assert text.startswith("The partition function of two dimensional QCD")
    assert rows(library, page.format(STRINGS)) == [(2,)]


def test_the_catalogue_is_that_of_the_source(library: Library) -> None:
    assert rows(library, "SELECT count(*) FROM papers") == [(2440,)]
    titles = {(row["corpusid"], plain(row["title"])) for row in sample_rows("papers")}
    found = rows(library, "SELECT corpus_id, title FROM papers WHERE corpus_id IS NOT NULL", limit=10_000)
    assert set(found) <= titles
    assert len(found) > 1000
    edges = rows(
        library,
        "SELECT a.corpus_id, b.corpus_id FROM citations JOIN papers a ON a.paper_id = citing_paper_id "
        "JOIN papers b ON b.paper_id = cited_paper_id WHERE a.corpus_id < 1000000 AND b.corpus_id IS NOT NULL",
        limit=10_000,
    )
    held = {corpus_id for corpus_id, _ in found}
    assert set(edges) == {(a, b) for a, b in sample_edges() if a < 1_000_000 and {a, b} <= held}


def test_parts_of_documents_are_read_by_their_offsets(library: Library) -> None:
    assert rows(library, f"SELECT text, characters FROM documents WHERE paper_id = '{STRINGS}'") == [
        (TEXT, len(TEXT))
    ]
    assert rows(
        library, "SELECT section_number, title, substr(text, 1, 14) FROM sections ORDER BY section"
    ) == [
        ("1", "Introduction", "1 Introduction"),
        ("2", "Area law", "2 Area law\n\nTh"),
    ]
    assert rows(library, "SELECT text FROM passages ORDER BY passage_id") == [
        ("Strings are QCD. See [1].",),
        ("2 Area law\n\nThe end.",),
    ]
    assert rows(library, "SELECT ref_page_id, ref_paper_id FROM chunks ORDER BY chunk_id") == [
        (1, STRINGS),
        (2, STRINGS),
    ]
    assert rows(library, "SELECT page_content, page_width FROM pages WHERE page_number = 2") == [
        ("2 Area law\n\nThe end.", 612.0)
    ]
    assert rows(library, "SELECT image_caption, bounding_box FROM images") == [
        ("Figure 3: A torus.", "[10.0,20.0,300.0,200.0]")
    ]
    assert rows(library, "SELECT table_caption, html, page_number, x FROM tables") == [
        ("Table 1: Numbers.", "<table></table>", 1, None)
    ]
    assert rows(library, "SELECT title, cited_paper_id FROM references") == [("Strings and QCD", LATER)]
    assert rows(library, "SELECT num_pages FROM metadata WHERE num_pages IS NOT NULL") == [(2,)]
    assert rows(library, "SELECT paper_id FROM papers WHERE has_text ORDER BY 1") == [(STRINGS,), (LATER,)]


def test_a_library_without_full_texts_has_empty_views(sample: Library) -> None:
    of_texts = "documents sections passages chunks figures images tables pages references"
    for view in of_texts.split():
        assert sample.sql(f"SELECT * FROM {view}").rows == ()
        assert sample.sql(f"SELECT * FROM {view}").columns == COLUMNS[view]


def test_ids_of_any_form_are_compared_with_paper_id(library: Library) -> None:
    query = "SELECT title FROM papers WHERE paper_id = paper_id('{}')"
    for form in (
        "hep-th/9301068v2",
        "https://arxiv.org/abs/hep-th/9301068",
        "CorpusId:1014785",
        "arxiv:HEP-TH/9301068",
    ):
        assert rows(library, query.format(form)) == [("Two Dimensional QCD is a String Theory",)]
    assert rows(library, "SELECT paper_id('2401.00001'), paper_id(NULL)") == [("arXiv:2401.00001", None)]
    with pytest.raises(InvalidSql, match="no id at all"):
        library.sql(query.format("no id at all"))


def test_with_as_of_no_view_has_anything_later(library: Library) -> None:
    day = "1993-12"
    assert rows(library, "SELECT paper_id FROM documents", as_of=day) == [(STRINGS,)]
    assert rows(library, "SELECT title, cited_paper_id FROM references", as_of=day) == [
        ("Strings and QCD", None)
    ]
    assert rows(
        library, "SELECT max(publication_date) <= '1993-12-31', max(citation_count) FROM papers", as_of=day
    ) == [(1, None)]
    count = f"SELECT count(*) FROM citations WHERE '{LATER}' IN (citing_paper_id, cited_paper_id)"
    assert rows(library, count, as_of=day) == [(0,)]
    assert rows(library, count) != [(0,)]
    assert rows(library, f"SELECT count(*) FROM authorships WHERE paper_id = '{LATER}'", as_of=day) == [(0,)]
    authors = "SELECT count(*), count(paper_count) FROM authors"
    [(before, counts)], [(all_of_them, _)] = rows(library, authors, as_of=day), rows(library, authors)
    assert 0 < before < all_of_them
    assert counts == 0
    with pytest.raises(NothingLeft):
        library.sql("SELECT 1", as_of="1900-01")
    # The name of a WITH clause is no way around the views.
    for trick in (
        "WITH papers AS (SELECT title_hash FROM main.papers) SELECT * FROM papers",
        "WITH documents AS (SELECT document_text(2, NULL, NULL) AS text) SELECT text FROM documents",
        "WITH citations AS (SELECT citing FROM edges) SELECT * FROM citations",
        "WITH ids AS (SELECT paper_id FROM main.ids) SELECT * FROM ids",
        *(
            f"SELECT count(*) FROM {table}"
            for table in ("main.ids", "keys.ids", "ids", "temp.ids", "aliases")
        ),
        "WITH edges AS (SELECT 1) SELECT (SELECT count(*) FROM main.edges) FROM edges",
        "SELECT (WITH edges AS (SELECT 1) SELECT count(*) FROM edges), (SELECT count(*) FROM edges)",
        "SELECT count(*) FROM sqlite_master",
        "SELECT count(*) FROM pragma_database_list",
    ):
        with pytest.raises(InvalidSql, match=r"no view|not a view|not available"):
            library.sql(trick, as_of=day)


def test_rows_of_a_recursive_clause_are_counted(library: Library) -> None:
    """An authorizer is not told that their table is that of a WITH clause."""
    for name in ("c", "ids", "edges", "papers"):
        clause = f"WITH RECURSIVE {name}(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM {name} WHERE x < 3)"
        assert rows(library, f"{clause} SELECT count(*) FROM {name}") == [(3,)]
        assert rows(library, f"{clause} SELECT x FROM {name} WHERE x > 2") == [(3,)]
    assert rows(library, "WITH c AS MATERIALIZED (SELECT 1) SELECT count(*) FROM c, c d") == [(1,)]


def test_a_statement_has_the_same_result_on_any_day(library: Library) -> None:
    assert rows(
        library,
        "SELECT date('2024-01-31', '+1 day'), datetime('2024-01-31'), strftime('%Y', '2024-01-31'), time('12:30'), "
        "julianday('2024-01-31'), unixepoch('2024-01-31'), date(NULL), date('no date')",
    ) == [("2024-02-01", "2024-01-31 00:00:00", "2024", "12:30:00", 2460340.5, 1706659200, None, None)]
    for function in ("date", "datetime", "julianday", "time", "unixepoch", "strftime"):
        first = "'%s', " if function == "strftime" else ""
        for time in (
            *("'now'", "'NOW'", "'n' || 'ow'", "x'6e6f77'", "'now' || char(0) || 'x'", "'subsec'"),
            *("'2024-01-31', 'localtime'", "'2024-01-31', 'utc'", ""),
        ):
            with pytest.raises(InvalidSql, match=r"has the same result on any day"):
                library.sql(f"SELECT {function}({(first + time).removesuffix(', ')})")
    for clock in (
        "current_date",
        "current_time",
        "current_timestamp",
        "random()",
        "randomblob(4)",
        "changes()",
    ):
        with pytest.raises(InvalidSql, match="not available"):
            library.sql(f"SELECT {clock}")


def test_the_examples_of_the_schema_run(library: Library) -> None:
    for example in EXAMPLES:
        library.sql(example)
    assert rows(library, EXAMPLES[3]) == [(2,)]


def test_functions(library: Library) -> None:
    pytest.importorskip("re2")
    [found] = rows(
        library,
        "SELECT regexp_matches('Figure 3', '^fig'), 'Figure 3' REGEXP '(?i)^fig', list_contains('[\"a\", 2]', 2), "
        "list_contains('[]', 'a'), contains('abc', 'bc'), starts_with('abc', 'B'), regexp_matches(NULL, 'a')",
    )
    assert found == (0, 1, 1, 0, 1, 0, None)


# -- responses ------------------------------------------------------------------------------------------


def test_a_response_says_that_it_is_truncated(library: Library) -> None:
    some = library.sql("SELECT paper_id FROM papers ORDER BY paper_id", limit=3)
    assert (some.row_count, some.truncated, some.warnings) == (3, True, ())
    assert not library.sql("SELECT paper_id FROM papers LIMIT 3", limit=3).truncated
    assert SqlResponse.from_dict(some.to_dict()) == some


def test_values_of_every_kind_are_json(library: Library) -> None:
    [row] = rows(
        library, "SELECT x'00ff', 9e999, -9e999, CAST(x'ff41' AS TEXT), 1.5, NULL, 9223372036854775807"
    )
    assert row == ("x'00ff'", "Infinity", "-Infinity", "�A", 1.5, None, 2**63 - 1)


def test_long_values_and_many_bytes_are_cut(library: Library) -> None:
    long = library.sql("SELECT printf('%.*c', 200000, 'x')")
    assert long.rows[0][0] == "x" * 50_000 + "..."
    assert long.truncated
    assert "ends early" in long.warnings[0]
    many = library.sql("SELECT printf('%.*c', 40000, 'é') FROM papers", limit=1000)
    assert many.truncated
    assert 0 < sum(len(row[0].encode()) for row in many.rows) <= 1_000_000
    assert "left out" in many.warnings[-1]
    one = library.sql("SELECT " + ", ".join(["printf('%.*c', 40000, 'é')"] * 100))
    assert (one.row_count, one.truncated) == (1, True)
    assert 100_000 < sum(len(value.encode()) for value in one.rows[0]) <= 1_000_000


# -- the sandbox ----------------------------------------------------------------------------------------

REFUSED: Final = (
    *tables.rows("sql-refused"),
    "SELECT " + "(" * 300 + "1" + ")" * 300,
    "SELECT " + " + ".join(["1"] * 400),
    "SELECT " + ", ".join(["1"] * 300),
    " UNION ALL ".join(["SELECT 1"] * 200),
)

TOO_LARGE: Final = (
    "SELECT length(replace(hex(printf('%.*c', 8000000, 'a')), '6', printf('%.*c', 1000, 'b')))",
    "SELECT length(replace(printf('%.*c', 1000000, 'a'), 'a', printf('%.*c', 2000, 'b')))",
    "WITH RECURSIVE r(x) AS (SELECT 'ab' UNION ALL SELECT x || x FROM r) SELECT max(length(x)) FROM r",
    "SELECT length(group_concat(a.title || b.title)) FROM papers a, papers b",
    "SELECT json_group_array(a.abstract) FROM papers a, papers b",
    "SELECT a.abstract, b.abstract FROM papers a, papers b ORDER BY a.abstract || b.abstract",
    "SELECT DISTINCT a.abstract || b.abstract FROM papers a, papers b",
    "WITH t AS MATERIALIZED (SELECT a.abstract x FROM papers a, papers b) "
    "SELECT count(*) FROM t p, t q WHERE p.x = q.x",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x + 1 FROM r) SELECT max(x) FROM r",
    "SELECT " + ", ".join(["printf('%.*c', 15000000, 'a')"] * 90),
)
"""Statements that need gigabytes, if they are not cut off before."""

ENDLESS: Final = (
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r",
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x FROM r) SELECT x FROM r WHERE x = 2",
    "SELECT count(*) FROM papers a, papers b, papers c WHERE a.title < b.title AND b.title < c.title",
    "SELECT count(*) FROM papers a, papers b, papers c, papers d",
    "SELECT instr(printf('%.*c', 15000000, 'a'), printf('%.*c', 7000000, 'a') || 'b')",  # one step of SQLite
)


def hashes(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_statement_is_refused_with_a_sentence_and_writes_nothing(path: Path, library: Library) -> None:
    before = hashes(path)
    for statement in REFUSED:
        with pytest.raises(InvalidRequest) as caught:
            library.sql(statement)
        assert re.fullmatch(r".{15,}[.?]", str(caught.value), re.S), str(caught.value)
        assert "inner_" not in str(caught.value)
    assert hashes(path) == before


@pytest.mark.slow
@pytest.mark.parametrize("statement", TOO_LARGE, ids=lambda text: re.sub(r"\W+", "-", text)[:50])
def test_a_statement_that_needs_much_memory_is_cut_off(library: Library, statement: str) -> None:
    try:
        response = library.sql(statement, timeout=1)
    except (InvalidSql, TimeLimit):
        pass
    else:  # 90 long values are computed one by one, and all of them are cut
        assert response.truncated
    assert rows(library, "SELECT 1") == [(1,)]


@pytest.mark.slow
def test_endless_statements_end_at_the_time_limit(library: Library) -> None:
    for statement in ENDLESS:
        start = monotonic()
        with pytest.raises(TimeLimit, match=r"stopped at the time limit of 0\.5 s"):
            library.sql(statement, timeout=0.5)
        assert monotonic() - start < LATE
    assert rows(library, "SELECT 1") == [(1,)]


def test_the_process_of_statements_is_limited(library: Library) -> None:
    library.sql("SELECT 1")
    [worker, *_] = library._sql.runner()._workers._all
    limits = Path(f"/proc/{worker.pid}/limits")
    if not limits.is_file():
        pytest.skip("needs /proc")
    found = dict(re.findall(r"^(Max [a-z ]+?)\s{2,}(\S+)", limits.read_text(), re.M))
    assert found["Max file size"] == "0"
    assert int(found["Max address space"]) <= 1 << 30


def test_a_killed_process_is_replaced(library: Library) -> None:
    library.sql("SELECT 1")
    for worker in library._sql.runner()._workers._all:
        os.kill(worker.pid, 9)
        while worker.status is None:
            sleep(0.01)
    assert rows(library, "SELECT 2") == [(2,)]


@pytest.mark.slow
def test_more_statements_than_may_wait_are_rejected(path: Path) -> None:
    found: list[BaseException | None] = []

    def run(library: Library) -> None:
        try:
            library.sql(ENDLESS[0], timeout=3)
        except Exception as error:
            found.append(error)

    with Library.open(path, settings=load_settings(readers=4)) as library:  # one runs, and one waits
        library.sql("SELECT 1")
        threads = [threading.Thread(target=run, args=(library,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    kinds = sorted(type(one).__name__ for one in found)
    assert kinds == ["Busy", "Busy", "Busy", "TimeLimit", "TimeLimit"]
    assert all("retry in a second" in str(one) for one in found if isinstance(one, Busy))


def test_a_closed_library_leaves_no_process_and_no_file(path: Path, tmp_path: Path) -> None:
    library = Library.open(path, settings=load_settings(runtime_dir=str(tmp_path)))
    library.sql("SELECT 1")
    workers = list(library._sql.runner()._workers._all)
    assert list(tmp_path.glob("scholarbase-sql-*"))
    library.close()
    assert all(worker.status is not None for worker in workers)
    assert not list(tmp_path.glob("scholarbase-sql-*"))
    with pytest.raises(LibraryError, match="closed"):
        library.sql("SELECT 1")


# -- DuckDB's dialect -----------------------------------------------------------------------------------

HINTS: Final = tables.rows("sql-hints")


def test_the_error_names_the_way_of_sqlite(library: Library) -> None:
    for statement, hint in HINTS:
        with pytest.raises(InvalidSql, match=re.escape(hint)):
            library.sql(statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "SELECT title FROM papers WHERE title ILIKE '%x%' ;",
            "SELECT title FROM papers WHERE title LIKE '%x%'",
        ),
        ("SELECT * FROM references -- ilike", 'SELECT * FROM "references"'),
        ("SELECT 'ilike; references' AS \"ilike\"", "SELECT 'ilike; references' AS \"ilike\""),
        ('WITH "a b" AS (SELECT 1 "x y") SELECT "x y" FROM "a b"', None),
        ('SELECT p."title" FROM "papers" p', None),
    ],
)
def test_a_statement_is_prepared(statement: str, expected: str | None) -> None:
    assert prepared(statement) == (expected or statement)


# -- any text -------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_no_other_error(library: Library, text: str) -> None:
    for statement in (text, f"SELECT {text}", f"SELECT title FROM papers WHERE title = {text}"):
        with suppress(InvalidRequest, TimeLimit):
            library.sql(statement, limit=2, timeout=5)


# -- documentation and the command ----------------------------------------------------------------------


def test_every_view_and_column_is_documented() -> None:
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    documented: dict[str, tuple[str, ...]] = {}
    for heading, columns in re.findall(r"^### `(\w+)`\n\n.*?\n\n(`.*?)\n\n", page + "\n\n", re.S | re.M):
        documented[heading] = tuple(re.findall(r"`(\w+)`", columns))
    assert documented == COLUMNS
