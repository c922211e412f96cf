"""``scholarbase plan``: what a library of any size needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
import orjson
from click.core import ParameterSource

from scholarbase.errors import InvalidRequest

if TYPE_CHECKING:
    from scholarbase_cluster.planning.growth import Estimate
    from scholarbase_cluster.planning.requirements import Wanted

FACTS: Final = {
    "download_bytes": "download",
    "disk_bytes": "library on disk",
    "citations_bytes": "of it citations",
    "vectors_bytes": "of it vectors and BM25",
    "temporary_bytes": "temporary files of the build",
    "space_bytes": "disk in all, while it is built",
    "build_bytes": "memory to build",
    "cpu_seconds": "processor time to build",
    "seconds": "time to build on two cores",
    "memory_bytes": "memory to serve, 1 process",
    "least_memory_bytes": "with float16 vectors on disk",
    "search_cpu_seconds": "processor time of a search",
}
"""Rows of the first table, and the names of the estimates that they show."""

NODES: Final = {
    "method": "method",
    "nodes": "nodes",
    "copies": "copies",
    "memory_bytes": "memory each",
    "disk_bytes": "disk each",
    "load_seconds": "load",
    "replicate_seconds": "replicate",
    "index_seconds": "index",
    "searches_per_second": "searches/s",
}
SERVERS: Final = {
    "cores": "cores",
    "memory_bytes": "memory",
    "disk_bytes": "disk",
    "searches_per_second": "searches/s",
    "own_memory_bytes": "own memory",
    "own_disk_bytes": "own disk",
    "own_searches_per_second": "own searches/s",
}
"""Columns of the tables of machines, and the figures that they show."""
UNITS: Final[Mapping[str, Sequence[tuple[float, str]]]] = {
    "seconds": ((3600, "h"), (60, "min"), (1, "s"), (0.001, "ms")),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")),
    "count": ((1, ""),),
}
"""Sizes of units by the last word of a quantity's name."""


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    try:
        return tuple(int(number) for number in text.split(",") if text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1,3,6.") from error


@click.command(short_help="Estimate disk, memory, nodes and hours for a library.")
@click.option("--papers", help="Papers, such as 335000, 200M or 2.5B.")
@click.option("--citations", default="0", show_default=True, help="Citations between papers, such as 2.8B.")
@click.option("--snapshot", "name", help="Instead: arxiv, s2ag or openalex, by its published size.")
@click.option(
    "--dimensions", type=int, default=256, show_default=True, help="Of a dense vector; 0 without vectors."
)
@click.option("--nodes", default="", callback=_numbers, help="Numbers of Qdrant nodes, such as 1,3,6.")
@click.option("--node-cores", type=int, default=16, show_default=True, help="Cores of a node.")
@click.option("--cores", default="", callback=_numbers, help="Cores of API servers, such as 2,8,16.")
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    help="A GPU that encodes; may be repeated. [default: all known ones, none with 0 or 256 dimensions]",
)
@click.option(
    "--tokens-per-second", type=float, help="The speed of an encoder of your own, instead of --gpu."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def plan(
    ctx: click.Context,
    papers: str | None,
    citations: str,
    name: str | None,
    dimensions: int,
    nodes: tuple[int, ...],
    node_cores: int,
    cores: tuple[int, ...],
    gpus: tuple[str, ...],
    tokens_per_second: float | None,
    as_json: bool,
) -> None:
    """Estimate what a library needs, from libraries that `make bench` measured.

    Intervals of 90% grow with the factor of extrapolation. Searches are hybrid, with the default engine.
    """
    from scholarbase_cluster.planning.growth import shipped
    from scholarbase_cluster.planning.nodes import METHODS, nodes_of, server_of
    from scholarbase_cluster.planning.requirements import (
        QDRANT,
        QDRANT_FACTOR,
        encoding_hours,
        gpu_speeds,
        own_speed,
        requirements,
    )

    if not nodes and ctx.get_parameter_source("node_cores") is not ParameterSource.DEFAULT:
        raise InvalidRequest(
            f"--node-cores is {node_cores:,} without --nodes: give --nodes too, such as 1,3,6."
        )
    measured = shipped()
    wanted, notes = _wanted(papers, citations, name, dimensions)
    needs = requirements(wanted, measured)
    speeds = {}
    if tokens_per_second is not None:
        speeds = own_speed(tokens_per_second, gpus)
    elif gpus or dimensions not in (0, measured.dimensions):
        speeds = gpu_speeds(gpus)
    hours = encoding_hours(wanted, measured, speeds)
    on_nodes = [
        nodes_of(count, method, node_cores, wanted, measured, needs) for method in METHODS for count in nodes
    ]
    servers = [server_of(count, wanted, measured, needs) for count in cores]
    timeout, search = ctx.obj.timeout, needs["search_cpu_seconds"]
    if search.high > timeout:
        notes.append(
            f"search: it may take up to {_amount(search.high, 'seconds')}, and a request fails after {timeout:g} s "
            "(SCHOLARBASE_TIMEOUT)"
        )
    if on_nodes and servers:
        notes.append("searches/s: of the nodes and the API servers together, the lower rate counts")
    if servers:
        notes.append("memory: that of API servers is for a process a core")
    sizes = ", ".join(f"{size:,}" for size in measured.sizes)
    source = f"{measured.source}: {sizes} papers; {measured.machine}"
    if as_json:
        content = {
            "library": wanted,
            "estimates": needs,
            "encoding_hours": hours,
            "nodes": on_nodes,
            "servers": servers,
            "qdrant_formula": {"bytes": QDRANT_FACTOR * dimensions * wanted.papers, "source": QDRANT},
            "measured": source,
            "notes": notes,
        }
        click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
        return
    speed_basis = "published speed" if tokens_per_second is None else "--tokens-per-second"
    _print(_library(wanted, needs, hours, speed_basis))
    for title, machines, columns in (
        (f"Qdrant nodes of {node_cores} cores", on_nodes, NODES),
        ("API servers, with the vectors on nodes, and with their own", servers, SERVERS),
    ):
        if machines:
            click.echo(f"\n{title}")
            rows, sources = _machines(machines, columns)
            _print(rows)
            click.echo("\n".join(sources))
    click.echo()
    for line in (*notes, f"measured: {source}", f"Qdrant's formula: {QDRANT}"):
        click.echo(line)


def _wanted(
    papers: str | None, citations: str, name: str | None, dimensions: int
) -> tuple[Wanted, list[str]]:
    """The library that the options describe, and notes on where its numbers come from."""
    from scholarbase_cluster.planning.requirements import MOST_CITATIONS, Wanted
    from scholarbase_cluster.planning.snapshots import parse_count, snapshot

    if (papers is None) == (name is None):
        raise InvalidRequest("Give --papers or --snapshot, and not both.")
    if papers is not None:
        edges = parse_count(citations, "citations", 0, MOST_CITATIONS)
        return Wanted(parse_count(papers), dimensions, edges), []
    if citations != "0":
        raise InvalidRequest("--citations is given beside --snapshot, which has its own.")
    chosen = snapshot(str(name))
    notes = [f"{chosen.title}: {', '.join(chosen.sources)}"]
    return chosen.wanted(dimensions), [*notes, *([f"assumed: {chosen.assumed}"] if chosen.assumed else [])]


def _library(
    wanted: Wanted, needs: Mapping[str, Estimate], hours: Mapping[str, float], speed_basis: str
) -> list[list[str]]:
    kept = f"{wanted.papers:,}"
    if wanted.left_out:
        kept += f" with an abstract, of {wanted.papers + wanted.left_out:,}"
    rows = [
        ["", "estimate", "interval", "from"],
        ["papers", kept, "", ""],
        ["dimensions", f"{wanted.dimensions:,}", "", ""],
    ]
    if wanted.citations:
        edges = needs["citations"]
        rows.append(["citations", f"{edges.value:,.0f}", _interval(edges, "count"), edges.basis])
    for key, title in FACTS.items():
        estimate = needs[key]
        if estimate.value:
            unit = _unit(key)
            rows.append([title, _amount(estimate.value, unit), _interval(estimate, unit), estimate.basis])
    rows += [
        [f"encoding, {name}", f"{_amount(needed_hours * 3600, 'seconds')} on one", "", speed_basis]
        for name, needed_hours in hours.items()
    ]
    return rows


def _machines(machines: Sequence[object], titles: Mapping[str, str]) -> tuple[list[list[str]], list[str]]:
    """A row for each, and below them where the figures of each column come from."""
    rows = [list(titles.values())]
    sources: dict[str, list[str]] = {}
    for machine in machines:
        row = []
        for name, title in titles.items():
            value = getattr(machine, name)
            if isinstance(value, str | int):
                row.append(f"{value:,}" if isinstance(value, int) else value)
                continue
            row.append(_whole(value, _unit(name)))
            if value.value:
                columns = sources.setdefault(value.basis, [])
                columns += [title] if title not in columns else []
        rows.append(row)
    return rows, [f"{', '.join(columns)}: {basis}" for basis, columns in sources.items()]


def _unit(name: str) -> str:
    return name.rpartition("_")[2] if name.endswith(("bytes", "seconds")) else "count"


def _whole(estimate: Estimate, unit: str) -> str:
    interval = _interval(estimate, unit)
    return _amount(estimate.value, unit) + (f" ({interval})" if interval else "")


def _interval(estimate: Estimate, unit: str) -> str:
    low, high = _amount(estimate.low, unit), _amount(estimate.high, unit)
    return "" if estimate.low == estimate.high else f"{low} to {high}"


def _amount(value: float, unit: str) -> str:
    steps = UNITS[unit]
    size, name = next((step for step in steps if value >= step[0]), steps[-1])
    scaled = value / size
    return f"{scaled:,.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {name}".strip() if value else "0"


def _print(rows: Sequence[Sequence[str]]) -> None:
    """Print columns that are as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
