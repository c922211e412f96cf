"""The packages of the ``evaluation`` extra, imported where they are used: the rest starts without them."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Final

from scholarbase.errors import EvaluationError

MEASURING: Final = ("ir_measures", "scipy")
REPORTING: Final = ("matplotlib", "jinja2")


def check_installed(*packages: str) -> None:
    """See before the work begins that it can be ended. Raises EvaluationError: one of the packages is missing."""
    for package in packages:
        try:
            found = importlib.util.find_spec(package) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise _missing(package)


def require(name: str) -> ModuleType:
    """The module ``name`` of the ``evaluation`` extra, imported.

    Raises:
        EvaluationError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise _missing(name.partition(".")[0]) from error


def _missing(package: str) -> EvaluationError:
    return EvaluationError(f'The evaluation needs {package}: pip install "scholarbase[evaluation]".')
