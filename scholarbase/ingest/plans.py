"""The plan of an ingest: what must not change between a job's start and its end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from scholarbase.documents.model import PRECEDENCE as DOCUMENT_SOURCES
from scholarbase.errors import InvalidRequest
from scholarbase.ingest.sources import WITH_PAPERS, Columns, SourceFile, files_of
from scholarbase.manifest import FORMAT, MOST_SHARDS, Manifest, SourceFact
from scholarbase.models.encoders import EncoderSpec
from scholarbase.models.limits import KeepRule, Profile
from scholarbase.models.sets import check_set_name

_RELEASE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class IngestRules:
    """Settings that decide the content of a library, besides its sources."""

    keep: KeepRule | None = None
    """Which papers are kept; None for the rule of the profile."""
    records: bool = True
    """Whether the library keeps the source records, which an update needs."""
    profile: Profile = "default"
    max_reject_share: float = 0.05
    chunker: str = "tokens-512"
    """How full texts are cut into passages (:mod:`scholarbase.documents.chunkers`)."""
    shards: int = 1
    """Shards of the papers' vectors (:mod:`scholarbase.indexes.vectors.shards`)."""

    def __post_init__(self) -> None:
        """
        Raises:
            InvalidRequest: the profile has another keep rule, or the number of shards is out of range.
        """
        if not 1 <= self.shards <= MOST_SHARDS:
            raise InvalidRequest(f"shards is {self.shards}: it must be from 1 to {MOST_SHARDS}.")
        if self.profile == "scholarquest" and self.keep not in (None, "arxiv"):
            raise InvalidRequest(
                f"--keep {self.keep} contradicts --profile scholarquest, which keeps arXiv papers with an abstract: "
                "leave one of them out. SCHOLARBASE_PROFILE=scholarquest sets the searches of a server of any library."
            )

    @property
    def keep_rule(self) -> KeepRule:
        """Which papers are kept."""
        return self.keep or ("arxiv" if self.profile == "scholarquest" else "text")


DEFAULT_RULES: Final = IngestRules()


def release_of(sources: Sequence[str | Path]) -> str | None:
    """The release of the sources: the date that is the name of their folder or of the folder above it, None if there
    are several or none."""
    paths = [Path(source).resolve() for source in sources]
    releases = {name for path in paths for name in (path.name, path.parent.name) if _RELEASE.fullmatch(name)}
    return releases.pop() if len(releases) == 1 else None


def named_sets(sets: Mapping[str, Sequence[str | Path]], files: Sequence[SourceFile]) -> dict[str, list[str]]:
    """The names of each set's source files, sorted.

    Raises:
        InvalidRequest: a name of a set is invalid, or a file has no papers of its own.
    """
    named: dict[str, list[str]] = {}
    for name, sources in sets.items():
        check_set_name(name)
        paths = set[Path]().union(*map(files_of, sources))
        members = [file for file in files if file.path.resolve() in paths]
        others = [file for file in members if file.dataset not in WITH_PAPERS]
        if others:
            raise InvalidRequest(
                f"--set {name}: {others[0].name} has records of the dataset {others[0].dataset}, and a set takes files "
                "of papers."
            )
        named[name] = sorted(file.name for file in members)
    return named


def make_plan(
    sources: Sequence[SourceFact],
    rules: IngestRules,
    encoder: EncoderSpec | None,
    title_weight: int,
    vectors: str | None,
    sets: Mapping[str, Sequence[str]],
    columns: Columns,
) -> dict[str, Any]:
    """What must not change between a job's start and its end."""
    return {
        "format": FORMAT,
        "sources": [asdict(fact) for fact in sources],
        "keep": rules.keep_rule,
        "profile": rules.profile,
        "records": rules.records,
        "encoder": encoder.to_dict() if encoder else None,
        "title_weight": title_weight,
        "vectors": vectors,
        "sets": dict(sets),
        "columns": dict(columns),
        "shards": rules.shards,
        "chunker": rules.chunker if any(source.dataset in DOCUMENT_SOURCES for source in sources) else None,
    }


def plan_of(manifest: Manifest) -> dict[str, Any]:
    """The plan of the job that built a library."""
    vectors = manifest.vectors["computed_elsewhere"]
    rules = IngestRules(
        manifest.rules["keep"], manifest.rules["records"], manifest.profile, shards=manifest.shards
    )
    if manifest.documents is not None:
        rules = replace(rules, chunker=manifest.documents["chunker"])
    sets = {name: entry["sources"] for name, entry in manifest.sets.items()}
    return make_plan(
        manifest.sources,
        rules,
        manifest.encoder,
        manifest.title_weight,
        vectors,
        sets,
        manifest.rules.get("columns", {}),
    )


_NAMES: Final = {
    "format": "library format",
    "keep": "keep rule",
    "records": "choice about keeping records",
    "shards": "number of shards",
    "title_weight": "weight of titles",
}
"""What the parts of a plan are called, where it is not their keys."""


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The names of the parts in which two plans differ."""
    return " and ".join(_NAMES.get(key, key) for key in now if before.get(key) != now.get(key))
