from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from scholarbase.documents.model import *
from scholarbase.documents.unarxive import read_unarxive


class DocumentFile(NamedTuple):
    path: Path
    name: str
    kind: str
    size: int


class DocumentEntry(NamedTuple):
    number: int
    line: int
    size: int
    content: FullText | BadDocument


def detect_documents(paths):
    return [
        DocumentFile(Path(f), Path(f).name, "unarxive", Path(f).stat().st_size)
        for p in paths
        for f in ([p] if Path(p).is_file() else sorted(Path(p).glob("*.gz")))
    ]


def read_documents(file, lines, after=0):
    for n, line in lines(file.path):
        if n > after:
            try:
                c = read_unarxive(line)
            except BadDocument as e:
                c = e
            yield DocumentEntry(n, n, len(line), c)
