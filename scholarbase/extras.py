"""Lazy imports of the packages of the ``evaluation`` extra."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Final

from scholarbase.errors import EvaluationError

MEASURING: Final = ("ir_measures", "scipy")
REPORTING: Final = ("matplotlib", "jinja2")


def check_installed(*packages: str) -> None:
    """Check that packages are installed. Raises EvaluationError: a package is missing."""
    for package in packages:
        try:
            found = importlib.util.find_spec(package) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise _missing(package)


def require(name: str) -> ModuleType:
    """Import the module ``name``. Raises EvaluationError: it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise _missing(name.partition(".")[0]) from error


def _missing(package: str) -> EvaluationError:
    return EvaluationError(f'The evaluation needs {package}: pip install "scholarbase[evaluation]".')
