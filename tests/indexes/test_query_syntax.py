"""Query syntax and its expressions, which a real FTS5 table validates."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from string import ascii_lowercase, ascii_uppercase

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scholarbase.errors import InvalidRequest
from scholarbase.indexes import query_syntax
from tests.tables import cases

DOCUMENTS = {
    1: ("Attention is all you need", "The Transformer computes without recurrence."),
    2: ("A graph network for molecules", "Message passing on graphs."),
    3: ("Deep reinforcement learning", "An attention to rewards and policies."),
    4: ("Erdős graphs and naïve Bayes", "Ünal counts random graphs."),
    5: ("Optimization of universities", "A communication theory of computation."),
    6: ("Hopping over polymers", "Largely overlooked hydrolysis, the skyline, redshift and bringers."),
}


@pytest.fixture(scope="module")
def table() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE t USING fts5(title, abstract, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    connection.executemany(
        "INSERT INTO t(rowid, title, abstract) VALUES (?, ?, ?)", [(i, *d) for i, d in DOCUMENTS.items()]
    )
    yield connection
    connection.close()


def matches(table: sqlite3.Connection, expression: str) -> list[int]:
    return [
        row[0] for row in table.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rowid", (expression,))
    ]


def test_syntax_and_prose_are_detected() -> None:
    for kind, detect in (("syntax", query_syntax.is_syntax), ("prose", query_syntax.is_prose)):
        for text, expected in cases("query-syntax", kind):
            assert detect(text) is expected, text


def test_expressions_match_the_right_papers(table: sqlite3.Connection) -> None:
    for text, expected in cases("query-syntax", "matches"):
        assert matches(table, query_syntax.compile(text)) == expected, text


def test_malformed_syntax_is_rejected_with_its_position() -> None:
    for text, position, what in cases("query-syntax", "malformed"):
        with pytest.raises(InvalidRequest, match=what) as caught:
            query_syntax.compile(text)
        assert f"at character {position} of the query" in str(caught.value)


def test_a_question_is_an_or_of_its_words_without_stop_words() -> None:
    assert query_syntax.free_text("Which papers show that graphs help learning?") == (
        '"graphs" OR "help" OR "learning"'
    )


def test_a_text_of_stop_words_keeps_them() -> None:
    assert query_syntax.free_text("The Who") == '"the" OR "who"'


@pytest.mark.parametrize("text", ["?!", "", " -- ", "🙂", "\ud800", "\u0301"])
def test_a_text_without_words_has_no_expression(text: str) -> None:
    assert query_syntax.free_text(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("naïve Erdős–Rényi, Ünal", ["naïve", "Erdős", "Rényi", "Ünal"]),
        ("γ-лучи 深度学习", ["gamma", "лучи", "深度学习"]),
        ("हिन्दी", ["हिन्दी"]),
        ("snake_case don't", ["snake", "case", "don", "t"]),
        ("".join(map(chr, range(128))), ["0123456789", ascii_uppercase, ascii_lowercase]),
    ],
)
def test_letters_of_every_script_are_words(text: str, words: list[str]) -> None:
    assert query_syntax.words(text) == words


def test_fts5_accepts_long_and_deep_queries(table: sqlite3.Connection) -> None:
    many = [f"w{i}" for i in range(query_syntax.MAX_WORDS - 1)]
    assert matches(table, query_syntax.free_text(" ".join([*many, "molecules"])) or "") == [2]
    assert matches(table, query_syntax.compile(" ".join(many) + " AND x")) == []
    assert matches(table, query_syntax.compile(f'"{" ".join(many)}"')) == []
    assert matches(table, query_syntax.compile(" OR ".join([*many, "molecules"]))) == [2]
    assert matches(table, query_syntax.compile("molecules NOT " + " NOT ".join(many))) == [2]
    depth = query_syntax.MAX_DEPTH
    nested = "graph AND (x OR y NOT (" * (depth // 2) + "naive" + "))" * (depth // 2)
    assert matches(table, query_syntax.compile(nested)) == []


_PIECES = (
    "graph a AND OR NOT NEAR \" “ ( ) * title: abstract: au: - ^ { + : the 深 é \u0301 \x00 \ud800 ' ; -- 🙂"
)
PIECES = st.sampled_from(_PIECES.split(" "))
TEXTS = st.one_of(
    st.text(max_size=40), st.lists(PIECES, max_size=14).map(" ".join), st.lists(PIECES).map("".join)
)


@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text="(" * 10 + "a AND (b" + ")" * 11)
@example(text='title:"a"*')
@example(text="*")
def test_every_text_is_valid_fts5_or_rejected(table: sqlite3.Connection, text: str) -> None:
    with suppress(InvalidRequest):
        matches(table, query_syntax.compile(text))
    expression = query_syntax.free_text(text)
    if query_syntax.words(text):
        matches(table, expression or "")
    else:
        assert expression is None
        assert not query_syntax.is_syntax(text)
