"""A small library with a known citation graph, and rules that judge its papers by their titles.

S1 strict, P1 partial      found by a search for alpha beta gamma
C01..C40                   cite S1; C01 is strict, the others mismatches
R1..R5                     cited by S1; R1 is partial, R2 strict without a word of the question
H1                         strict, cited by C01: in the second hop
H2                         strict, cited by H1: in the third hop
X                          strict, cited by P1;  Y  strict, cited by R1: behind partial matches
"""

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scholarbase.search.library import Library
from scholarbase_research.construction.job import construct_answers
from scholarbase_research.construction.judging import Panel
from scholarbase_research.construction.process import Setup
from scholarbase_research.construction.rewrites import RuleRewriter
from scholarbase_research.construction.settings import Limits
from scholarbase_research.construction.sources import open_sources
from scholarbase_research.construction.store import Store
from scholarbase_research.evaluation.queries import Query, QuerySet
from scholarbase_research.llm.judges import FunctionJudge
from scholarbase_research.llm.rubrics import open_rubric
from tests.libraries import library_of

CITING = 40
RUBRIC = open_rubric("relevance-0-2")
QUESTION = "alpha beta gamma"


def toy_rows() -> tuple[dict[str, dict[str, Any]], list[tuple[int, int]]]:
    """The rows of the papers by name, and the edges."""
    titles = {
        "S1": "alpha beta gamma strict",
        "P1": "alpha beta gamma partial",
        **{f"C{n:02}": f"alpha citing number{n}" for n in range(1, CITING + 1)},
        "C01": "alpha citing strict",
        "R1": "beta reference partial",
        "R2": "omega reference strict",
        **{f"R{n}": f"beta reference number{n}" for n in (3, 4, 5)},
        "H1": "gamma second strict",
        "H2": "gamma third strict",
        "X": "gamma behind strict",
        "Y": "gamma hidden strict",
    }
    cites = [(f"C{n:02}", "S1") for n in range(1, CITING + 1)]
    cites += [("S1", f"R{n}") for n in range(1, 6)]
    cites += [("C01", "H1"), ("H1", "H2"), ("P1", "X"), ("R1", "Y")]
    numbers = {name: number for number, name in enumerate(titles, 1)}
    rows = {
        name: {
            "corpusid": numbers[name],
            "title": title,
            "abstract": "Some text.",
            "externalids": {"ArXiv": f"2401.{numbers[name]:05}"},
            "year": 2020,
            # C01 is cited most, so it is among the first of the citing papers.
            "citationcount": 100 if name == "C01" else 0,
        }
        for name, title in titles.items()
    }
    return rows, [(numbers[a], numbers[b]) for a, b in cites]


def toy_id(name: str) -> str:
    return f"arXiv:{toy_rows()[0][name]['externalids']['ArXiv']}"


def names_of(ids: Any) -> set[str]:
    by_id = {f"arXiv:{row['externalids']['ArXiv']}": name for name, row in toy_rows()[0].items()}
    return {by_id[one] for one in ids}


def toy_library(folder: Path, *, encoder: bool = False) -> Path:
    """The library, with the vectors of the encoder in the package if ``encoder`` is on."""
    rows, edges = toy_rows()
    return library_of(folder, list(rows.values()), edges, dense=encoder)


def by_title(item: Mapping[str, str]) -> tuple[float, str]:
    """2 for a title with strict, 1 with partial, else 0."""
    title = item["title"]
    return (2.0 if "strict" in title else 1.0 if "partial" in title else 0.0), f"the title is {title}"


def toy_panel() -> Panel:
    return Panel(RUBRIC, [FunctionJudge("by-title", by_title)])


def limits(**changes: Any) -> Limits:
    return Limits(**{"rewrites": 0, "depth": 2, "sample": 0, **changes})


def toy_queries(count: int = 1) -> QuerySet:
    return QuerySet("toy", "questions", tuple(Query(f"q{n}", QUESTION, ()) for n in range(1, count + 1)))


def toy_setup(library: Library, panel: Panel | None = None, **changes: Any) -> Setup:
    return Setup(
        open_sources(library, "library:sparse"),
        RuleRewriter(library),
        panel or toy_panel(),
        limits(**changes),
    )


def main() -> None:
    """A construction of several questions, killed at the end of its Nth transaction."""
    library_path, out, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    whole = Store.transaction
    done: list[int] = []

    @contextmanager
    def counted(self: Store) -> Any:
        with whole(self) as connection:
            yield connection
            done.append(1)
            if len(done) == last:  # inside the transaction, which is lost
                os.kill(os.getpid(), signal.SIGKILL)

    Store.transaction = counted  # type: ignore[method-assign]
    with Library.open(Path(library_path)) as opened:
        construct_answers(
            opened, toy_queries(3), out, toy_setup(opened, rewrites=10, sample=4), concurrency=2
        )
    print(len(done))
