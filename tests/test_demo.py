"""``scholarbase demo``: its library, its requests, and what it runs on."""

from pathlib import Path

import pytest

from scholarbase.cli import demo
from scholarbase.settings import load_settings
from tests.conftest import SAMPLE, run_cli, run_process


def test_the_demo_shows_its_responses(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    demo.show(server)
    shown = capsys.readouterr().out
    assert "1. Two Dimensional QCD is a String Theory" in shown
    assert "5 of 45 papers" in shown


def test_the_sample_is_that_of_the_checkout_or_of_the_package() -> None:
    assert [path.name for path in demo.sample()] == ["s2ag", "arxiv"]
    assert all(any(path.rglob("*.*")) for path in demo.sample())
    assert SAMPLE / "s2ag" in demo.sample()


@pytest.mark.slow
def test_the_demo_builds_serves_and_ends(tmp_path: Path) -> None:
    done = run_process("demo", "--once", "--port", "0", SCHOLARBASE_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "1. Two Dimensional QCD is a String Theory" in done.stdout
    assert " INFO Ready. Serving " in done.stderr
    assert " INFO GET " not in done.stderr
    named = run_cli("info", "--library", "demo", SCHOLARBASE_CACHE_DIR=str(tmp_path))
    assert "7ccf7693f670d2dc4af225a09c8ae8b4" in named.stdout
    built = (tmp_path / "demo" / "manifest.json").stat().st_mtime_ns
    again = demo.build(load_settings(cache_dir=tmp_path))  # finds the library
    assert (again / "manifest.json").stat().st_mtime_ns == built
