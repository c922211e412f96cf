"""Candidate pools: ``scholarbase construct pools``."""

from __future__ import annotations

from pathlib import Path

import click

A_PATH = click.Path(path_type=Path)


@click.command("pools", short_help="Make a pool of papers for each question.")
@click.argument("relations", type=A_PATH)
@click.argument("papers", type=A_PATH)
@click.option("--out", type=A_PATH, required=True, help="The query file to write.")
@click.option("--size", default=30, show_default=True, help="Papers of each pool.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the random papers.")
def pools(relations: Path, papers: Path, out: Path, size: int, seed: int) -> None:
    """Make a pool for each question in RELATIONS: its target, papers sharing keywords, and random ones.

    RELATIONS has query_id, query, source and target; PAPERS has paper and keywords. Both are CSV or JSON lines. The
    result is a query file for "eval run --pool".
    """
    from scholarbase_research.construction.pools import make_pools, read_keywords, read_relations, write_pools

    made = make_pools(read_relations(relations), read_keywords(papers), size=size, seed=seed)
    count, overlapping, padded = write_pools(made, out)
    click.echo(
        f"{count:,} pools of {size} papers: {overlapping:,} share keywords with their source, {padded:,} are random. "
        f"They are in {out}.",
        err=True,
    )
