"""Papers by year, as a command and a route, and EndNote files as sources."""

import re

import click

from scholarbase import Extension

TAGS = {"title": "T", "authors": "A", "year": "D", "venue": "J", "abstract": "X", "keywords": "K", "doi": "R"}


class Example(Extension):
    def commands(self):
        return {"years": "scholarbase_example:years"}

    def routes(self):
        from fastapi import APIRouter, Request

        from scholarbase.api.holding import library_of

        router = APIRouter()

        @router.get("/v1/years", summary="Count papers by year")
        def papers_by_year(request: Request, q: str | None = None) -> dict[int, int]:
            return count(library_of(request), q)

        return router.routes

    def sources(self):
        from scholarbase.ingest.sources import SourceFormat

        return {"endnote": SourceFormat(lambda start: start.startswith("%0 "), read)}


def count(library, question):
    return {year.value: year.papers for year in library.facets(question).year.values}


@click.command()
@click.argument("question", required=False)
@click.option("--library", envvar="SCHOLARBASE_LIBRARY", required=True)
def years(question, library):
    """Print the number of papers by year: of all, or of the first 1,000 that QUESTION finds."""
    from scholarbase import Library

    with Library.open(library) as opened:
        for year, papers in count(opened, question).items():
            click.echo(f"{year} {papers:6,}")


def read(file):
    for entry in re.split(r"\n\s*\n", file.read().strip()):
        lines = {field: re.findall(rf"^%{tag} (.+)", entry, re.M) for field, tag in TAGS.items()}
        yield {field: "; ".join(values) for field, values in lines.items()}
