"""Slices of two parts of `make torture`, at tiny sizes. Those of the others take minutes."""

import importlib

import pytest

from torture.parts import PARTS
from torture.rows import Row, Setting

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return Setting(None, tmp_path_factory.mktemp("torture"), is_slice=True)


@pytest.mark.parametrize("part", ["contract", "parsers"])
def test_a_slice_keeps_every_promise(part: str, setting: Setting) -> None:
    rows: list[Row] = [*importlib.import_module(f"torture.parts.{part}").run(setting)]
    assert rows
    broken = [row for row in rows if row.kept is False]
    assert not broken, "\n".join(f"{row.promise} ({row.tested}): {row.figure}" for row in broken)


def test_every_part_can_be_imported() -> None:
    for part in PARTS:
        assert callable(importlib.import_module(f"torture.parts.{part}").run)
