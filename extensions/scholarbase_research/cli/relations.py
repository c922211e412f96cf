"""Relations of papers and candidate pools: ``scholarbase construct relations`` and ``pools``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import orjson

from scholarbase.cli.options import open_source, source_options
from scholarbase.errors import InvalidRequest, RunExists
from scholarbase.settings import Settings

A_PATH = click.Path(path_type=Path)


@click.group()
def relations() -> None:
    """Find pairs of papers for questions about both."""


def _check_free(*files: Path | None) -> None:
    """Raises RunExists: a file to write exists, which is reported before the work and not after it."""
    for file in files:
        if file is not None and file.exists():
            raise RunExists(f"{file} already exists: give another file.")


@relations.command(short_help="Relate papers by similar questions.")
@click.argument("questions", type=A_PATH)
@click.option("--out", type=A_PATH, required=True, help="The file of relations to write.")
@click.option("--encoder", help="The encoder of the questions. [default: the one in the package]")
@click.option("--device", help="Where the encoder runs, such as cpu or cuda:0. [env: SCHOLARBASE_DEVICE]")
@click.option(
    "--threshold", default=0.7, show_default=True, help="The cosine above which two questions count."
)
@click.option("--top-sections", default=3, show_default=True, help="Pairs of sections of each two papers.")
@click.option("--per-paper", default=3, show_default=True, help="Relations of each source.")
@click.option("--keywords", type=A_PATH, help="A file of papers and keywords: targets share one.")
@click.pass_obj
def questions(
    settings: Settings,
    /,
    questions: Path,
    out: Path,
    encoder: str | None,
    device: str | None,
    keywords: Path | None,
    **options: Any,
) -> None:
    """Relate papers whose sections answer similar QUESTIONS.

    QUESTIONS has question, paper and section, as CSV or JSON lines.
    """
    from scholarbase.cli.encoders import open_encoders
    from scholarbase.models.encoders import PACKAGED
    from scholarbase.progress import reporter
    from scholarbase_research.construction.pools import read_keywords
    from scholarbase_research.construction.relations import (
        SharingKeywords,
        read_paper_questions,
        relate_questions,
        write_relations,
    )

    _check_free(out)
    paper_questions = read_paper_questions(questions)
    candidates = None if keywords is None else SharingKeywords(read_keywords(keywords))
    with open_encoders(settings, device, encoder or PACKAGED, None) as (used, _):
        assert used is not None
        related = relate_questions(
            paper_questions,
            used,
            candidates=candidates,
            reporter=reporter(settings.progress_seconds),
            **options,
        )
        count = write_relations(related, out)
    papers = len({question.paper for question in paper_questions})
    click.echo(f"{count:,} relations of {papers:,} papers. They are in {out}.", err=True)


@relations.command(short_help="Relate papers by sentences with one citation.")
@click.option("--out", type=A_PATH, required=True, help="The file of relations to write.")
@click.option(
    "--pools", type=A_PATH, help="Also write a query file whose pools are the papers that each source cites."
)
@click.option(
    "--min-cited", default=3, show_default=True, help="Papers of the library that a source has to cite."
)
@source_options
@click.pass_obj
def citations(
    settings: Settings,
    /,
    out: Path,
    pools: Path | None,
    min_cited: int,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Relate papers by the sentences of full texts that have a single citation mark."""
    from scholarbase.progress import reporter
    from scholarbase_research.construction.citation_sentences import CitationRelations
    from scholarbase_research.construction.pools import write_pools
    from scholarbase_research.construction.relations import write_relations

    _check_free(out, pools)
    if pools is not None and pools.resolve() == out.resolve():
        raise InvalidRequest(f"--out and --pools are both {out}: give two files.")
    with open_source(settings, library, url, encoder, default_encoder="none") as source:
        citation_relations = CitationRelations(
            source, min_cited=min_cited, reporter=reporter(settings.progress_seconds)
        )
        related = list(citation_relations)
    write_relations(related, out)
    if pools is not None:
        write_pools(
            citation_relations.pools(
                [relation for relation in related if len(citation_relations.cited[relation.source]) > 1]
            ),
            pools,
        )
    counts = citation_relations.counts
    if as_json:
        click.echo(orjson.dumps(dict(counts), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode())
    else:
        click.echo(
            f"{counts['papers']:,} papers with a text: {counts['papers_left_out']:,} cite fewer than {min_cited} "
            f"papers of the library. {counts['sentences']:,} sentences of the others have citation marks: "
            f"{counts['several']:,} several, {counts['unlinked']:,} one beside a mark without an entry, "
            f"{counts['not_held']:,} one of a paper that the library lacks, {counts['own']:,} one of the paper itself, "
            f"{counts['short']:,} fewer than four words. {counts['relations']:,} are relations."
        )
    click.echo(f"The relations are in {out}.", err=True)


@click.command("pools", short_help="Make a pool of papers for each question.")
@click.argument("relations", type=A_PATH)
@click.argument("papers", type=A_PATH)
@click.option("--out", type=A_PATH, required=True, help="The query file to write.")
@click.option("--size", default=30, show_default=True, help="Papers of each pool.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the random papers.")
@click.option(
    "--questions", type=A_PATH, help="Questions of the papers: the target's most distinct one is the query."
)
@click.option("--encoder", help="The encoder of the questions. [default: the one in the package]")
@click.option("--device", help="Where the encoder runs, such as cpu or cuda:0. [env: SCHOLARBASE_DEVICE]")
@click.option("--random", is_flag=True, help="Write the same queries with random papers as pools.")
@click.pass_obj
def pools(
    settings: Settings,
    /,
    relations: Path,
    papers: Path,
    out: Path,
    size: int,
    seed: int,
    questions: Path | None,
    encoder: str | None,
    device: str | None,
    random: bool,
) -> None:
    """Make a pool for each question in RELATIONS: its target, papers sharing keywords, and random ones.

    RELATIONS has query_id, source, target and query, which --questions chooses; PAPERS has paper and keywords. All are
    CSV or JSON lines. The result is a query file for "eval run --pool".
    """
    from scholarbase.cli.encoders import open_encoders
    from scholarbase.models.encoders import PACKAGED
    from scholarbase.progress import reporter
    from scholarbase_research.construction.pools import make_pools, read_keywords, read_relations, write_pools
    from scholarbase_research.construction.relations import read_paper_questions
    from scholarbase_research.construction.retrieval_questions import with_retrieval_questions

    _check_free(out)
    related, keywords = read_relations(relations), read_keywords(papers)
    if questions is None and (unasked := [relation.query_id for relation in related if not relation.query]):
        raise InvalidRequest(f"The relation {unasked[0]!r} has no query: give the papers' --questions.")
    made = make_pools(related, keywords, size=size, seed=seed)
    with ExitStack() as stack:
        if questions is not None:
            used, _ = stack.enter_context(open_encoders(settings, device, encoder or PACKAGED, None))
            assert used is not None
            read = read_paper_questions(questions)
            made = with_retrieval_questions(made, read, used, reporter=reporter(settings.progress_seconds))
        if random:
            nothing = dict.fromkeys(keywords, frozenset[str]())
            made = make_pools([pool.relation for pool in made], nothing, size=size, seed=seed)
        count, overlapping, padded = write_pools(made, out)
    click.echo(
        f"{count:,} pools of {size} papers: {overlapping:,} share keywords with their source, {padded:,} are random. "
        f"They are in {out}.",
        err=True,
    )
