"""Commands that send one request to a library or a server, and print the response.

Their options are the fields of the request's model, so a new parameter is an option without a change here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from scholarbase.cli.options import export_option, open_source, print_json, request_options, source_options
from scholarbase.errors import InvalidRequest
from scholarbase.models.author_requests import AuthorPapersBody, AuthorSearchParameters
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.limits import ExportFormat
from scholarbase.models.papers import ALL_FIELDS
from scholarbase.models.requests import (
    FILTER_NAMES,
    EdgeBody,
    PaperBody,
    PaperOptions,
    Request,
    SearchBody,
    SimilarBody,
    TitleParameters,
)
from scholarbase.settings import Settings
from scholarbase.terminal import printable

_ALL: Final = "*"
"""The question that every paper matches."""


class _Command(NamedTuple):
    """A command: the method of a library or client, and its request.

    ``field`` of the request is the argument; the method has the same arguments as the request has fields.
    """

    name: str
    method: str
    request: type[Request]
    field: str
    summary: str
    text: str | None = None
    argument: str | None = None


_COMMANDS: Final = (
    _Command(
        "search",
        "search",
        SearchBody,
        "q",
        "Search for papers that match Q.",
        "Search for papers whose title or abstract matches Q. Without Q, list the papers that pass the filters, the "
        "newest first.",
    ),
    _Command(
        "facets",
        "facets",
        FacetsParameters,
        "q",
        "Count papers by year, category and venue.",
        "Count the papers that match the filters by year, category and venue; with Q the first 1,000 results of the "
        "search.",
    ),
    _Command(
        "title",
        "match_title",
        TitleParameters,
        "title",
        "Find papers with TITLE or a similar title.",
    ),
    _Command(
        "paper",
        "paper",
        PaperBody,
        "paper_id",
        "Show a paper by an id of any form.",
        "Show the paper PAPER_ID: an arXiv id, DOI, CorpusId, link, ...",
    ),
    _Command(
        "authors",
        "search_authors",
        AuthorSearchParameters,
        "q",
        "List the authors with a name.",
        "List the authors with NAME, in any order of its words and with or without initials.",
        "name",
    ),
    _Command(
        "author",
        "author_papers",
        AuthorPapersBody,
        "author_id",
        "List the papers of an author.",
        'List the papers of the author AUTHOR_ID, an id that "scholarbase authors" lists.',
    ),
    _Command(
        "similar",
        "similar",
        SimilarBody,
        "paper_id",
        "List the papers similar to a paper.",
        "List the papers similar to the paper PAPER_ID, by their vectors and by the papers that cite both.",
    ),
    *(
        _Command(edges, edges, EdgeBody, "paper_id", f"List the {edges} of the paper PAPER_ID.")
        for edges in ("citations", "references")
    ),
)


def request_commands() -> Iterator[click.Command]:
    """The commands of all requests."""
    return map(_command, _COMMANDS)


def _command(about: _Command) -> click.Command:
    @click.pass_obj
    def run(settings: Settings, /, **options: Any) -> None:
        _run(settings, about, options.pop(about.argument or about.field), **options)

    field = about.request.model_fields[about.field]
    callback = source_options(run)
    if issubclass(about.request, PaperOptions):
        callback = export_option(callback)
    callback = request_options(about.request, without=[about.field])(callback)
    required = field.is_required() and about.name != "search"
    callback = click.argument(about.argument or about.field, required=required)(callback)
    return click.command(about.name, help=about.text or about.summary, short_help=about.summary)(callback)


def _run(
    settings: Settings,
    about: _Command,
    argument: str | None,
    *,
    as_json: bool,
    form: ExportFormat | None = None,
    **options: Any,
) -> None:
    source = {name: options.pop(name) for name in ("library", "url", "encoder")}
    if form is not None:
        if as_json:
            raise InvalidRequest(f"Give --json or --format {form}, not both.")
        for name in ("explain", "partial"):
            if options.get(name):
                raise InvalidRequest(
                    f"Give --{name} or --format {form}, not both: a bibliography has only papers."
                )
    requested = {name: value for name, value in options.items() if value is not None and value != ()}
    if about.name == "search" and argument is None:
        if requested.keys().isdisjoint(FILTER_NAMES):
            raise InvalidRequest("No Q: give the words to search for, or a filter such as --author.")
        argument = _ALL
    default = None if _needs_encoder(settings, about, argument, options) else "none"
    if form is not None and "fields" not in requested:
        requested["fields"] = ALL_FIELDS
    with open_source(settings, **source, default_encoder=default, rerank=options.get("rerank")) as opened:
        response = getattr(opened, about.method)(argument, **requested)
        if form is not None:
            from scholarbase.bibliographies.writing import write_papers
            from scholarbase.responses.text import papers_in

            text = write_papers(papers_in(response.to_dict()), form)
            click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
        elif as_json:
            print_json(response.to_dict())
        else:
            from scholarbase.cli.display import show

            show(response)
    if about.name == "search" and not response.results and "author" not in requested:
        click.echo("Q is searched in titles and abstracts: for an author's papers use --author.", err=True)


def _needs_encoder(
    settings: Settings, about: _Command, argument: str | None, options: dict[str, Any]
) -> bool:
    """Whether the request may encode its text."""
    if "engine" not in options or argument == _ALL:
        return False
    counts_words = about.method == "facets" and (argument is None or options["exact"])
    by_words = counts_words or options["mode"] == "sparse"
    return not by_words or (options["engine"] or settings.engine) == "learned"
