"""Checking references: the confusion tables of docs/measurements.md.

- made: references written from the library's own papers in five styles; altered (another year, another author, words of
  the title exchanged); and invented, with titles put together from words of real ones;
- labelled: raw entries of bibliographies in unarXive's sample, labelled by hand (benchmarks/references-labels.tsv).

    scholarbase ingest ../shared/data/arxiv --library arxiv-library
    python benchmarks/references.py --library arxiv-library --data ../shared/data

Settings were chosen with the seeds 1 and 2; figures are reported with the default, 3.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from scholarbase.bibliographies.names import surname
from scholarbase.databases import open_immutable
from scholarbase.indexes.catalog import FILE_NAME
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.indexes.titles import normalize_title
from scholarbase.models.limits import REFERENCE_STATUSES
from scholarbase.models.responses import CheckedReference
from scholarbase.search.library import Library

REPORTED_SEED: Final = 3
EACH: Final = 60
"""References of each style."""
ALTERED: Final = 100
INVENTED: Final = 100
UNARXIVE: Final = "unarxive-sample/arXiv_src_2212_086.jsonl.gz"
LABELS: Final = Path(__file__).parent / "references-labels.tsv"
SURNAMES: Final = (
    *("Abara", "Bellweather", "Cindrich", "Dovzhenkov", "Eriksdottir", "Fanshawe", "Gorlami", "Hasterly"),
    *("Imbrogno", "Jaskolka"),
)
VENUES: Final = ("Neural Networks", "IEEE Trans. Inf. Theory", "Proc. ICML", "Phys. Rev. D", "ACM CCS")


class Paper(NamedTuple):
    id: str
    title: str
    authors: list[str]
    year: int


class Made(NamedTuple):
    """A reference, its kind, and the paper that it means, None for an invented one."""

    kind: str
    style: str
    text: str
    paper: str | None


# -- styles ---------------------------------------------------------------------------------------------------


def initials(name: str) -> str:
    last = surname(name)
    return " ".join(f"{part[0]}." for part in name.removesuffix(last).split() if part[0].isalpha())


def bibtex(paper: Paper, draw: random.Random) -> str:
    names = [f"{surname(name)}, {name.removesuffix(surname(name)).strip()}" for name in paper.authors]
    title = " ".join(f"{{{word}}}" if word[1:] != word[1:].lower() else word for word in paper.title.split())
    key = normalize_title(surname(paper.authors[0]))[:20] or "key"
    return (
        f"@inproceedings{{{key}{paper.year},\n  title = {{{title}}},\n  author = {{{' and '.join(names)}}},\n"
        f"  booktitle = {{{draw.choice(VENUES)}}},\n  year = {{{paper.year}}}\n}}"
    )


def apa(paper: Paper, draw: random.Random) -> str:
    names = [f"{surname(name)}, {initials(name)}" for name in paper.authors]
    if len(names) > 7:
        names = [*names[:6], "...", names[-1]]
    listed = ", ".join(names[:-1]) + f", & {names[-1]}" if len(names) > 1 else names[0]
    volume = draw.randint(1, 90)
    return (
        f"{listed} ({paper.year}). {paper.title}. {draw.choice(VENUES)}, {volume}(2), {volume}-{volume + 12}."
    )


def ieee(paper: Paper, draw: random.Random) -> str:
    names = [f"{initials(name)} {surname(name)}".strip() for name in paper.authors]
    listed = (
        f"{names[0]} et al."
        if len(names) > 6
        else " and ".join([", ".join(names[:-1]), names[-1]][-len(names) :])
    )
    return (
        f'[{draw.randint(1, 99)}] {listed}, "{paper.title}," in {draw.choice(VENUES)}, '
        f"vol. {draw.randint(1, 40)}, {paper.year}, pp. {draw.randint(1, 900)}."
    )


def acm(paper: Paper, draw: random.Random) -> str:
    names = paper.authors if len(paper.authors) <= 10 else [paper.authors[0], "et al"]
    listed = ", ".join(names[:-1]) + f", and {names[-1]}" if len(names) > 1 else names[0]
    return f"{listed}. {paper.year}. {paper.title}. In {draw.choice(VENUES)}. {draw.randint(1, 900)}."


def csl(paper: Paper, draw: random.Random) -> str:
    people = [{"family": surname(name), "given": initials(name)} for name in paper.authors]
    issued = {"date-parts": [[paper.year]]}
    return json.dumps(
        [{"title": paper.title, "author": people, "issued": issued, "container-title": draw.choice(VENUES)}]
    )


STYLES: Final[dict[str, Callable[[Paper, random.Random], str]]] = {
    "BibTeX": bibtex,
    "APA": apa,
    "IEEE": ieee,
    "ACM": acm,
    "CSL-JSON": csl,
}

# -- made references ------------------------------------------------------------------------------------------


def papers_of(library: Path) -> list[Paper]:
    """The papers with authors. Those without are references that no style can write."""
    with open_immutable(library / FILE_NAME) as db:
        rows = db.execute(
            "SELECT arxiv_id, title, authors, year FROM papers WHERE arxiv_id IS NOT NULL AND authors LIKE '%_ _%' "
            "AND year IS NOT NULL ORDER BY id"
        )
        papers = [
            Paper(f"arXiv:{number}", " ".join(title.split()), [name for name, _ in json.loads(authors)], year)
            for number, title, authors, year in rows
        ]
    return [paper for paper in papers if paper.authors and all(" " in name for name in paper.authors)]


def made(papers: Sequence[Paper], draw: random.Random) -> Iterator[Made]:
    styles = list(STYLES.items())
    for name, style in styles:
        for paper in draw.sample(papers, EACH):
            yield Made("real", name, style(paper, draw), paper.id)
    several = [paper for paper in papers if len(paper.authors) > 1 and len(paper.title.split()) > 3]
    for number, paper in enumerate(draw.sample(several, ALTERED)):
        name, style = styles[number % len(styles)]
        kind = ("year", "author", "title")[number % 3]
        yield Made(f"altered {kind}", name, style(altered(paper, kind, draw), draw), paper.id)
    titles = {normalize_title(paper.title) for paper in papers}
    for number in range(INVENTED):
        name, style = styles[number % len(styles)]
        yield Made("invented", name, style(invented(papers, titles, draw), draw), None)


def altered(paper: Paper, kind: str, draw: random.Random) -> Paper:
    if kind == "year":
        return paper._replace(year=paper.year + draw.choice([-4, -3, -2, -1, 1, 2, 3, 4]))
    if kind == "author":
        names = list(paper.authors)
        names[draw.randrange(len(names))] = f"{draw.choice('ABCDEFGH')}. {draw.choice(SURNAMES)}"
        return paper._replace(authors=names)
    words = paper.title.split()
    first, second = draw.sample(range(len(words)), 2)
    words[first], words[second] = words[second], words[first]
    return paper._replace(title=" ".join(words))


def invented(papers: Sequence[Paper], titles: set[str], draw: random.Random) -> Paper:
    """A title of the beginning of one real title and the end of another, with the rare words of a third."""
    while True:
        a, b, c = (draw.choice(papers).title.split() for _ in range(3))
        rare = [word for word in c if word.lower() not in STOP_WORDS][:2]
        title = " ".join([*a[: (len(a) + 1) // 2], *rare, *b[len(b) // 2 :]])
        if len(title.split()) > 3 and normalize_title(title) not in titles:
            break
    names = [f"{draw.choice('ABCDEFGH')}. {name}" for name in draw.sample(SURNAMES, draw.randint(1, 4))]
    return Paper("", title, names, draw.randint(1995, 2022))


def checked(library: Library, text: str) -> CheckedReference:
    [result] = library.check_references(text).results
    assert isinstance(result, CheckedReference)
    return result


def run_made(library: Library, papers: Sequence[Paper], seed: int, console: Console, *, errors: bool) -> None:
    table: dict[str, Counter[str]] = {}
    styles: dict[str, Counter[str]] = {}
    right = wrong = 0
    differing = Counter[str]()
    began = perf_counter()
    references = list(made(papers, random.Random(seed)))
    for reference in references:
        result = checked(library, reference.text)
        paper_id = result.paper.id if result.paper is not None else None
        status = result.status if paper_id is None or paper_id == reference.paper else "held: another paper"
        table.setdefault(reference.kind, Counter())[status] += 1
        if reference.kind == "real":
            styles.setdefault(reference.style, Counter())[status] += 1
        right += paper_id is not None and paper_id == reference.paper
        wrong += paper_id is not None and paper_id != reference.paper
        if reference.kind in ("altered year", "altered author") and paper_id is not None:
            field = "year" if reference.kind == "altered year" else "authors"
            differing[reference.kind] += any(difference.field == field for difference in result.differences)
        if errors and (status.startswith("held:") or (paper_id is None and reference.kind != "invented")):
            console.print(
                f"{reference.kind}, {reference.style}: {status}: {result.reason}\n  {reference.text}\n"
                f"  {reference.paper} {paper_id}",
                markup=False,
            )
    seconds = (perf_counter() - began) / len(references)
    console.print(confusion(f"Made references, seed {seed}", table))
    console.print(confusion("Real ones by style", styles))
    console.print(
        f"recall of held over the real ones: {(table['real']['held'] + table['real']['withdrawn']) / (EACH * 5):.3f}"
    )
    console.print(f"precision of held: {right / (right + wrong):.3f} ({wrong} of {right + wrong} wrong)")
    console.print(
        f"held with the difference that was made: {dict(differing)}; {1000 * seconds:.1f} ms a reference"
    )


def confusion(title: str, rows: dict[str, Counter[str]]) -> Table:
    columns = [
        *REFERENCE_STATUSES,
        *sorted({s for row in rows.values() for s in row} - set(REFERENCE_STATUSES)),
    ]
    table = Table("", *columns, "total", title=title, title_justify="left")
    for name, row in rows.items():
        table.add_row(name, *(str(row[column]) for column in columns), str(row.total()))
    return table


# -- labelled references --------------------------------------------------------------------------------------


def raw_entries(data: Path) -> dict[str, str]:
    """The bibliography entries of unarXive's sample by the paper's id and the entry's key."""
    with gzip.open(data / UNARXIVE, "rt") as lines:
        papers = [json.loads(line) for line in lines]
    return {
        f"{paper['paper_id']} {key}": " ".join(entry["bib_entry_raw"].split())
        for paper in papers
        for key, entry in paper["bib_entries"].items()
    }


