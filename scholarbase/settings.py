"""Every setting, in one class. Each is an environment variable: ``SCHOLARBASE_`` and its name in capitals."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from scholarbase.errors import InvalidRequest

PREFIX = "SCHOLARBASE_"

KeepRule = Literal["arxiv", "abstract", "title"]

LEGS: Final = ("bm25", "feedback", "fts5", "learned", "dense")
"""What a fusion weight may be given to: the sparse leg by its engine, and the dense one."""


_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s*A-Z]+")


class Settings(BaseSettings):
    """Settings from the environment; what the command line says goes before them.

    Make one with :func:`load_settings`, which refuses names that do not exist.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    library: Path | None = Field(None, description="The library's folder, where a command is not told one.")
    url: str = Field("http://127.0.0.1:8000", description="The server that the client and `--url` speak to.")
    api_key: SecretStr | None = Field(None, description="The key that the client and `--url` send.")

    host: str = Field("127.0.0.1", description="The address that the server listens on.")
    port: int = Field(
        8000, ge=0, le=65535, description="The port that the server listens on; 0 takes a free one."
    )
    workers: int = Field(1, ge=1, le=64, description="Serving processes. They share one query encoder.")
    runtime_dir: Path | None = Field(
        None, description="Where serving processes keep temporary files; the system's own place when unset."
    )
    public: bool = Field(
        False, description="Serve at an address that others may reach although no keys are in force."
    )
    keys: Path | None = Field(None, description="The file of the keys of which a request needs one.")
    rate_limit: int | None = Field(None, ge=1, le=1_000_000, description="Requests a minute for each key.")
    cors_origins: Annotated[tuple[str, ...] | None, NoDecode] = Field(
        None, description="Origins whose pages may ask, separated by commas; * for all."
    )
    max_body_bytes: int = Field(
        8 * 2**20, ge=1024, le=2**30, description="The largest body of a request, in bytes."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")

    sessions: str | None = Field(
        None,
        description="The folder where sessions are recorded, or none; scholarbase in the user's folder for state "
        "($XDG_STATE_HOME, or ~/.local/state) when unset.",
    )
    session_days: float = Field(
        30.0,
        ge=0,
        le=1_000_000,
        description="Sessions not used for so many days are deleted; 0 keeps them.",
    )

    encoder: str | None = Field(
        None,
        description="The query encoder: a name, a path or a URL; what the library was built with when unset.",
    )
    encoder_api_key: SecretStr | None = Field(None, description="The key of an embeddings URL.")
    device: str | None = Field(
        None, description="Where a model runs, such as cpu or cuda:0; chosen when unset."
    )

    qdrant_url: str | None = Field(
        None, description="A Qdrant server to search instead of the library's own vectors folder."
    )
    qdrant_api_key: SecretStr | None = Field(None, description="The key of the Qdrant server.")
    qdrant_alias: str = Field("scholarbase", description="The collection alias on the Qdrant server.")

    keep: KeepRule = Field(
        "arxiv",
        description="Which papers an ingest keeps: arxiv (an arXiv id and an abstract), abstract, or title.",
    )
    max_reject_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="An ingest fails when more than this share of a dataset's lines are rejected.",
    )
    progress_seconds: float = Field(
        10.0, gt=0, description="Seconds between two progress lines where there is no terminal."
    )

    rrf_k: int = Field(60, ge=1, le=1_000_000, description="The k of reciprocal rank fusion.")
    fusion_depth: int = Field(
        1000,
        ge=10,
        le=10_000,
        description="How many results of each leg a hybrid search fuses; also how deep its pages go.",
    )
    fusion_weights: Annotated[dict[str, float] | None, NoDecode] = Field(
        None, description="What each leg counts in the fusion, such as dense=1.5,bm25=1; 1 where unset."
    )
    fts5_title_weight: float = Field(
        2.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="How much a word in a title counts for FTS5 against one in an abstract.",
    )
    readers: int = Field(8, ge=1, le=256, description="Read-only SQLite connections kept open by a process.")

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _read_origins(cls, value: Any) -> Any:
        return _origins_of(value) if isinstance(value, str) else value

    @field_validator("fusion_weights", mode="before")
    @classmethod
    def _read_weights(cls, value: Any) -> Any:
        return _weights_of(value) if isinstance(value, str) else value

    @field_validator("fusion_weights", mode="after")
    @classmethod
    def _check_weights(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        for leg, weight in (value or {}).items():
            if leg not in LEGS:
                raise _refused(f"{leg!r} is no leg of a hybrid search: the legs are {', '.join(LEGS)}")
            if not math.isfinite(weight) or weight < 0:
                raise _refused(f"the weight of {leg} is {weight!r}: give a number of zero or more")
        none = [leg for leg, weight in (value or {}).items() if weight == 0]
        if "dense" in none and len(none) > 1:
            raise _refused(
                f"{none[none[0] == 'dense']} and dense both weigh 0, so that nothing would rank their fusion: "
                "give one of them more"
            )
        return value

    @property
    def sessions_folder(self) -> Path | None:
        """Where sessions are recorded; None where none are to be."""
        if self.sessions is None:
            state = os.environ.get("XDG_STATE_HOME")
            return (Path(state) if state else Path.home() / ".local" / "state") / "scholarbase"
        return None if self.sessions == "none" else Path(self.sessions)

    @property
    def ranking(self) -> dict[str, Any]:
        """What decides rankings besides the snapshot, by the settings' names."""
        return {
            "rrf_k": self.rrf_k,
            "fusion_depth": self.fusion_depth,
            "fusion_weights": dict(sorted((self.fusion_weights or {}).items())),
            "fts5_title_weight": self.fts5_title_weight,
        }


def _origins_of(text: str) -> tuple[str, ...] | None:
    """``https://a.org,https://b.org`` to origins, None for an empty text.

    An origin is what a browser's ``Origin`` says: a scheme, a host and perhaps a port, in lower case (RFC 6454).
    """
    origins = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise _refused(f"{origin!r} is no origin: give such as https://example.org, without a path, or *")
    return origins or None


def _weights_of(text: str) -> dict[str, float] | None:
    """``dense=1.5,bm25=1`` to weights; None for an empty text."""
    weights: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        leg, equals, number = (piece.strip() for piece in part.partition("="))
        try:
            weight = float(number)
        except ValueError:
            equals = ""
        if not equals or not leg:
            raise _refused(f"{part.strip()!r} is no weight: give legs and numbers such as dense=1.5,bm25=1")
        if leg in weights:
            raise _refused(f"the leg {leg!r} has two weights: give each leg one")
        weights[leg] = weight
    return weights or None


def _refused(sentence: str) -> PydanticCustomError:
    # As a plain ValueError it would begin with "Value error"; the braces of a text are no fields of a template.
    return PydanticCustomError("refused", "{sentence}", {"sentence": sentence})


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment, with ``overrides`` that are not None in front.

    Raises:
        InvalidRequest: a SCHOLARBASE_ variable that is no setting, or a value that cannot be right.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            raise InvalidRequest(
                f"The environment sets {name}, which is no setting of ScholarBase: unset it, or see "
                f"docs/settings.md for the names."
            )
    try:
        return Settings(**{k: v for k, v in overrides.items() if v is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper() if first["loc"] else "a setting"
        raise InvalidRequest(f"{name} is {first['input']!r}: {first['msg']}.") from error
