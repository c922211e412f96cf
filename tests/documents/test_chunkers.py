"""Passages: the ways of cutting of SciDQA and ElaipBench by hand, and what holds for all texts."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.chunkers import (
    CHUNKERS,
    MAX_CHARACTERS,
    Chunker,
    Passage,
    passages,
    token_counts,
)
from scholarbase.documents.model import BLOCK, Document, Paragraph, Section
from scholarbase.documents.sentences import LONGEST
from scholarbase.documents.tokens import tokens_of

TOKENS = tokens_of()
NUMBERS = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
TWELVE = [f"Sentence {word} is here." for word in NUMBERS]
"""Each has five tokens: three words, the number and the full stop."""


def document(*blocks: str) -> Document:
    """Blocks that begin with # are headings, with ## those of subsections."""
    levels = [2 if block.startswith("## ") else int(block.startswith("# ")) for block in blocks]
    texts = [
        " ".join(block[level:].split()) if level else block
        for block, level in zip(blocks, levels, strict=True)
    ]
    ends = list(accumulate(len(text) + len(BLOCK) for text in texts))
    paragraphs: list[Paragraph] = []
    sections: list[Section] = []
    for place, (text, level) in enumerate(zip(texts, levels, strict=True)):
        start = ends[place] - len(text) - len(BLOCK)
        if not level:
            paragraphs.append(Paragraph(start, start + len(text), len(sections) - 1 if sections else None))
            continue
        after = next((n for n in range(place + 1, len(blocks)) if 0 < levels[n] <= level), len(blocks))
        parents = [n for n, section in enumerate(sections) if level > 1 and section.parent is None]
        parent = parents[-1] if parents else None
        sections.append(Section(start, ends[after - 1] - len(BLOCK), text, None, parent))
    return Document(BLOCK.join(texts), sections, paragraphs)


def cut(paper: Document, chunker: Chunker | str) -> list[Passage]:
    return list(passages(paper, CHUNKERS[chunker] if isinstance(chunker, str) else chunker, TOKENS))


def texts(paper: Document, chunker: Chunker | str) -> list[str]:
    return [paper.text[passage.start : passage.end] for passage in cut(paper, chunker)]


def test_scidqa_passages_are_ten_sentences_of_a_paragraph_and_share_one() -> None:
    paper = document("# Results", " ".join(TWELVE), "A short paragraph. It has two sentences.")
    assert texts(paper, "sentences-10-1") == [
        "Results",
        "Sentence one is here. Sentence two is here. Sentence three is here. Sentence four is here. "
        "Sentence five is here. Sentence six is here. Sentence seven is here. Sentence eight is here. "
        "Sentence nine is here. Sentence ten is here.",
        "Sentence ten is here. Sentence eleven is here. Sentence twelve is here.",
        "A short paragraph. It has two sentences.",
    ]


@pytest.mark.parametrize(
    ("sentences", "sizes"), [(1, [1]), (9, [9]), (10, [10]), (11, [10, 2]), (19, [10, 10]), (20, [10, 10, 2])]
)
def test_no_scidqa_passage_repeats_only_what_the_one_before_has(sentences: int, sizes: list[int]) -> None:
    paper = document(" ".join(["It works."] * sentences))
    assert [text.count("It works.") for text in texts(paper, "sentences-10-1")] == sizes


def test_elaipbench_passages_are_whole_sentences_without_overlap() -> None:
    """Of 16 tokens, three sentences of five fit."""
    paper = document("# Results", " ".join(TWELVE[:5]), " ".join(TWELVE[5:7]))
    assert texts(paper, Chunker("sentences-16", "sentence", tokens=16)) == [
        "Results\n\nSentence one is here. Sentence two is here. Sentence three is here.",
        "Sentence four is here. Sentence five is here.\n\nSentence six is here.",
        "Sentence seven is here.",
    ]


def test_a_paragraph_of_as_many_tokens_as_fit_is_one_passage() -> None:
    paper = document(" ".join(TWELVE[:2]))  # ten tokens
    for most, sizes in ((10, [10]), (9, [5, 5])):
        chunker = Chunker("paragraphs-9", "paragraph", tokens=most, across_paragraphs=False)
        assert [passage.tokens for passage in cut(paper, chunker)] == sizes


def test_a_sentence_above_the_limit_is_cut_and_more_follow_its_last_piece() -> None:
    paper = document(
        "Start here. One two three four five six seven eight nine ten eleven. End here. And so on."
    )
    assert texts(paper, Chunker("sentences-6", "sentence", tokens=6)) == [
        "Start here.",
        "One two three four five six",
        "seven eight nine ten eleven.",
        "End here.",
        "And so on.",
    ]


def test_airqa_passages_are_pieces_of_the_whole_text() -> None:
    paper = document("# Results", "One two three four. Five six.", "Seven eight nine.")
    assert cut(paper, Chunker("tokens-4", "token", tokens=4)) == [
        Passage(0, 22, 4, 0),
        Passage(23, 33, 3, 0),
        Passage(34, 51, 4, 0),
        Passage(52, 57, 2, 0),
    ]
    assert texts(paper, Chunker("tokens-4", "token", tokens=4)) == [
        "Results\n\nOne two three",
        "four. Five",  # six would be cut from its full stop
        "six.\n\nSeven eight",
        "nine.",
    ]