def run_labelled(library: Library, data: Path, console: Console, *, errors: bool) -> None:
    entries = raw_entries(data)
    table: dict[str, Counter[str]] = {}
    for line in LABELS.read_text().splitlines():
        if line.startswith("#"):
            continue
        paper, key, label = line.split("\t")
        result = checked(library, entries[f"{paper} {key}"])
        paper_id = result.paper.id if result.paper is not None else None
        status = result.status if paper_id is None or paper_id == label else "held: another paper"
        table.setdefault("held" if ":" in label else label, Counter())[status] += 1
        if errors and (paper_id or "not held") != (label if ":" in label else "not held"):
            console.print(
                f"{label}: {status} {paper_id}: {result.reason}\n  {entries[f'{paper} {key}']}", markup=False
            )
    console.print(confusion("Labelled entries of unarXive: rows are labels", table))
    whole: Counter[str] = Counter(checked(library, text).status for text in entries.values() if text)
    console.print(confusion("All entries of unarXive", {"all": whole}))


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, required=True, help="a library of the shared arXiv file")
    parser.add_argument("--data", type=Path, help="the shared data, for the labelled entries")
    parser.add_argument("--seed", type=int, default=REPORTED_SEED, help="of the made references")
    parser.add_argument("--errors", action="store_true", help="print each reference that came out wrong")
    options = parser.parse_args(arguments)
    console = Console(width=120, highlight=False, soft_wrap=True)
    with Library.open(options.library, encoder="none") as library:
        run_made(library, papers_of(options.library), options.seed, console, errors=options.errors)
        if options.data is not None:
            run_labelled(library, options.data, console, errors=options.errors)


if __name__ == "__main__":
    main()
