"""Packages that some tests need."""

from importlib.util import find_spec

import pytest


def need(name: str) -> None:
    """Skip the test if a package is not installed. One that is installed but cannot be imported must fail it, which
    ``pytest.importorskip`` would skip as well."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