def test_paragraphs_have_the_headings_before_them() -> None:
    paper = document("An abstract.", "# Method", "## Data", "We took data.", "We cleaned them.", "# Thanks")
    assert texts(paper, "paragraphs") == [
        "An abstract.",
        "Method\n\nData\n\nWe took data.",
        "We cleaned them.",
        "Thanks",
    ]
    assert [passage.section for passage in cut(paper, "paragraphs")] == [None, 0, 1, 2]


def test_a_section_without_a_heading_begins_with_a_paragraph_of_its_own() -> None:
    paper = document("# We took data.", "We cleaned them.")
    first = Paragraph(0, len("We took data."), 0)
    paper = Document(paper.text, paper.sections, [first, *paper.paragraphs])
    assert texts(paper, "paragraphs") == ["We took data.", "We cleaned them."]


def test_tokens_of_a_text_and_its_sections() -> None:
    paper = document("An abstract.", "# Method", "## Data", "We took data.", "# Results", "It works, too.")
    assert token_counts(paper, TOKENS) == (3 + 1 + 1 + 4 + 1 + 5, [6, 5, 6])
    assert token_counts(Document(""), TOKENS) == (0, [])


def test_a_passage_is_of_the_section_around_a_subsection_that_has_ended() -> None:
    paper = document("# Method", "## Data", "We took data.")
    after = paper.text + "\n\nMore of the method."
    whole = Document(after, [paper.sections[0]._replace(end=len(after)), paper.sections[1]], paper.paragraphs)
    assert [passage.section for passage in cut(whole, "paragraphs")] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("chunker", CHUNKERS)
@pytest.mark.parametrize(
    "text",
    [
        "word " * 200_000,
        "x" * 1_000_000,
        "one" + " " * 1_000_000 + "two",
        "\u200b" * 300_000,
        "a. " * 300_000,
        "é" * 300_000,
    ],
    ids=["no sentences", "no spaces", "one gap", "no tokens", "short sentences", "no ascii"],
)
def test_passages_of_odd_texts_are_bounded(chunker: str, text: str) -> None:
    most = 10 * (LONGEST + 1) if chunker == "sentences-10-1" else MAX_CHARACTERS
    spans = cut(Document(text), chunker)
    assert max(passage.end - passage.start for passage in spans) <= most
    assert sum(len("".join(text[p.start : p.end].split())) for p in spans) >= len("".join(text.split()))


words = st.one_of(
    st.sampled_from(
        ["the", "Fig.", "3", "et", "al.", "works.", "electroencephalographically", "naïve", "x^2", "(12)."]
    ),
    st.text(max_size=12),
)
blocks = st.lists(st.lists(words, max_size=25).map(" ".join).filter(str.strip), max_size=8)
small = st.sampled_from(
    [
        *CHUNKERS.values(),
        Chunker("tokens-7", "token", tokens=7),
        Chunker("tokens-1", "token", tokens=1),
        Chunker("sentences-7", "sentence", tokens=7),
        Chunker("sentences-3-1", "sentence", sentences=3, step=2, across_paragraphs=False),
        Chunker("sentences-2-0", "sentence", sentences=2, step=2),
        Chunker("paragraphs-9", "paragraph", tokens=9, across_paragraphs=False),
    ]
)


@settings(max_examples=50, deadline=None)
@given(blocks, small, st.integers(0, 3))
def test_passages_cover_the_text_within_their_limits(
    blocks: list[str], chunker: Chunker, headings: int
) -> None:
    paper = document(*(f"# {block}" if n < headings else block for n, block in enumerate(blocks)))
    text, spans = paper.text, cut(paper, chunker)
    assert spans == cut(paper, chunker)
    assert all(0 <= passage.start < passage.end <= len(text) for passage in spans)
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(spans))
    covered = bytearray(len(text))
    for passage in spans:
        covered[passage.start : passage.end] = b"\1" * (passage.end - passage.start)
        part = text[passage.start : passage.end]
        assert part == part.strip()
        assert chunker.tokens is None or passage.tokens <= chunker.tokens
        inside = [number for number, s in enumerate(paper.sections) if s.start <= passage.start < s.end]
        assert passage.section == (inside[-1] if inside else None)
    assert all(character.isspace() or there for character, there in zip(text, covered, strict=True))
    if chunker.sentences is None or chunker.step == chunker.sentences:
        assert all(a.end <= b.start for a, b in pairwise(spans))
    else:
        assert all(a.end <= b.start for a, b in zip(spans, spans[2:], strict=False))


@settings(max_examples=50, deadline=None)
@given(blocks)
def test_the_tokens_of_a_passage_are_those_of_its_text_alone(blocks: list[str]) -> None:
    paper = document(*blocks)
    for passage in cut(paper, "sentences-512"):
        assert passage.tokens == len(TOKENS.spans(paper.text[passage.start : passage.end]))
