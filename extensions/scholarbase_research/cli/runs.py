"""The commands of bulk evaluation: ``scholarbase eval``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scholarbase.cli.groups import Commands
from scholarbase.cli.options import (
    F,
    json_option,
    open_source,
    print_json,
    request_options,
    require_library,
    source_options,
)
from scholarbase.errors import InvalidRequest
from scholarbase.models.document_requests import CHUNKINGS
from scholarbase.models.limits import MODES, SYNTAXES, Mode
from scholarbase.models.requests import SearchRequest
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase.encoders import Encoder
    from scholarbase_research.evaluation.queries import QuerySet
    from scholarbase_research.evaluation.requests import PassageSettings, SearchSettings
    from scholarbase_research.evaluation.run_data import Run

A_PATH = click.Path(path_type=Path)


@click.group("eval", cls=Commands)
def evaluation() -> None:
    """Measure how well a library is searched, by us or by an agent."""


def queries_options(command: F) -> F:
    """Options for reading the query file and writing runs."""
    for option in (
        click.option(
            "--metadata", type=A_PATH, help="The query set's metadata file, if it is in another folder."
        ),
        click.option("--skip-broken", is_flag=True, help="Skip broken lines, and count them."),
        click.option("--out", type=A_PATH, default="runs", show_default=True, help="The folder for runs."),
        click.option("--restart", is_flag=True, help="Start again, or replace a run of other settings."),
    ):
        command = option(command)
    return command


def measure_option(command: F) -> F:
    return click.option(
        "--measure",
        "measures",
        multiple=True,
        help="A measure by ir_measures' name, such as R@100, nDCG@10, RR@10, Success@5 or R@All; may be repeated.",
    )(command)


def _folder_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None and (name in ("", ".", "..") or "/" in name):
        raise InvalidRequest(
            f"--name is {name!r}: it must be the name of a folder in --out, without a slash."
        )
    return name


def name_option(default: str) -> Callable[[F], F]:
    return click.option("--name", callback=_folder_name, help=f"The run's name; default: {default}.")


def across_option(command: F) -> F:
    return click.option("--across-snapshots", is_flag=True, help="Allow runs of different snapshots.")(
        command
    )


def command_line() -> str:
    """The command line for the manifest, without ``--restart``, which reproducing the run does not need."""
    return shlex.join(["scholarbase", *(word for word in sys.argv[1:] if word != "--restart")])


def read_query_set(path: Path, metadata: Path | None, skip_broken: bool) -> QuerySet:
    """Read a query file and print its notes."""
    from scholarbase_research.evaluation.formats import read_queries
    from scholarbase_research.evaluation.run_display import show_notes

    queries = read_queries(path, metadata=metadata, skip_broken=skip_broken)
    show_notes(queries.notes)
    return queries


def common_measures(runs: Sequence[Run], measures: Sequence[str]) -> list[str]:
    """The requested measures, else the default ones that all runs are deep enough for."""
    from scholarbase_research.evaluation.measures import default_measures

    names = map(default_measures, runs)
    return list(measures) or [m for m in next(names) if all(m in default_measures(run) for run in runs)]


def show_measures(runs: Sequence[Run], measures: Sequence[str], as_json: bool) -> None:
    """Print the measures of runs."""
    from scholarbase_research.evaluation.measured import Measured
    from scholarbase_research.evaluation.run_display import figures, show_runs

    measured = Measured.of(runs, measures)
    if as_json:
        print_json(figures(measured))
    else:
        show_runs(measured)


# -- run ------------------------------------------------------------------------------------------------


def _modes(text: str | None) -> list[Mode | None]:
    if text is None:
        return [None]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in MODES:
            raise InvalidRequest(f"Unknown mode {name!r} in --mode: use one or more of {', '.join(MODES)}.")
    return list(dict.fromkeys(names))  # type: ignore[arg-type]  # checked to be modes above


@evaluation.command()
@click.argument("queries", type=A_PATH)
@click.option("--mode", help="Search mode: hybrid, sparse or dense, or several, separated by commas.")
@request_options(
    SearchRequest,
    *("engine", "fusion", "graph_weight", "exact", "negation", "prefer"),
    *("rerank", "rerank_depth", "rerank_weight", "rerank_ms"),
)
@click.option(
    "--syntax",
    type=click.Choice(SYNTAXES),
    default="plain",
    show_default=True,
    help="How queries are read: as words (plain), as query syntax (query), or as query syntax if they contain some.",
)
@click.option("--limit", default=1000, show_default=True, help="Results per query.")
@click.option("--to", help="The latest date of a paper: YYYY[-MM[-DD]], or query for each query's own date.")
@click.option("--pool", is_flag=True, help="Search within each query's candidate pool.")
@click.option(
    "--exclude-self", is_flag=True, help="Leave out documents that have the query's id, as BEIR does."
)
@click.option(
    "--query-vectors",
    type=A_PATH,
    help="The queries' vectors instead of an encoder: a .npy file with ids.txt beside it, or a Parquet file.",
)
@click.option(
    "--in-paper", is_flag=True, help="Search for passages in the paper that has the query's evidence."
)
@click.option(
    "--chunker",
    type=click.Choice(CHUNKINGS),
    help="How that paper is cut into passages; default: as in the library's index.",
)
@name_option("the query set's name and the mode")
@click.option("--concurrency", type=int, help="Concurrent searches; default: the fastest number.")
@click.option("--report", type=A_PATH, help="Write a report of the runs to this folder.")
@measure_option
@queries_options
@source_options
@click.pass_obj
def run(
    settings: Settings,
    /,
    queries: Path,
    mode: str | None,
    limit: int,
    name: str | None,
    concurrency: int | None,
    report: Path | None,
    measures: Sequence[str],
    metadata: Path | None,
    skip_broken: bool,
    out: Path,
    restart: bool,
    as_json: bool,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    query_vectors: Path | None,
    **options: Any,
) -> None:
    """Search for every query of QUERIES and measure the results.

    QUERIES is a file or folder in a known format: ScholarQuest, AutoScholarQuery, RealScholarQuery, SPARBench,
    LitSearch, ScholarGym, BEIR, TREC, CSV or JSON lines; or with passages as answers: SciDQA, ElaipBench,
    AIM-SciQA, or JSON lines with evidence. If interrupted, the same command continues the run.
    """
    from scholarbase.extras import check_installed
    from scholarbase.progress import reporter
    from scholarbase_research.evaluation.answers import resolve_answers
    from scholarbase_research.evaluation.measures import parse_measure
    from scholarbase_research.evaluation.searching import default_name, run_searches
    from scholarbase_research.evaluation.targets import judge_passages

    for feature in ("evaluation", "report") if report else ("evaluation",):
        check_installed(feature, "The evaluation")
    modes = _modes(mode)
    for measure in map(parse_measure, measures):
        if measure.cutoff is not None and measure.cutoff > limit:
            raise InvalidRequest(
                f"{measure.name} needs the first {measure.cutoff:,} results, and --limit is {limit:,}: give --limit "
                f"{measure.cutoff}, or use a lower cutoff."
            )
    query_set = read_query_set(queries, metadata, skip_broken)
    # Loading the library's model can take longer than all searches.
    lexical = options["engine"] != "learned" and all(m == "sparse" for m in modes)
    default = "none" if lexical else None
    given: str | Encoder | None = encoder
    digest = None
    if query_vectors is not None:
        from scholarbase_research.evaluation.query_vectors import read_query_vectors

        if url is not None or encoder is not None or lexical or options["syntax"] != "plain":
            raise InvalidRequest(
                "--query-vectors is for dense and hybrid searches of a local library for queries as they are: leave "
                "out --url, --encoder, --syntax and --mode sparse."
            )
        options["negation"] = "off"  # the vector is of the whole query
        given, digest = read_query_vectors(query_vectors, query_set, require_library(library, settings))
    searches = _searches(query_set, modes, report, {**options, "limit": limit, "query_vectors": digest})
    rerank = options["rerank"]
    with open_source(settings, library, url, given, default_encoder=default, rerank=rerank) as source:
        used_modes = [search.used(source).mode for search in searches]
        if query_set.has_passages:
            judged = judge_passages(source, query_set, by_version=options["in_paper"])
        else:
            judged = resolve_answers(source, query_set)
        runs = []
        for search, used_mode in zip(searches, used_modes, strict=True):
            named_fields = ("engine", "fusion", "rerank", "chunker")
            names = [
                "in-paper" if options["in_paper"] else None,
                *(getattr(search, name, None) for name in named_fields),
                "exclude-self" if options["exclude_self"] else None,
                "own-vectors" if query_vectors is not None else None,
            ]
            run_name = default_name(query_set, used_mode, *names)
            if name:
                run_name = name if len(modes) == 1 else f"{name}-{used_mode}"
            completed = run_searches(
                source,
                query_set,
                judged.queries,
                judged.counts,
                search,
                out / run_name,
                name=run_name,
                command=command_line(),
                concurrency=concurrency,
                restart=restart,
                reporter=reporter(settings.progress_seconds),
            )
            runs.append(completed)
    show_measures(runs, measures, as_json)
    click.echo(
        f"{'The run is' if len(runs) == 1 else 'The runs are'} in {out}: "
        f"{', '.join(run.name for run in runs)}.",
        err=True,
    )
    if report is not None:
        from scholarbase_research.evaluation.report import write_report

        page = write_report(runs, report, measures=common_measures(runs, measures))
        click.echo(f"The report is at {page}.", err=True)


def _searches(
    query_set: QuerySet, modes: Sequence[Mode | None], report: Path | None, options: dict[str, Any]
) -> Sequence[SearchSettings | PassageSettings]:
    """The settings of the searches in each mode.

    Raises:
        InvalidRequest: options are given that do not apply to the query set.
    """
    from scholarbase_research.evaluation.requests import PassageSettings, SearchSettings

    settings = PassageSettings if query_set.has_passages else SearchSettings
    known = {name: value for name, value in options.items() if name in settings.__dataclass_fields__}
    refused = {
        name: value
        for name, value in options.items()
        if name not in (*known, "rerank_depth")
        and (name, value) not in (("negation", "auto"), ("prefer", "none"))
    }
    if query_set.has_passages:
        refused["report"] = report
    for option in filter(refused.get, refused):
        what = "papers" if query_set.has_passages else "passages"
        raise InvalidRequest(
            f"--{option.replace('_', '-')} applies to queries whose answers are {what}, and {query_set.name} "
            f"({query_set.format}) has others: leave it out."
        )
    unused: dict[Mode | None, set[str]] = {}
    if len(modes) > 1:  # the engine is for those with a sparse leg, the fusion for hybrid searches
        of_hybrid = {"fusion", "graph_weight"}
        unused = {"dense": {"engine", *of_hybrid}, "sparse": of_hybrid}
    return [
        settings(**{name: value for name, value in known.items() if name not in unused.get(m, ())}, mode=m)
        for m in modes
    ]


# -- existing runs --------------------------------------------------------------------------------------


@evaluation.command()
@click.argument("runs", nargs=-1, required=True, type=A_PATH)
@click.option(
    "--by",
    multiple=True,
    help="Also show groups by intent, category, year, answers or answer-category, or by two of them, such as "
    "answers,intent; may be repeated.",
)
@json_option
@measure_option
@across_option
def show(
    runs: Sequence[Path],
    by: Sequence[str],
    as_json: bool,
    measures: Sequence[str],
    across_snapshots: bool,
) -> None:
    """Measure existing RUNS."""
    from scholarbase_research.evaluation.breakdown import parse_pair
    from scholarbase_research.evaluation.measured import Measured
    from scholarbase_research.evaluation.run_display import figures, show_runs
    from scholarbase_research.evaluation.runs import check_comparable, read_run

    if by and as_json:
        raise InvalidRequest("--by cannot be used with --json: eval report writes every table as CSV.")
    pairs = list(map(parse_pair, by))
    read = [read_run(path) for path in runs]
    if any(pairs):
        for run in read[1:]:
            check_comparable(read[0], run, across_snapshots=across_snapshots)
    measured = Measured.of(read, measures)
    if as_json:
        print_json(figures(measured))
        return
    show_runs(measured, by)
