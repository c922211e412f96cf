"""Options of commands that use language models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scholarbase.cli.options import F
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase_research.llm.base import LanguageModel, Price
    from scholarbase_research.llm.cassette import Cassette


def model_options(command: F) -> F:
    for option in (
        click.option(
            "--structured",
            type=click.Choice(["schema", "object", "none"]),
            default="schema",
            show_default=True,
            help="How models are asked for JSON: by a schema, as any object, or only in words.",
        ),
        click.option(
            "--model-timeout", default=120.0, show_default=True, help="Seconds for one attempt of a model."
        ),
        click.option(
            "--price",
            "prices",
            multiple=True,
            metavar="MODEL=IN,OUT",
            help="The price of a million input and output tokens of a model; may be repeated.",
        ),
        click.option("--record", is_flag=True, help="Record what the cassette lacks, from the models."),
        click.option(
            "--cassette",
            type=click.Path(path_type=Path),
            help="Recorded replies of the models. Without --record no model is asked.",
        ),
    ):
        command = option(command)
    return command


class Models:
    """Opens the models of a command by URL."""

    def __init__(
        self, settings: Settings, cassette: Cassette | None, structured: str, timeout: float, concurrency: int
    ) -> None:
        self._key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
        self.cassette = cassette
        self._options = {"structured": structured, "timeout": timeout, "concurrency": concurrency}
        self._open: list[LanguageModel] = []

    def open(self, url: str) -> LanguageModel:
        from scholarbase_research.llm.http import open_model

        model = open_model(url, self._key, cassette=self.cassette, **self._options)
        self._open.append(model)
        return model

    def close(self) -> None:
        for model in self._open:
            model.close()


@contextmanager
def models(settings: Settings, options: Mapping[str, Any], concurrency: int) -> Iterator[Models]:
    """The models of a command with the options of ``model_options``, closed at the end of the block."""
    from contextlib import nullcontext

    from scholarbase_research.llm.cassette import Cassette

    cassette, record, timeout = (options[name] for name in ("cassette", "record", "model_timeout"))
    if record and cassette is None:
        raise InvalidRequest("--record needs the file to record to: give --cassette FILE.")
    if not 0 < timeout <= 3600:
        raise InvalidRequest(f"--model-timeout is {timeout}: it must be above 0 and at most 3600 seconds.")
    with nullcontext() if cassette is None else Cassette(cassette, record=record) as opened:
        opened_models = Models(settings, opened, options.get("structured", "none"), timeout, concurrency)
        try:
            yield opened_models
        finally:
            opened_models.close()


def read_prices(prices: Sequence[str]) -> dict[str, Price]:
    """``MODEL=IN,OUT`` as prices by model."""
    from scholarbase_research.llm.base import Price

    read = {}
    for text in prices:
        name, _, amounts = text.rpartition("=")
        try:
            amount_in, amount_out = (float(amount) for amount in amounts.split(","))
            valid = name and amount_in >= 0 and amount_out >= 0
        except ValueError:
            valid = False
        if not valid:
            raise InvalidRequest(
                f"--price {text} is not MODEL=IN,OUT: use one such as my-model=0.5,1.5, per million tokens."
            )
        read[name] = Price(amount_in, amount_out)
    return read
