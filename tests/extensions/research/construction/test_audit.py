"""Audits: table 6 of ScholarQuest, other implementations, and sheets as annotators leave them."""

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.errors import QueryFileError, RunExists
from scholarbase_research.construction.audit import agreement
from scholarbase_research.construction.audit.report import Audit, audit
from scholarbase_research.construction.audit.sampling import COLUMNS, Judged, draw, write_sheet
from scholarbase_research.construction.audit.scales import DEFAULT, Scale
from scholarbase_research.construction.audit.sheets import read_sheets
from tests.conftest import run_cli

TABLE_6 = ((133, 16, 1), (21, 117, 12), (2, 19, 129))
"""ScholarQuest's human evaluation: a row for each score of the judges, a column for each label of its annotators."""


def write(path: Path, rows: Iterable[Sequence[Any]], header: Sequence[str] = COLUMNS) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def row(number: int, score: Any, *labels: Any, bias: str = "") -> list[Any]:
    padded = [*labels, *[""] * (3 - len(labels))]
    return [number, "Which?", f"arXiv:2001.{number:05}", "T", "A", score, *padded, bias]


def table_6(path: Path) -> Path:
    """A sheet with these counts. In every third item one of the three annotators disagrees with the majority."""
    pairs = [
        (s, h) for s, counts in enumerate(TABLE_6) for h, count in enumerate(counts) for _ in range(count)
    ]
    rows = [row(n, s, h, h, h if n % 3 else (h + 1) % 3) for n, (s, h) in enumerate(pairs, 1)]
    return write(path, rows)


def of(*sheets: Path, scale: Scale = DEFAULT, **options: Any) -> Audit:
    return audit(read_sheets(sheets, scale), scale, **{"resamples": 200, **options})


# -- table 6 --------------------------------------------------------------------------------------------


def test_table_6_has_the_papers_figures(tmp_path: Path) -> None:
    done = run_cli("construct", "audit", "report", table_6(tmp_path / "sheet.csv"), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["table"] == [list(counts) for counts in TABLE_6]
    values = {name: round(figure["value"], 3) for name, figure in found["figures"].items()}
    assert values == {
        "hit_rate": 0.842,
        "pearson": 0.867,
        "spearman": 0.867,
        "kappa_quadratic": 0.866,
        "strict_precision": 0.86,
        "relaxed_precision": 0.987,
        # By irrCAC 0.4.4: 0.81469 and 0.76336.
        "kappa_linear": 0.815,
        "gwet_ac1": 0.763,
    }
    rates = {score: round(figure["value"], 3) for score, figure in found["hit_rates"].items()}
    assert rates == {"0": 0.887, "1": 0.78, "2": 0.86}
    for figure in [*found["figures"].values(), *found["hit_rates"].values()]:
        assert figure["low"] < figure["value"] < figure["high"]


# -- other implementations ------------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2])), min_size=2, max_size=30)


@settings(deadline=None, max_examples=60)
@given(PAIRS)
def test_figures_are_those_of_scipy_and_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from scipy import stats  # takes a second
    from sklearn.metrics import cohen_kappa_score

    a, b = map(list, zip(*pairs, strict=True))
    table = np.zeros((3, 3))
    for pair in pairs:
        table[pair] += 1
    labels = np.array([0.0, 1.0, 2.0])
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert agreement.pearson(table, labels) == pytest.approx(stats.pearsonr(a, b).statistic)
        assert agreement.spearman(table) == pytest.approx(stats.spearmanr(a, b).statistic)
    else:
        assert np.isnan(agreement.pearson(table, labels))
        assert np.isnan(agreement.spearman(table))
    if len({*a, *b}) > 1:
        for power, name in ((1, "linear"), (2, "quadratic")):
            expected = cohen_kappa_score(a, b, labels=[0, 1, 2], weights=name)
            assert agreement.weighted_kappa(table, labels, power) == pytest.approx(expected)
    assert agreement.hit_rate(table) == pytest.approx(np.mean(np.array(a) == np.array(b)))


def test_gwets_example_of_four_raters() -> None:
    """Gwet, Handbook of Inter-Rater Reliability: 12 units, 4 raters, missing ratings. AC1 0.775, by irrCAC too."""
    missing = 0
    ratings = [
        (1, 1, missing, 1),
        (2, 2, 3, 2),
        (3, 3, 3, 3),
        (3, 3, 3, 3),
        (2, 2, 2, 2),
        (1, 2, 3, 4),
        (4, 4, 4, 4),
        (1, 1, 2, 1),
        (2, 2, 2, 2),
        (missing, 5, 5, 5),
        (missing, missing, 1, 1),
        (missing, missing, 3, missing),
    ]
    counts = np.array([[Counter(unit)[label] for label in range(1, 6)] for unit in ratings], dtype=float)
    assert agreement.annotator_agreement(counts) == pytest.approx([0.81818182, 0.77544407])


# -- sheets ---------------------------------------------------------------------------------------------


def test_ties_and_blanks_are_named_and_left_out(tmp_path: Path) -> None:
    rows = [
        row(1, 2, 2, 2, 0),
        row(2, 2, 0, 1, 2),
        row(3, 1, 0, 1),
        row(4, 0, 0, bias="Keyword over-crediting"),
        row(5, 1),
        row(6, 0, "1.0", 1, bias="Keyword over-crediting"),
    ]
    sheet = write(tmp_path / "sheet.csv", rows)
    found = of(sheet)
    assert found.table == ((1, 1, 0), (0, 0, 0), (0, 0, 1))
    assert [item.name for item in found.ties] == ["2", "3"]
    assert [item.name for item in found.unlabelled] == ["5"]
    assert found.biases == {"Keyword over-crediting": 2}
    assert found.hit_rates.keys() == {0, 2}
    assert found.annotators["agreement"].n == 4
    # Items 1, 2, 3 and 6 have pairs: 1 of 3, 0 of 3, 0 of 1 and 1 of 1 agree.
    assert found.annotators["agreement"].value == pytest.approx((1 / 3 + 0 + 0 + 1) / 4)
    shown = run_cli("construct", "audit", "report", sheet).stdout
    assert "2 of 6 items have no majority label: 2 ('arXiv:2001.00002': 0, 1, 2), 3 (" in shown
    assert "1 of 6 items have no label: 5" in shown


def test_annotators_may_have_a_sheet_each(tmp_path: Path) -> None:
    whole = table_6(tmp_path / "whole.csv")
    with whole.open(newline="") as file:
        header, *rows = csv.reader(file)
    sheets = []
    for n in range(3):
        own = [[cell if i < 6 or i == 6 + n else "" for i, cell in enumerate(cells)] for cells in rows]
        sheets.append(write(tmp_path / f"{n}.csv", reversed(own), header))
    assert of(*sheets).figures == of(whole).figures
    assert of(*sheets).annotators["agreement"].value == of(whole).annotators["agreement"].value


def test_sheets_that_contradict_are_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "1.csv", [row(1, 2, 2)])
    with pytest.raises(
        QueryFileError, match=r"2\.csv, line 2: annotator_1 has 1 for item 1, and 2 in another"
    ):
        read_sheets([first, write(tmp_path / "2.csv", [row(1, 2, 1)])], DEFAULT)
    with pytest.raises(QueryFileError, match="the score of item 1 is 1, and 2 in another"):
        read_sheets([first, write(tmp_path / "3.csv", [row(1, 1)])], DEFAULT)


