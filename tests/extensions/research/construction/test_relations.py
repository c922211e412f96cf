"""Relations of papers: sums and orders counted by hand, sentences of papers made by hand, and real texts."""

import json
import random
from collections.abc import Iterator, Sequence
from math import cos, radians
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders.base import Encodings
from scholarbase.errors import QueryFileError, RunExists
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import EncoderSpec
from scholarbase.search.library import Library
from scholarbase_research.construction.citation_sentences import CitationRelation, CitationRelations
from scholarbase_research.construction.pools import read_relations
from scholarbase_research.construction.relations import (
    PaperQuestion,
    QuestionRelation,
    SharingKeywords,
    read_paper_questions,
    relate_questions,
    write_relations,
)
from tests import fulltexts
from tests.conftest import json_lines, run_cli, succeeded

A, B, C = (f"arXiv:2101.0000{n}" for n in range(1, 4))


class Degrees:
    """An encoder of texts that begin with a number: the vector at that angle, in degrees."""

    spec = EncoderSpec("test", "degrees", 2)

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        angles = [radians(float(text.split()[0])) for text in texts]
        return Encodings(np.array([[np.cos(a), np.sin(a)] for a in angles], dtype=np.float32))

    encode_queries = encode_documents

    def close(self) -> None:
        pass


def degrees(angle: float) -> float:
    return round(cos(radians(angle)), 6)


def related(questions: Sequence[PaperQuestion], **options: object) -> list[QuestionRelation]:
    return list(relate_questions(questions, Degrees(), **options))  # type: ignore[arg-type]


QUESTIONS = (
    PaperQuestion(A, "one", "0 a"),
    PaperQuestion(A, "one", "10 a"),
    PaperQuestion(A, "two", "90 a"),
    PaperQuestion(B, "near", "20 b"),
    PaperQuestion(B, "near", "5 b"),
    PaperQuestion(B, "far", "60 b"),
    PaperQuestion(C, "", "92 c"),
)


def test_a_section_pair_is_the_sum_of_the_cosines_above_the_threshold() -> None:
    # cos 30 = 0.866: pairs up to 29 degrees count. A's one and B's near: 20, 5, 10 and 5 degrees apart.
    found = related(QUESTIONS, threshold=0.867)
    first = next(one for one in found if one.source == A and one.target == B)
    assert (first.source_section, first.target_section) == ("one", "near")
    assert first.score == pytest.approx(degrees(20) + 2 * degrees(5) + degrees(10), abs=4e-6)
    # Two pairs are 5 degrees apart: the one whose target question comes first in the alphabet is shown.
    assert (first.source_question, first.target_question) == ("0 a", "5 b")
    assert first.similarity == pytest.approx(degrees(5))
    # Of the whole: A to C (2 degrees) before A to B, and B's far is 28 degrees from 88 only, so related to nothing.
    assert [(one.source, one.target) for one in found] == [(A, C), (A, B), (B, A), (C, A)]
    assert [one.query_id for one in found][:2] == [f"{A}#1", f"{A}#2"]


def test_section_pairs_and_relations_are_limited_to_the_first() -> None:
    # Sections 0 to 3 of B are 1, 2, 3 and 4 degrees from A's question.
    many = [PaperQuestion(A, "", "0 a"), *(PaperQuestion(B, str(n), f"{n + 1} b") for n in range(4))]
    of_a = [one for one in related(many, top_sections=2, per_paper=9) if one.source == A]
    assert [one.target_section for one in of_a] == ["0", "1"]
    of_a = [one for one in related(many, top_sections=9, per_paper=3) if one.source == A]
    assert [one.target_section for one in of_a] == ["0", "1", "2"]


def test_the_sum_chooses_sections_and_the_cosine_ranks_them() -> None:
    # B's wide has three questions at 20 degrees (sum 2.82), its close one at 1 degree (sum 1.00): with one pair of
    # sections the sum decides, with two the most similar questions come first.
    b = [PaperQuestion(B, "wide", f"20 {n}") for n in range(3)] + [PaperQuestion(B, "close", "1 b")]
    questions = [PaperQuestion(A, "", "0 a"), *b]
    sections = {
        top: [one.target_section for one in related(questions, top_sections=top) if one.source == A]
        for top in (1, 2)
    }
    assert sections == {1: ["wide"], 2: ["close", "wide"]}


