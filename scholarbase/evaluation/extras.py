"""The packages of the ``evaluation`` extra, imported where they are used: the rest starts without them."""

from __future__ import annotations

import importlib
from types import ModuleType

from scholarbase.errors import EvaluationError


def require(name: str) -> ModuleType:
    """The module ``name`` of the ``evaluation`` extra, imported.

    Raises:
        EvaluationError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        raise EvaluationError(
            f'The evaluation needs {package}: pip install "scholarbase[evaluation]".'
        ) from error
