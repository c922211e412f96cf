"""Packages of the extras, which are imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Final

from scholarbase.errors import MissingExtra

PACKAGES: Final = {
    "mcp": ("mcp",),
    "proxy": ("certifi", "cryptography", "h11"),
    "qdrant": ("qdrant_client",),
    "postgres": ("psycopg",),
    "evaluation": ("ir_measures", "scipy"),
    "report": ("matplotlib", "jinja2"),
    "parquet": ("pyarrow",),
    "ray": ("ray", "pandas", "pyarrow"),
    "storage": ("obstore",),
    "documents": ("pypdfium2", "lxml"),
    "training": ("sentence_transformers", "torch"),
    "tracing": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}
"""The packages that a feature needs, by its extra; those of a report are in the extra ``evaluation``."""


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f'pip install "scholarbase[{extra}]"'


def missing(package: str, extra: str, purpose: str) -> MissingExtra:
    """The error for a package that is not installed."""
    return MissingExtra(f"{purpose} needs the package {package}: run {install_command(extra)}.")


def check_installed(feature: str, purpose: str) -> None:
    """Check that the packages of a feature (a key of ``PACKAGES``) are installed.

    Raises:
        MissingExtra: one is missing. The message begins with ``purpose``.
    """
    for package in PACKAGES[feature]:
        if not is_installed(package):
            raise missing(package, "evaluation" if feature == "report" else feature, purpose)


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module of an extra. Raises as ``check_installed``."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing(module.partition(".")[0], extra, purpose) from error