def test_candidates_limit_the_targets() -> None:
    assert {
        (one.source, one.target) for one in related(QUESTIONS, candidates={A: [C, "arXiv:9999.00001"]})
    } == {(A, C)}
    keywords = {A: frozenset("x"), B: frozenset("xy"), C: frozenset("z")}
    assert dict(SharingKeywords(keywords)) == {A: {B}, B: {A}, C: set()}


def test_the_order_of_questions_and_the_size_of_blocks_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = random.Random(1)
    many = [
        PaperQuestion(
            f"arXiv:2101.{paper:05}", str(numbers.randrange(3)), f"{numbers.random() * 180} {paper}"
        )
        for paper in range(20)
        for _ in range(5)
    ]
    first = related(many, threshold=0.9)
    assert len(first) == 60
    numbers.shuffle(many)
    assert related([*many, many[0]._replace(answer="yes")], threshold=0.9) == first
    monkeypatch.setattr("scholarbase_research.construction.relations._BLOCK", 30)
    assert related(many, threshold=0.9) == first


def test_files_of_questions(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    lines = [
        {"question": " What is  n? ", "answer": "5", "evidence": "n is 5.", "pmcid": "PMC10021650"},
        {"question": "Why?", "paper": "2101.00001", "section": "Methods"},
    ]
    json_lines(path, lines)
    assert read_paper_questions(path) == [
        PaperQuestion("PMCID:10021650", "", "What is n?", "5"),
        PaperQuestion(A, "Methods", "Why?"),
    ]
    for line, message in (
        ({"question": "Why?"}, "as paper or as pmcid"),
        ({"question": "", "paper": A}, "question is ''"),
        ({"question": "Why?", "paper": A, "sektion": "x"}, "unknown field 'sektion'"),
        ({"question": "Why?", "paper": "x"}, "paper: "),
        ({"question": "y" * 10_001, "paper": A}, "10,001 characters"),
    ):
        path.write_text(json.dumps(line))
        with pytest.raises(QueryFileError, match=message):
            read_paper_questions(path)


def test_relations_become_pools(tmp_path: Path) -> None:
    out = tmp_path / "relations.jsonl"
    assert write_relations(related(QUESTIONS, threshold=0.867), out) == 4
    assert [one.target for one in read_relations(out)] == [C, B, A, A]
    with pytest.raises(RunExists, match="already exists"):
        write_relations([], out)


def test_the_command_relates_real_questions_by_the_packaged_encoder(tmp_path: Path) -> None:
    questions = tmp_path / "questions.csv"
    rows = [
        (A, "Results", "How many comparators does the sorting network need?"),
        (A, "Data", "Which corpus of news was used?"),
        (B, "Depth", "How many comparators do sorting networks have?"),
        (C, "Cells", "What kills bacteria in the gut?"),
    ]
    questions.write_text("paper,section,question\n" + "".join(f"{','.join(row)}\n" for row in rows))
    out = tmp_path / "relations.jsonl"
    done = succeeded("construct", "relations", "questions", questions, "--out", out, "--threshold", 0.6)
    assert "2 relations of 3 papers" in done.stderr
    first, second = (json.loads(line) for line in out.read_text().splitlines())
    assert (first["source_section"], first["target_section"]) == ("Results", "Depth")
    assert (second["source"], second["target"]) == (B, A)
    again = run_cli("construct", "relations", "questions", questions, "--out", out)
    assert again.returncode != 0
    assert "already exists" in again.stderr


# -- sentences with a single mark -----------------------------------------------------------------------

SURVEY = (
    "Merging was studied at length by Lovelace {{cite:m}} in many settings. "
    "Sorting {{cite:s}} and merging {{cite:m}} are two classic problems. "
    "Colourings of old graphs are hard {{cite:g}}. "
    "The art of programming is long {{cite:k}}. "
    "Others agree on merging {{cite:m}} and {{cite:lost}} here. "
    "See {{cite:g}}. "
    "We wrote of networks like these ourselves before {{cite:me}}. "
    "Nothing is cited here at all."
)


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The papers of :mod:`tests.fulltexts`, and one that cites three of them and itself."""
    folder = tmp_path_factory.mktemp("survey")
    about, documents = fulltexts.write_sources(folder)
    ids = {"m": "2302.00002", "s": "2301.00001", "g": "2101.00003", "me": "2303.00005"}
    cited = {
        key: {"bib_entry_raw": f"Entry {key}.", "contained_arXiv_ids": [{"id": one}]}
        for key, one in ids.items()
    }
    survey = fulltexts.record(
        *("2303.00005", "A survey of problems", "We survey.", "Wed, 1 Mar 2023 00:00:00 GMT", "cs.DS"),
        [("Introduction", "1", "section", SURVEY)],
        cited={**cited, "k": {"bib_entry_raw": "D. E. Knuth. The Art. 1998."}},
    )
    (folder / "survey.jsonl").write_text(json.dumps(survey) + "\n")
    ingest([about], folder / "library", documents=[*documents, folder / "survey.jsonl"])
    with Library.open(folder / "library") as library:
        yield library


def sentences(library: object, **options: int) -> tuple[list[CitationRelation], dict[str, int]]:
    found = CitationRelations(library, **options)  # type: ignore[arg-type]
    return list(found), dict(found.counts)


@pytest.mark.slow
def test_only_sentences_with_one_mark_of_a_held_paper_are_relations(surveyed: Library) -> None:
    found, counts = sentences(surveyed)
    survey, text = "arXiv:2303.00005", surveyed.text("arXiv:2303.00005", from_offset=0).text or ""
    assert [(one.source, one.target, one.query) for one in found] == [
        (survey, fulltexts.MERGING, "Merging was studied at length by Lovelace in many settings."),
        (survey, fulltexts.GRAPHS, "Colourings of old graphs are hard."),
    ]
    for one in found:
        assert text[one.start : one.end] == one.sentence
        assert one.section == "1 Introduction"
    assert [(one.mark, one.reference) for one in found] == [("[1]", "Entry m."), ("[3]", "Entry g.")]
    # Sorting cites one paper of the library, merging one, and graphs none.
    assert counts == {
        **{"papers": 4, "papers_left_out": 3, "sentences": 7},
        **{"several": 1, "not_held": 1, "unlinked": 1, "short": 1, "own": 1, "relations": 2},
    }


@pytest.mark.parametrize(
    ("mark", "sentence", "reason"),
    [
        ("[3, 5]", "Two papers say so at once [3, 5].", "several"),
        ("[3–5]", "Three papers say so at once [3–5].", "several"),
        ("3", "In 2013 these models won3.", "several"),
        ("(Abel, 2001; Noether, 1921)", "Two say so (Abel, 2001; Noether, 1921).", "several"),
        ("[3]", "One beside a lost one says so [3] [?].", "unlinked"),
        ("(Abel, 2001)", "One says so (Abel, 2001), and one too (Noether, 1921).", "unlinked"),
        ("(Abel, 2001)", "One of many says so (Abel, 2001).", None),
        ("[3]", "The interval (0, 1) is open [3].", None),
    ],
)
def test_marks_of_several_and_unlinked_marks_are_recognised(
    mark: str, sentence: str, reason: str | None
) -> None:
    from scholarbase.models.document_responses import CitationContext, Passage
    from scholarbase.models.responses import Paper
    from scholarbase_research.construction.citation_sentences import _relation

    one = CitationContext(Passage(0, len(sentence), sentence), mark, Paper(id=A))
    found = _relation(B, [one])
    assert (found if isinstance(found, str) else None) == reason


@pytest.mark.slow
def test_the_command_writes_relations_and_pools_that_are_searched(surveyed: Library, tmp_path: Path) -> None:
    relations, pools = tmp_path / "relations.jsonl", tmp_path / "pools.jsonl"
    command = ("construct", "relations", "citations", "--library", surveyed.path, "--out", relations)
    done = succeeded(*command, "--pools", pools)
    assert "2 are relations" in done.stdout
    assert [json.loads(line)["pool"] for line in pools.read_text().splitlines()] == [
        sorted((fulltexts.SORTING, fulltexts.MERGING, fulltexts.GRAPHS))
    ] * 2
    run = succeeded(
        *("eval", "run", pools, "--library", surveyed.path, "--pool", "--mode", "sparse", "--limit", 10),
        *("--measure", "Success@1", "--out", tmp_path / "runs", "--json"),
    )
    # "merging" and "old graphs" are in the titles of the cited papers alone.
    assert json.loads(run.stdout)["runs"][0]["measures"]["all"]["Success@1"]["mean"] == 1.0
    assert len(read_relations(relations)) == 2
    assert run_cli(*command).returncode != 0
