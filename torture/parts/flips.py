"""Damaged and rewritten libraries: every flipped bit and every rewritten row is found, and none is answered from."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from torture.judge import Judge
from torture.libraries import copy, dense, sample
from torture.rows import Row, Setting, say, shown

FLIPS, FLIPS_IN_SLICE = 300, 20
SMASHES, SMASHES_IN_SLICE = 60, 4
SMASHED: Final = 4096
CATALOG: Final = "catalog.sqlite"
SMASHED_FILES: Final = (
    "inverted_index.dat",
    "indices_tracker.json",
    "id_tracker.mappings",
    "id_tracker.versions",
    "id_tracker.deleted",
    "point_to_values.bin",
    "values_to_points.bin",
)
REWRITES: Final[dict[str, str]] = {
    "authors": """UPDATE papers SET authors = replace(authors, 'a', 'o')""",
    "years": "UPDATE papers SET year = year + 1",
    "titles": "UPDATE papers SET title = title || ' revisited'",
    "citation counts": "UPDATE papers SET citation_count = citation_count + 1",
    "abstracts": "UPDATE abstracts SET abstract = abstract || '.'",
    "edges": "UPDATE OR IGNORE edges SET citing = cited, cited = citing",
    "one edge": "DELETE FROM edges WHERE (citing, cited) = (SELECT citing, cited FROM edges LIMIT 1)",
}


def run(setting: Setting) -> Iterator[Row]:
    with Judge() as judge:
        yield _flips(setting, judge)
        yield _rewrites(setting, judge)
        yield from _smashes(setting, judge)


# -- single bits -----------------------------------------------------------------------------------------


def _flips(setting: Setting, judge: Judge) -> Row:
    library = sample(setting) if setting.is_slice else dense(setting) or sample(setting)
    library = copy(library, setting.work / "flipped")
    count = setting.count(FLIPS, FLIPS_IN_SLICE)
    assert judge("verify", library) == "ok"
    chance = random.Random(15)
    files = [path for path in sorted(library.rglob("*")) if path.is_file() and path.stat().st_size]
    others = [path for path in files if path.name != CATALOG]
    missed, aborted, in_catalog = [], [], 0
    for number in range(count):
        path = library / CATALOG if number % 2 == 0 else chance.choice(others)
        in_catalog += path.name == CATALOG
        place, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        with _flipped(path, place, bit):
            outcome = judge("verify", library)
        name = f"{path.relative_to(library)} byte {place} bit {bit}"
        if outcome == "ok":
            missed.append(name)
        elif outcome.startswith(("aborted", "untyped")):
            aborted.append(f"{name}: {outcome}")
        if number % 50 == 49:
            say(f"{number + 1} flips, {len(missed)} not found")
    assert judge("verify", library) == "ok"
    found = count - len(missed) - len(aborted)
    figure = f"{found} of {count} found"
    if missed or aborted:
        catalog = sum(name.startswith(CATALOG) for name in missed)
        figure += f"; not found {catalog} of {in_catalog} in the catalogue, {len(missed) - catalog} elsewhere"
        figure += f"; ended otherwise {shown(aborted)}" if aborted else ""
    tested = f"{count} random single bits, half of them in the catalogue, the others spread over all files"
    return Row("flips", "`scholarbase verify` finds every flipped bit", tested, figure, found == count)


@contextmanager
def _flipped(path: Path, place: int, bit: int) -> Iterator[None]:
    """Flip one bit of a file, and flip it back at the end of the block."""
    _flip(path, place, bit)
    try:
        yield
    finally:
        _flip(path, place, bit)


def _flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


# -- rewritten rows --------------------------------------------------------------------------------------


def _rewrites(setting: Setting, judge: Judge) -> Row:
    passed = []
    names = ["authors", "years", "edges"] if setting.is_slice else list(REWRITES)
    for name in names:
        library = copy(sample(setting), setting.work / "rewritten")
        with closing(sqlite3.connect(library / CATALOG)) as db:
            changed = db.execute(REWRITES[name]).rowcount
            assert changed > 0, name
            db.commit()
        rehash(library)
        if not judge("verify", library).startswith("VerificationFailed"):
            passed.append(name)
    figure = f"{len(names) - len(passed)} of {len(names)} found"
    figure += f"; not found: {', '.join(passed)}" if passed else ""
    tested = f"{', '.join(names)} rewritten through sqlite3, the hashes of the files computed anew"
    return Row("flips", "`scholarbase verify` finds rewritten content", tested, figure, not passed)


def rehash(library: Path) -> None:
    """Compute ``files.json`` anew, as docs/library-format.md describes it, as if the content had been built so."""
    path = library / "files.json"
    if not path.is_file():
        return
    fields = orjson.loads(path.read_bytes())
    for name, facts in fields["files"].items():
        content, size = (library / name).read_bytes(), fields["block_bytes"]
        starts = range(0, len(content), size)
        facts["bytes"] = len(content)
        facts["blocks"] = [hashlib.sha256(content[start : start + size]).hexdigest() for start in starts]
    del fields["sha256"]
    fields["sha256"] = hashlib.sha256(_dumped(fields)).hexdigest()
    path.write_bytes(_dumped(fields))


def _dumped(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


# -- smashed files ---------------------------------------------------------------------------------------


def _smashes(setting: Setting, judge: Judge) -> list[Row]:
    library = copy(sample(setting), setting.work / "smashed")
    right = judge("open", library)
    assert len(right) == 64, right
    chance = random.Random(16)
    files = [
        path for path in sorted(library.rglob("*")) if path.name in SMASHED_FILES and path.stat().st_size
    ]
    by_name: dict[str, list[Path]] = {}
    for path in files:
        by_name.setdefault(path.name, []).append(path)
    count = setting.count(SMASHES, SMASHES_IN_SLICE)
    wrong, aborted, untyped, refused, harmless = [], [], [], 0, 0
    for number in range(count):
        names = sorted(by_name)
        path = chance.choice(by_name[names[number % len(names)]])
        size = path.stat().st_size
        # Where the data are: the preallocated ends of the files are never read.
        place = (
            0
            if number // len(names) % 2 == 0
            else chance.randrange(max(1, min(size, _data_end(path)) - SMASHED))
        )
        before = path.read_bytes()[place : place + SMASHED]
        _write(path, place, chance.randbytes(len(before)))
        try:
            outcome = judge("open", library)
        finally:
            _write(path, place, before)
        where = f"{path.parent.name}/{path.name} at {place}"
        if outcome == right:
            harmless += 1
        elif outcome.startswith("LibraryCorrupt"):
            refused += 1
        elif outcome.startswith("aborted"):
            aborted.append(f"{where}: {outcome}")
        elif len(outcome) == 64:
            wrong.append(where)
        else:
            untyped.append(f"{where}: {outcome}")
    tested = f"{count} times 4 KB of random bytes in posting lists and id trackers; opened and searched"
    told = f"{refused} LibraryCorrupt, {harmless} right answers"
    judge_right = judge("open", library)
    assert judge_right == right, judge_right
    return [
        Row("flips", "A smashed file is never answered from", tested, shown(wrong) or told, not wrong),
        Row("flips", "A smashed file ends no process", tested, shown(aborted) or told, not aborted),
        Row("flips", "A smashed file raises LibraryCorrupt", tested, shown(untyped) or told, not untyped),
    ]


def _write(path: Path, place: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)


def _data_end(path: Path) -> int:
    """Where the zeros at the end of a file begin."""
    return len(path.read_bytes().rstrip(b"\0"))
