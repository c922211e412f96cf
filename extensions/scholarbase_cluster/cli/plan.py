"""``scholarbase plan``: what a library of any size needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import orjson

if TYPE_CHECKING:
    from scholarbase_cluster.planning.requirements import Requirements
    from scholarbase_cluster.planning.slopes import Predicted, Slopes


@click.command(short_help="Estimate disk, memory, nodes and hours for a library.")
@click.option("--papers", required=True, help="Papers, such as 335000, 200M or 2.5B.")
@click.option(
    "--dimensions", type=int, default=256, show_default=True, help="Of a dense vector; 0 without vectors."
)
@click.option("--queries-per-second", type=float, default=1.0, show_default=True, help="Searches to answer.")
@click.option("--node-memory", type=float, default=64.0, show_default=True, help="Gigabytes of a node.")
@click.option("--node-cores", type=int, default=16, show_default=True, help="Cores of a node.")
@click.option(
    "--gpu", "gpus", multiple=True, help="A GPU that encodes; may be repeated. [default: all known ones]"
)
@click.option(
    "--tokens-per-second", type=float, help="The speed of an encoder of your own, instead of --gpu."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    papers: str,
    dimensions: int,
    queries_per_second: float,
    node_memory: float,
    node_cores: int,
    gpus: tuple[str, ...],
    tokens_per_second: float | None,
    as_json: bool,
) -> None:
    """Estimate what a library needs, from libraries that `make bench` measured, beside Qdrant's own formula.

    Values in parentheses are 95% prediction intervals.
    """
    from scholarbase_cluster.planning.requirements import (
        Node,
        Wanted,
        gpu_speeds,
        own_speed,
        parse_count,
        requirements,
    )
    from scholarbase_cluster.planning.slopes import shipped

    wanted = Wanted(parse_count(papers), dimensions, queries_per_second, Node(node_memory, node_cores))
    speeds = own_speed(tokens_per_second, gpus) if tokens_per_second is not None else gpu_speeds(gpus)
    slopes = shipped()
    found = requirements(wanted, slopes, speeds)
    if as_json:
        click.echo(orjson.dumps(_json(found, slopes), option=orjson.OPT_INDENT_2).decode())
    else:
        _show(found, slopes, node_memory, node_cores)


def _json(found: Requirements, slopes: Slopes) -> dict[str, Any]:
    from scholarbase_cluster.planning.requirements import QDRANT

    return {
        **found.to_dict(),
        "measured": {"source": slopes.source, "machine": slopes.machine, "papers": slopes.sizes},
        "qdrant_formula": QDRANT,
    }


def _show(found: Requirements, slopes: Slopes, memory: float, cores: int) -> None:
    from scholarbase.cli.display import show_facts
    from scholarbase_cluster.planning.requirements import QDRANT

    facts = {
        "papers": f"{found.papers:,}, {found.dimensions:,} dimensions",
        "disk": _size(found.disk_bytes),
        "memory to serve": _size(found.memory_bytes),
        "with vectors on disk": _size(found.least_memory_bytes),
        "by Qdrant's formula": f"{_bytes(found.qdrant_bytes)} for the dense vectors alone",
        "memory to build": f"{_size(found.build_bytes)} in each partition at most",
        "processor time": f"{_span(found.cpu_seconds)} to build",
        "nodes": f"{found.nodes:,} of {memory:g} GB and {cores} cores: {found.shards:,} shards x {found.replicas:,}",
    }
    for name, hours in found.encoding_hours.items():
        facts[f"encoding, {name}"] = f"{hours:,.1f} hours on one"
    facts["measured"] = (
        f"{slopes.source}: {', '.join(f'{size:,}' for size in slopes.sizes)} papers; {slopes.machine}"
    )
    facts["formula"] = QDRANT
    show_facts(facts)


def _size(value: Predicted) -> str:
    return f"{_bytes(value.value)} ({_bytes(value.low)} to {_bytes(value.high)})"


def _bytes(value: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB")):
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value / 1e6:,.0f} MB"


def _span(value: Predicted) -> str:
    hours = [one / 3600 for one in value]
    return "{:,.1f} hours ({:,.1f} to {:,.1f})".format(*hours)
