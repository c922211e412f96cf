"""``scholarbase plan``: what a library of any size needs."""

from __future__ import annotations

from dataclasses import asdict

import click
import orjson


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
    """Estimate what a library needs, from libraries that `make bench` measured, beside Qdrant's own formula."""
    from scholarbase.cli.display import show_facts
    from scholarbase_cluster.planning.requirements import (
        QDRANT,
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
        measured = {"source": slopes.source, "machine": slopes.machine, "papers": slopes.sizes}
        content = {**asdict(found), "measured": measured, "qdrant_formula": QDRANT}
        click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
        return
    facts = {
        "papers": f"{found.papers:,}, {found.dimensions:,} dimensions",
        "disk": _bytes(found.disk_bytes),
        "memory to serve": _bytes(found.memory_bytes),
        "with vectors on disk": _bytes(found.least_memory_bytes),
        "by Qdrant's formula": f"{_bytes(found.qdrant_bytes)} for the dense vectors alone",
        "memory to build": f"{_bytes(found.build_bytes)} in each partition at most",
        "processor time": f"{found.cpu_seconds / 3600:,.1f} hours to build",
        "nodes": f"{found.nodes:,} of {node_memory:g} GB and {node_cores} cores: {found.shards:,} shards x "
        f"{found.replicas:,}",
    }
    for name, hours in found.encoding_hours.items():
        facts[f"encoding, {name}"] = f"{hours:,.1f} hours on one"
    sizes = ", ".join(f"{size:,}" for size in slopes.sizes)
    facts["measured"] = f"{slopes.source}: {sizes} papers; {slopes.machine}"
    facts["formula"] = QDRANT
    show_facts(facts)


def _bytes(value: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB")):
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value / 1e6:,.0f} MB"
