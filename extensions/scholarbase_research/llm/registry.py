"""Opens language models by URL, from a cassette where one is given."""

from __future__ import annotations

from typing import Any

from scholarbase_research.llm.base import LanguageModel
from scholarbase_research.llm.cassette import Cassette
from scholarbase_research.llm.http import HttpModel, parse_url


def open_model(
    url: str, api_key: str | None = None, *, cassette: Cassette | None = None, **options: Any
) -> LanguageModel:
    """Open the model at ``https://host/v1#model-name``.

    Args:
        cassette: recorded replies. The service is asked only if the cassette records, for what it lacks.
        options: those of :class:`scholarbase_research.llm.http.HttpModel`.

    Raises:
        ModelError: the URL is not valid, or names no model.
    """
    if cassette is None:
        return HttpModel(url, api_key, **options)
    _, name = parse_url(url)
    return cassette.model(name, HttpModel(url, api_key, **options) if cassette.records else None)
