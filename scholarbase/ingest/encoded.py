"""``encoding.json``: what a folder of vectors was encoded from, with which encoder, and whether it is complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Self

import orjson

from scholarbase.errors import EncoderMismatch, SourceError
from scholarbase.files import atomic_write
from scholarbase.ingest.plans import difference
from scholarbase.manifest import SourceFact
from scholarbase.models.encoders import EncoderSpec

FILE_NAME: Final = "encoding.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Encoding:
    """The content of ``encoding.json``. ``counts`` is empty until every partition is encoded."""

    sources: tuple[SourceFact, ...]
    keep: str
    columns: dict[str, str]
    encoder: EncoderSpec
    title_weight: int
    """The number of times the title is repeated in a paper's encoded text."""
    papers_per_partition: int
    counts: dict[str, int]
    """Partitions, papers, and vectors."""

    @property
    def is_complete(self) -> bool:
        return bool(self.counts)

    def is_whole(self, folder: Path) -> bool:
        """Whether the encoding is complete and the folder has a file for each partition."""
        return self.is_complete and len(list(folder.glob("*.parquet"))) == self.counts["partitions"]

    def difference(self, other: Encoding) -> str:
        """What another encoding was started with that is not the same."""
        first, second = (replace(encoding, counts={}) for encoding in (self, other))
        return difference(asdict(first), asdict(second))

    def completed(self, counts: Mapping[str, int]) -> Encoding:
        return replace(self, counts=dict(counts))

    def check(self, spec: EncoderSpec, folder: Path) -> None:
        """Check that these vectors are complete, and those of the encoder with this spec.

        Raises:
            SourceError: partitions are missing.
            EncoderMismatch: they are from another encoder.
        """
        if not self.is_whole(folder):
            raise SourceError(
                f'The vectors in {folder} are not complete: run the same "scholarbase encode" again to finish them, or '
                "copy the folder again."
            )
        ours, theirs = self.encoder, replace(spec, query=None)
        if None in (ours.fingerprint, theirs.fingerprint):
            ours, theirs = replace(ours, fingerprint=None), replace(theirs, fingerprint=None)
        else:  # the same files may have two names
            theirs = replace(theirs, name=ours.name)
        if ours != theirs:
            raise EncoderMismatch(
                f"The vectors in {folder} are from {self.encoder.name} ({self.encoder.kind}, "
                f"{self.encoder.dimensions} dimensions, fingerprint {self.encoder.fingerprint}), and --encoder is "
                f"{spec.name} ({spec.kind}, {spec.dimensions} dimensions, fingerprint {spec.fingerprint}): give the "
                "encoder that computed them."
            )

    def write(self, folder: Path) -> None:
        content = {"format": FORMAT, "complete": self.is_complete, **asdict(self)}
        content["encoder"] = self.encoder.to_dict()
        with atomic_write(folder / FILE_NAME) as file:
            file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record in a folder, None without one.

        Raises:
            SourceError: it cannot be read.
        """
        path = folder / FILE_NAME
        if not path.is_file():
            return None
        try:
            content = orjson.loads(path.read_bytes())
            if content["format"] != FORMAT:
                raise SourceError(
                    f"{path} has the format {content['format']!r}, and this version reads {FORMAT}: encode again."
                )
            del content["format"], content["complete"]
            content["sources"] = tuple(SourceFact(**fact) for fact in content["sources"])
            return cls(**content | {"encoder": EncoderSpec.from_dict(content["encoder"])})
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise SourceError(f"{path} cannot be read ({error}): encode again.") from error
