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


def test_syntax_is_detected() -> None:
    for text in (
        '"attention is all you need"',
        'What is "attention"?',
        "“chain of thought” prompting",
        "graph AND neural",
        "transformers NOT vision",
        "deep learning OR machine learning",
        "LSTM OR GRU",
        "(graph OR network) AND learning",
        "transform*",
        "equivarian* networks",
        "深度*",
        "title:attention",
        'abstract:"message passing"',
        "title:(graph network)",
        'title: "graph network"',
        "深度学习 AND 图",
        # Never searched as free text: excluded words, fields of other engines, and operators.
        "NOT transformers",
        "au:vaswani",
        "NEAR(graph network)",
    ):
        assert query_syntax.is_syntax(text)


def test_ordinary_text_is_not_syntax() -> None:
    for text in (
        "Attention is all you need",
        "Attention: is it all you need",
        "title: subtitle",
        "Subtitle:a study",
        "C*-algebras",
        "A* search",
        "RRT* path planning",
        "Banach *-algebras",
        "(2+1)-dimensional gravity",
        "Is BERT (or GPT) better?",
        "What is attention?",
        "war and peace",
        "TO BE OR NOT TO BE",
        "A SURVEY OF GRAPH AND IMAGE MODELS",
        "AND gates in circuits",
        "logic AND",
        '5" disk',
        '""',
        "O'Neil's co-citation - a review",
        "-survey",
        "10:1 odds, arXiv:1706.03762",
        "?!",
        "",
    ):
        assert not query_syntax.is_syntax(text)


def test_expressions_match_the_right_papers(table: sqlite3.Connection) -> None:
    for text, found in (
        ('"all you need"', [1]),
        ('"you all need"', []),
        ("attention", [1, 3]),
        ("title:attention", [1]),
        ("abstract:attention", [3]),
        ("attention NOT recurrence", [3]),
        ("attention AND NOT title:attention", [3]),
        ("graph OR attention", [1, 2, 3, 4]),
        ("graph AND random OR reinforcement", [3, 4]),
        ("graph AND (random OR reinforcement)", [4]),
        ("graphs NOT random NOT molecules", []),
        ("message-passing AND graphs", [2]),
        ('What is "attention"?', [1, 3]),
        ('Which paper says "attention is all you need"?', []),
        ("title:(graph OR attention) NOT abstract:graphs", [1]),
        ("erdos AND unal", [4]),
        ("ERDŐS AND Ünal", [4]),
        ("transf*", [1]),
        ('"graph net*"', [2]),
        ('"graph net"*', [2]),
        # Porter's stems are shorter than these prefixes: comput, optim, univers, commun.
        ("computatio*", [1, 5]),
        ("optimi*", [5]),
        ("universit*", [5]),
        ("communicat*", [5]),
        ("poly*", [6]),
        ("POLY* AND hopping", [6]),
        ("sky*", [6]),
        ("red* AND bring*", [6]),
        ("hydrolys*", [6]),
        ("hopp*", [6]),
        ("largel*", [6]),
        # A prefix that is a stop word as well.
        ("over* AND polymers", [6]),
    ):
        assert matches(table, query_syntax.compile(text)) == found


def test_malformed_syntax_is_rejected_with_its_position() -> None:
    for text, position, what in (
        ("NOT graphs", 1, "NOT without something before it"),
        ("graphs OR NOT molecules", 11, "OR NOT"),
        ('graphs AND "message', 12, "never closed"),
        ("(graphs AND molecules", 1, "never closed"),
        ("graphs AND molecules)", 21, "closing parenthesis"),
        ("graphs AND ()", 13, "closing parenthesis"),
        ("graphs AND AND molecules", 12, "A word is missing"),
        ("graphs AND", 11, "Nothing to search for"),
        ('"?!" AND graphs', 1, "without a letter or digit"),
        ("au:vaswani AND graphs", 1, "is not a field"),
        ("title:(graphs abstract:molecules)", 15, "inside title:"),
        ("NEAR(graphs molecules)", 1, "not supported"),
        ("mole*les AND graphs", 1, "star inside a word"),
        ("(" * 11 + "a AND b" + ")" * 11, 11, "More than 10"),
    ):
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


@pytest.mark.parametrize(
    "text",
    [
        'What is "attention"',
        'which paper says "all you need"',
        "NOT all models",
        "graph neural networks learn molecular properties OR fail",
        'Graph networks "explained"?',
        "We show (AND prove) this.",
    ],
)
def test_prose(text: str) -> None:
    assert query_syntax.is_prose(text)


@pytest.mark.parametrize(
    "text",
    [
        '"chain of thought"',
        '"is this the phrase?"',
        "transformers NOT vision",
        "deep learning OR neural network",
        "state-of-the-art AND end-to-end",
        "(graph OR network) AND learning",
        "title:(graph OR network)",
        "equivarian* networks",
        "one two three four five AND six",
    ],
)
def test_queries_are_not_prose(text: str) -> None:
    assert not query_syntax.is_prose(text)
