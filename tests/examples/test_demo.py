"""The demo of ``make demo``, with the server of the tests."""

from __future__ import annotations

import runpy

import pytest
from rich.console import Console

from tests.conftest import ROOT


def test_the_demo_shows_its_responses(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    demo["show"](Console(width=110), server)
    shown = capsys.readouterr().out
    assert "1. Two Dimensional QCD is a String Theory" in shown
    assert "5 of 45 papers" in shown
