"""Names of authors: their ids, words and matches. Expected matches are by hand, in a real FTS5 table."""

import json
import sqlite3
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.databases import open_immutable
from scholarbase.indexes import author_index, author_names
from scholarbase.indexes.catalog import FILE_NAME
from scholarbase.ingest.job import ingest
from scholarbase.models.limits import MAX_NAME_LENGTH


def found(q: str, names: Sequence[str]) -> list[str]:
    """Those of the names that a query finds."""
    expression = author_names.expression(q)
    assert expression is not None
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(author_index.SCHEMA)
        rows = [(number, author_names.terms([name])) for number, name in enumerate(names)]
        db.executemany("INSERT INTO author_words (rowid, terms) VALUES (?, ?)", rows)
        sql = "SELECT rowid FROM author_words WHERE author_words MATCH ?"
        return [names[number] for (number,) in db.execute(sql, (expression,))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("John  Smith", "name:john smith"),
        ("  Jürgen MÜLLER\t", "name:jürgen müller"),
        ("Ｊｏｈｎ Smith", "name:john smith"),
        ("Strauß", "name:strauss"),
        ("粟毅", "name:粟毅"),
        ("Müller", "name:müller"),
    ],
)
def test_the_id_of_a_name(name: str, expected: str) -> None:
    assert author_names.name_id(name) == expected
    assert author_names.canonical_id(f"name:{name}") == expected


def test_the_id_of_a_name_is_its_own_canonical_form() -> None:
    # Every character that folding its case or composing it changes.
    for code in range(sys.maxunicode + 1):
        if unicodedata.normalize("NFKC", chr(code)).casefold() != chr(code) and not 0xD800 <= code < 0xE000:
            made = author_names.name_id(f"a{chr(code)}b {chr(code)}")
            assert author_names.canonical_id(made) == made, hex(code)
    made = author_names.name_id("\ufdfa " * MAX_NAME_LENGTH)  # one character that is eighteen
    assert author_names.canonical_id(made) == made
    assert len(made) <= MAX_NAME_LENGTH + len("name:")


def test_names_find_each_other_by_initials_and_in_any_order() -> None:
    same = ["John Smith", "J. Smith", "Smith, John", "Smith, J.", "J Smith"]
    others = ["Jane Smithson", "Adam Smith", "John Doe", "John S. Doe", "J. S. Doe", "Smith"]
    for name in (*same, "JOHN SMITH", "smith john"):
        assert found(name, [*same, *others]) == same, name


def test_a_name_finds() -> None:
    for q, finds, not_these in (
        ("Smith", ["John Smith", "Smith"], ["Smithson"]),
        ("J. Muller", ["Jürgen Müller", "J. Mueller Muller"], ["Jürgen Mueller"]),
        ("Jean-Pierre Serre", ["J.-P. Serre", "Jean Pierre Serre"], ["Jean Serre"]),
        ("J. P. Serre", ["Jean-Pierre Serre"], ["Jean Serre"]),
        ("Martin Luther King", ["M. L. King Jr.", "Martin Luther King, Jr."], ["Martin King"]),
        ("Zhang Wei", ["Wei Zhang", "W. Zhang", "Z. Wei"], ["Wei Li"]),
        ("E Weinan", ["Weinan E"], ["Weinan"]),
        ("粟毅", ["粟毅"], ["吴亚梅"]),
        ("O'Brien", ["Conor O’Brien"], ["Conor Brien"]),
        ("Łukasz Kaiser", ["Lukasz Kaiser", "L. Kaiser"], ["Kaiser"]),
    ):
        assert found(q, [*finds, *not_these]) == finds


def test_an_alias_is_found() -> None:
    assert "lukasz" in author_names.terms(["L. Kaiser", "Łukasz Kaiser"]).split()


@pytest.mark.parametrize("q", ["J.", "J. S.", "...", "", "\u0301"])
def test_initials_alone_are_no_query(q: str) -> None:
    assert author_names.expression(q) is None


@pytest.mark.parametrize(
    "q", ['a" OR "b', "smith AND", "NEAR(x y)", "terms:smith", "sm*", "-smith", "^smith", "¶smith"]
)
def test_a_name_is_never_query_syntax(q: str) -> None:
    assert found(q, ["Unrelated Person"]) == []


def test_a_long_name_makes_a_short_expression() -> None:
    longest = " ".join(f"ab{number}" for number in range(200))
    expression = author_names.expression(longest)
    assert expression is not None
    assert len(expression) < 5 * MAX_NAME_LENGTH
    assert found(longest, [longest]) == [longest]
    ten = " ".join(f"ab{number}" for number in range(author_names.MAX_INITIALS))
    assert found(ten, [ten]) == [ten]


def test_no_author_of_thousands_is_lost(tmp_path: Path) -> None:
    names = [f"Ann {chr(97 + n // 676)}{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}son" for n in range(11_000)]
    with (tmp_path / "papers.jsonl").open("w") as out:
        for first in range(0, len(names), 500):
            paper = {"title": f"Paper {first}", "abstract": "A text.", "authors": names[first : first + 500]}
            out.write(json.dumps(paper) + "\n")
    ingest([tmp_path / "papers.jsonl"], tmp_path / "library")
    with closing(open_immutable(tmp_path / "library" / FILE_NAME)) as db:
        assert sorted(name for (name,) in db.execute("SELECT name FROM author_names")) == names