# -- samples --------------------------------------------------------------------------------------------


def judged(count: int, scores: Sequence[float] = (0, 1, 2)) -> list[Judged]:
    return [
        Judged(
            f"q{n % 7}",
            f"arXiv:2101.{n:05}",
            f'Title, "{n}"\nin lines',
            "Abstract é",
            scores[n % len(scores)],
        )
        for n in range(count)
    ]


def test_the_same_number_of_each_score_is_drawn_whatever_the_order() -> None:
    items = judged(300)
    sample = draw(items, 20, seed=7)
    assert Counter(item.score for item in sample.items) == {0: 20, 1: 20, 2: 20}
    assert sample.items == draw(reversed(items), 20, seed=7).items
    assert set(sample.items) < set(draw(items, 25, seed=7).items)
    assert set(sample.items) != set(draw(items, 20, seed=8).items)
    assert sample.available == {0: 100, 1: 100, 2: 100}
    # The order does not tell the scores: there are about 40 changes of score in a random order of 60.
    scores = [item.score for item in sample.items]
    assert sum(a != b for a, b in pairwise(scores)) > 25


def test_a_sheet_is_read_back_as_it_was_drawn(tmp_path: Path) -> None:
    items = judged(9)
    sample = draw(items, 2, 0)
    write_sheet(sample.items, tmp_path / "sheet.csv")
    assert (tmp_path / "sheet.csv").read_text().splitlines()[0] == (
        "item,question,paper,title,abstract,score,annotator_1,annotator_2,annotator_3,bias"
    )
    read = read_sheets([tmp_path / "sheet.csv"], DEFAULT)
    assert [(item.question, item.paper, item.title, item.score) for item in read] == [
        (item.question, item.paper, item.title, item.score) for item in sample.items
    ]
    with pytest.raises(RunExists):
        write_sheet(sample.items, tmp_path / "sheet.csv")


def test_a_construction_is_sampled_with_the_titles_of_its_library(
    tmp_path: Path, sample_library: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    papers = ["arXiv:hep-th/9301068", "arXiv:hep-th/9309140", "arXiv:hep-th/9305047"]
    with closing(sqlite3.connect(run / "construction.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE questions (question TEXT PRIMARY KEY, number INTEGER, text TEXT)")
        connection.execute("CREATE TABLE decisions (question TEXT, paper TEXT, score REAL, grade INTEGER)")
        connection.execute("INSERT INTO questions VALUES ('q1', 1, 'Which strings?')")
        decisions = [("q1", papers[0], 2.0, 2), ("q1", papers[1], 0.2, 0), ("q1", papers[2], None, None)]
        connection.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?)", decisions)
    out = tmp_path / "sheet.csv"
    done = run_cli("construct", "audit", "sample", run, "--library", sample_library, "--out", out)
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        rows = {row["paper"]: row for row in csv.DictReader(file)}
    assert {paper: row["score"] for paper, row in rows.items()} == {papers[0]: "2", papers[1]: "0"}
    assert all(
        row["question"] == "Which strings?" and row["title"] and row["abstract"] for row in rows.values()
    )
