"""The commands that build benchmarks: ``scholarbase construct``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from scholarbase.cli.groups import Commands
from scholarbase.cli.options import F, open_source, source_options
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings
from scholarbase_research.cli.models import Models, model_options, models, read_prices
from scholarbase_research.cli.relations import pools, relations

if TYPE_CHECKING:
    from scholarbase.models.source import Source
    from scholarbase_research.construction.rewrites import Rewriter
    from scholarbase_research.llm.judges import Judge
    from scholarbase_research.llm.rubrics import Rubric

A_PATH = click.Path(path_type=Path)


@click.group("construct", cls=Commands)
def construction() -> None:
    """Build a benchmark: the answers of questions, found and judged."""


def _limits(command: F) -> F:
    for option in reversed(
        (
            click.option("--rewrites", default=10, show_default=True, help="Rewrites of each question."),
            click.option("--depth", default=10, show_default=True, help="Results of each text and source."),
            click.option("--hops", default=2, show_default=True, help="Hops of citation expansion."),
            click.option(
                "--citations",
                default=30,
                show_default=True,
                help="Citing papers of each seed; all references are taken.",
            ),
            click.option("--max-answers", default=500, show_default=True, help="Answers of a question."),
            click.option(
                "--max-judged", default=10_000, show_default=True, help="Judged papers of a question."
            ),
            click.option("--to", help="The latest date of papers, or query for each question's own date."),
            click.option(
                "--sample",
                default=20,
                show_default=True,
                help="Papers of each question that the prefilter dropped, to judge for its loss.",
            ),
            click.option("--seed", default=0, show_default=True, help="The seed of that sample."),
            click.option(
                "--min-overlap",
                default=0.25,
                show_default=True,
                help="The share of a question's words with which the prefilter keeps a paper.",
            ),
        )
    ):
        command = option(command)
    return command


@construction.command(short_help="Find and judge the answers of QUESTIONS.")
@click.argument("questions", type=A_PATH)
@click.option("--out", type=A_PATH, default="construction", show_default=True, help="The folder to write.")
@click.option(
    "--judge",
    "judges",
    multiple=True,
    required=True,
    help="A model's URL with its name (https://host/v1#name), rule:words or rule:known; may be repeated.",
)
@click.option(
    "--adjudicator",
    "adjudicators",
    multiple=True,
    help="A model that judges uncertain papers again; may be repeated. [default: the first model of --judge]",
)
@click.option(
    "--rubric", default="relevance-0-2", show_default=True, help="A rubric's name, or its TOML file."
)
@click.option("--rewriter", default="rules", show_default=True, help="rules, or a model's URL with its name.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="library, library:MODE or library:MODE:ENGINE; may be repeated. [default: library, in every mode]",
)
@_limits
@click.option("--concurrency", default=4, show_default=True, help="Questions at once.")
@click.option("--judge-concurrency", default=8, show_default=True, help="Papers judged at once.")
@model_options
@click.option("--metadata", type=A_PATH, help="The query set's metadata file, if it is in another folder.")
@click.option("--skip-broken", is_flag=True, help="Skip broken lines, and count them.")
@click.option("--restart", is_flag=True, help="Discard what the folder has, and start again.")
@source_options
@click.pass_obj
def answers(settings: Settings, /, questions: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Find and judge the answers of QUESTIONS, and write them as a query file, qrels and a report to --out.

    QUESTIONS is a query file of any known format, JSON lines with a question on each, or a text file with one on each
    line. Answers that the file has measure the recall. If interrupted, the same command continues.
    """
    from scholarbase.progress import reporter
    from scholarbase_research.construction.job import construct_answers, known_answers
    from scholarbase_research.construction.judging import Panel
    from scholarbase_research.construction.outputs import OUTPUTS, PAGE, QUERIES, page
    from scholarbase_research.construction.process import Setup
    from scholarbase_research.construction.questions import read_questions
    from scholarbase_research.construction.settings import Limits
    from scholarbase_research.construction.sources import open_sources
    from scholarbase_research.evaluation.run_display import show_notes
    from scholarbase_research.jobs import check_inputs
    from scholarbase_research.llm.rubrics import open_rubric

    wanted = Limits(
        *(options[name] for name in ("rewrites", "depth", "hops", "citations", "max_answers", "max_judged")),
        *(options[name] for name in ("sample", "to", "seed", "min_overlap")),
    )
    rubric, judges, metadata = open_rubric(options["rubric"]), options["judges"], options["metadata"]
    priced = read_prices(options["prices"])
    check_inputs(out, OUTPUTS, (questions, metadata))
    query_set = read_questions(questions, metadata=metadata, skip_broken=options["skip_broken"])
    show_notes(query_set.notes)
    with (
        models(settings, options, options["judge_concurrency"]) as opened,
        open_source(settings, options["library"], options["url"], options["encoder"]) as source,
    ):
        known = known_answers(source, query_set)
        panel = Panel(
            rubric,
            [_judge(opened, name, rubric, known) for name in judges],
            [_judge(opened, name, rubric, known) for name in options["adjudicators"] or _first_model(judges)],
        )
        setup = Setup(
            [
                library_source
                for name in options["sources"] or ("library",)
                for library_source in open_sources(source, name)
            ],
            _rewriter(opened, source, options["rewriter"]),
            panel,
            wanted,
            priced,
        )
        figures = construct_answers(
            source,
            query_set,
            out,
            setup,
            known=known,
            reporter=reporter(settings.progress_seconds),
            **{name: options[name] for name in ("concurrency", "judge_concurrency", "restart")},
        )
    if as_json:
        click.echo(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(page(figures), nl=False)
    click.echo(f"The answers are in {out / QUERIES}, the report in {out / PAGE}.", err=True)


def _is_model(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def _first_model(judges: Sequence[str]) -> list[str]:
    return [name for name in judges if _is_model(name)][:1]


def _judge(opened: Models, name: str, rubric: Rubric, known: Mapping[str, frozenset[str]]) -> Judge:
    from scholarbase_research.construction.rules import known_judge, words_judge
    from scholarbase_research.llm.judges import ModelJudge

    if name == "rule:words":
        return words_judge(rubric)
    if name == "rule:known":
        if not known:
            raise InvalidRequest(
                "rule:known needs questions with answers that the library holds: use another judge."
            )
        return known_judge(rubric, known)
    if not _is_model(name):
        raise InvalidRequest(
            f"Unknown judge {name!r}: use a URL such as https://host/v1#name, rule:words or rule:known."
        )
    return ModelJudge(opened.open(name), rubric)


def _rewriter(opened: Models, source: Source, name: str) -> Rewriter:
    from scholarbase_research.construction.rewrites import ModelRewriter, RuleRewriter

    rules = RuleRewriter(source)
    if name == "rules":
        return rules
    if not _is_model(name):
        raise InvalidRequest(f"Unknown rewriter {name!r}: use rules, or a URL such as https://host/v1#name.")
    return ModelRewriter(opened.open(name), rules)


@construction.command(short_help="Write questions about TOPICS.")
@click.argument("topics", type=A_PATH)
@click.option(
    "--model", "model_url", required=True, help="The model's URL with its name, https://host/v1#name."
)
@click.option("--out", type=A_PATH, default="questions", show_default=True, help="The folder to write.")
@click.option("--encoder", help="The encoder that finds duplicates. [default: the one in the package]")
@click.option(
    "--cosine", default=0.9, show_default=True, help="The cosine from which a question is a duplicate."
)
@click.option("--per-intent", type=int, help="The most questions of an intent.")
@click.option("--per-category", type=int, help="The most questions of a category.")
@click.option("--concurrency", default=4, show_default=True, help="Topics at once.")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
@click.pass_obj
def queries(
    settings: Settings, /, topics: Path, model_url: str, out: Path, as_json: bool, **options: Any
) -> None:
    """Write four questions about each of TOPICS, one of each intent, and leave out those with flaws.

    TOPICS has one topic on each line. If interrupted, the same command continues: replies are kept in --out. Where
    two replies were malformed, it asks again.
    """
    from scholarbase.cli.encoders import open_encoders
    from scholarbase.models.encoders import PACKAGED
    from scholarbase.progress import reporter
    from scholarbase_research.construction.topics import (
        OUTPUTS,
        QUESTIONS,
        REPLIES,
        construct_queries,
        questions_folder,
        read_topics,
    )
    from scholarbase_research.jobs import check_inputs
    from scholarbase_research.llm.base import Usage

    check_inputs(out, (*OUTPUTS, REPLIES), (topics,))
    listed = read_topics(topics)
    priced = read_prices(options["prices"])
    recorded = options if options["cassette"] else {**options, "cassette": out / REPLIES, "record": True}
    with (
        questions_folder(out),
        models(settings, recorded, options["concurrency"]) as opened,
        open_encoders(settings, None, options["encoder"] or PACKAGED, None) as (encoder, _),
    ):
        assert encoder is not None
        model = opened.open(model_url)
        manifest = construct_queries(
            listed,
            model,
            encoder,
            out,
            reporter=reporter(settings.progress_seconds),
            **{name: options[name] for name in ("cosine", "per_intent", "per_category", "concurrency")},
        )
    if as_json:
        click.echo(orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode())
    else:
        used = Usage(**manifest["usage"])
        cost = f", cost {priced[model.name].cost(used):,.4f}" if model.name in priced else ""
        click.echo(
            f"{manifest['topics']:,} topics: {manifest['questions']:,} questions, {manifest['rejected']:,} left out; "
            f"{used.replies:,} replies{cost}."
        )
    click.echo(f"The questions are in {out / QUESTIONS}.", err=True)


construction.add_command(pools)
construction.add_command(relations)
