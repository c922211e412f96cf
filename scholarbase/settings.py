"""All settings. Each is an environment variable: ``SCHOLARBASE_`` and its name in capitals."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.models.limits import (
    MAX_GRAPH_WEIGHT,
    MAX_RERANK_MS,
    MAX_TOKENS,
    MIN_TOKENS,
    Engine,
    Fusion,
    KeepRule,
    Profile,
)
from scholarbase.models.qdrant_addresses import read_addresses

PREFIX = "SCHOLARBASE_"

LEGS: Final = ("bm25", "feedback", "fts5", "learned", "dense")
"""The legs that may have a fusion weight: the sparse leg by its engine, and the dense leg."""
MAX_RERANKERS: Final = 8
_RERANKER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CREDENTIALS: Final = re.compile(r"//[^/@\s]*@")
"""The user name and password of a URL, which no message has."""
_HOST: Final = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s*A-Z]+")


class ClientSettings(BaseSettings):
    """The settings of a client, which ignores all others."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        *files: PydanticBaseSettingsSource,
        **more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments and the environment. Looking for files of settings, which there are none, takes as long again."""
        return init_settings, env_settings

    url: str = Field("http://127.0.0.1:8000", description="The server that the client sends requests to.")
    api_key: SecretStr | None = Field(None, description="The key that the client sends.")


def state_folder() -> Path:
    """The folder for what the package keeps for the user."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "scholarbase"


def cache_folder() -> Path:
    """The folder for what the package can fetch again."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "scholarbase"


def is_url(text: str) -> bool:
    """Whether a library is named by a URL and not by a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


# -- values as they are written in the environment ------------------------------------------------------


def _written(read: Callable[[str], Any]) -> BeforeValidator:
    """Read a text; values of other types stay as they are."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _invalid(sentence: str) -> PydanticCustomError:
    # Pydantic puts "Value error" before the message of a ValueError, and formats braces in its own templates.
    return PydanticCustomError("invalid", "{sentence}", {"sentence": sentence})


def _items_of(text: str) -> tuple[str, ...]:
    """The items between commas."""
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def _pairs_of(text: str, wanted: str, repeated: str) -> dict[str, str]:
    """The values of ``NAME=VALUE,NAME=VALUE`` by name. The other arguments are for messages."""
    pairs: dict[str, str] = {}
    for item in _items_of(text):
        name, separator, value = (piece.strip() for piece in item.partition("="))
        if not separator:
            raise _invalid(f"{shown(item)} is not {wanted}")
        if name in pairs:
            raise _invalid(repeated.format(shown(name)))
        pairs[name] = value
    return pairs


def _path_or_url(text: str) -> Path | str | None:
    """An empty text is no path, and not the working folder."""
    if not text.strip():
        return None
    return text if is_url(text) else Path(text)


def _extensions_of(text: str) -> tuple[str, ...] | None:
    names = tuple(filter(None, _items_of(text)))
    return () if names == ("none",) else names or None


def _addresses_of(text: str) -> tuple[str, ...] | None:
    try:
        return read_addresses(text)
    except ValueError as error:
        raise _invalid(str(error)) from error


def _origins_of(text: str) -> tuple[str, ...] | None:
    """``https://a.org,https://b.org``: a scheme, a host and an optional port each, in lower case (RFC 6454)."""
    wanted = "an origin: use * or a scheme and host without a path, such as https://example.org"
    return _matching_items(text, _ORIGIN, wanted)


def _hosts_of(text: str) -> tuple[str, ...] | None:
    """``papers.example.org,192.0.2.1,[2001:db8::1]``."""
    wanted = "a host: use * or a name or address without a port, such as papers.example.org"
    return _matching_items(text.lower(), _HOST, wanted)


def _matching_items(text: str, form: re.Pattern[str], wanted: str) -> tuple[str, ...] | None:
    """The items between commas, each ``*`` or of this form."""
    items = _items_of(text)
    for item in items:
        if item != "*" and not form.fullmatch(item):
            raise _invalid(f"{shown(item)} is not {wanted}")
    return items or None


def _weights_of(text: str) -> dict[str, float] | None:
    """``dense=1.5,bm25=1``."""
    weights: dict[str, float] = {}
    wanted = "a weight: use legs and numbers, such as dense=1.5,bm25=1"
    for leg, number in _pairs_of(
        text, wanted, "the leg {} has two weights: give each leg one weight"
    ).items():
        try:
            weights[leg] = float(number)
        except ValueError as error:
            raise _invalid(f"{shown(f'{leg}={number}')} is not {wanted}") from error
    return weights or None


def _check_weights(value: dict[str, float] | None) -> dict[str, float] | None:
    for leg, weight in (value or {}).items():
        if leg not in LEGS:
            raise _invalid(f"{shown(leg)} is not a leg of a hybrid search: the legs are {', '.join(LEGS)}")
        if not math.isfinite(weight) or weight < 0:
            raise _invalid(f"the weight of {leg} is {weight!r}: it must be a number of 0 or more")
    zero = [leg for leg, weight in (value or {}).items() if weight == 0]
    if "dense" in zero and len(zero) > 1:
        raise _invalid(
            f"{zero[zero[0] == 'dense']} and dense both have the weight 0, so a hybrid search would rank nothing: "
            "increase one of them"
        )
    return value


def _rerankers_of(text: str) -> dict[str, str] | None:
    """``minilm=/path/to/model,service=http://localhost:8080``."""
    wanted = "a reranker: use names and models, such as minilm=/path/to/cross-encoder"
    return _pairs_of(text, wanted, "the reranker {} has two models: give each a name of its own") or None


def _check_rerankers(value: dict[str, str] | None) -> dict[str, str] | None:
    if len(value or {}) > MAX_RERANKERS:
        raise _invalid(
            f"it has {len(value or {})} rerankers, and the maximum is {MAX_RERANKERS}: leave some out"
        )
    for name, location in (value or {}).items():
        if not _RERANKER_NAME.fullmatch(name):
            raise _invalid(
                f"{shown(name)} is not a reranker's name: use up to 64 letters, digits, dots, hyphens and underscores"
            )
        if not location.strip():
            raise _invalid(f"the reranker {shown(name)} has no model: give a folder, a hub name or a URL")
    return value


class Settings(ClientSettings):
    """Settings from the environment. Create them with :func:`load_settings`, which rejects unknown names."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    library: Annotated[Path | str | None, _written(_path_or_url)] = Field(
        None,
        description="The library's folder; for a server also a link to it, or a folder of libraries. Or the URL of a "
        "packed library.",
    )
    cache_dir: Path | None = Field(
        None,
        description="The folder for libraries that are fetched from a URL or by name; by default one in the cache "
        "folder of the user ($XDG_CACHE_HOME or ~/.cache).",
    )
    catalogue: str | None = Field(
        None,
        description="The path or URL of the list of libraries that can be downloaded by name; by default the one in "
        "the package.",
    )

    host: str = Field("127.0.0.1", description="The address that the server listens on.")
    port: int = Field(
        8000, ge=0, le=65535, description="The port that the server listens on; 0 picks a free port."
    )
    dialect: str | None = Field(
        None,
        description="Serve one dialect alone, with its routes at the root; by default the native API, with every "
        "dialect below a prefix (docs/dialects.md).",
    )
    full_check: bool = Field(
        False, description="Compare every file with its hashes before serving, instead of a sample."
    )
    watch: bool = Field(
        False,
        description="Serve a new library when the link or folder of the library names another one.",
    )
    keep_libraries: int = Field(
        1,
        ge=1,
        le=16,
        description="The number of libraries that a server keeps open: the newest, and the last ones before it for "
        "requests that name their snapshot.",
    )
    workers: int = Field(1, ge=1, le=64, description="Worker processes. They share one query encoder.")
    runtime_dir: Path | None = Field(
        None, description="The folder for the temporary files of workers; by default the system's."
    )
    public: bool = Field(False, description="Serve without keys on an address that other machines can reach.")
    keys: Path | None = Field(
        None, description="The key file. If set, every request for data needs one of its keys."
    )
    rate_limit: int | None = Field(None, ge=1, le=1_000_000, description="Requests per minute and key.")
    cors_origins: Annotated[tuple[str, ...] | None, NoDecode, _written(_origins_of)] = Field(
        None, description="Origins whose pages may send requests, separated by commas; * for all."
    )
    hosts: Annotated[tuple[str, ...] | None, NoDecode, _written(_hosts_of)] = Field(
        None,
        description="Host names, besides those of this machine, for which the server accepts requests, separated by "
        "commas; * for all.",
    )
    max_connections: int = Field(
        8192,
        ge=1,
        le=1_000_000,
        description="Open connections of each worker process, if it may open as many files; more wait.",
    )
    max_body_bytes: int = Field(
        8 * 2**20, ge=1024, le=2**30, description="The maximum size of a request body in bytes."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level that is logged."
    )
    slow_ms: float | None = Field(
        None,
        ge=0,
        description="Log requests that take longer than this many milliseconds, with the time of each stage.",
    )
    tracing: bool = Field(False, description="Send OpenTelemetry traces, with the extra tracing.")

    extensions: Annotated[tuple[str, ...] | None, NoDecode, _written(_extensions_of)] = Field(
        None,
        description="The extensions that are loaded, separated by commas, or none; by default all that are installed.",
    )

    sql: bool = Field(False, description="Run SQL statements over the views of the library (docs/sql.md).")

    sessions: Annotated[str | None, _written(lambda text: text if text.strip() else None)] = Field(
        None,
        description="Where sessions are recorded: a folder, a PostgreSQL database that several servers share "
        "(postgresql://USER:PASSWORD@HOST/DATABASE), or none; by default the folder scholarbase in the user's state "
        "folder ($XDG_STATE_HOME or ~/.local/state).",
        repr=False,
    )
    session_days: float = Field(
        30.0,
        ge=0,
        le=1_000_000,
        description="Sessions are deleted after this many days without a call; 0 keeps them.",
    )
    session_calls: int = Field(
        100_000, ge=1, le=10**9, description="The maximum number of calls in a session."
    )
    sessions_per_key: int = Field(
        10_000,
        ge=1,
        le=10**9,
        description="The maximum number of sessions of a key, or without a key on a server without keys.",
    )
    sessions_mb: int = Field(
        10_000, ge=1, le=10**9, description="The maximum size of all sessions together in MB."
    )

    encoder: str | None = Field(
        None,
        description="The query encoder: a name, path or URL; by default that of the library, if it is in the "
        "package or is BAAI/bge-m3 (docs/trust.md).",
    )
    encoder_api_key: SecretStr | None = Field(None, description="The API key for an embeddings URL.")
    model: str | None = Field(
        None,
        description="The language model that may judge claims, as its URL and name: https://host/v1#model-name.",
        repr=False,
    )
    model_api_key: SecretStr | None = Field(None, description="The API key for language models.")
    device: str | None = Field(
        None, description="The device of models, such as cpu or cuda:0; chosen automatically by default."
    )

    rerankers: Annotated[
        dict[str, str] | None, NoDecode, _written(_rerankers_of), AfterValidator(_check_rerankers)
    ] = Field(
        None,
        description="The rerankers that searches may use by name, such as "
        "minilm=/path/to/cross-encoder,service=http://localhost:8080#model,colbert=BAAI/bge-m3.",
    )
    rerank_ms: int | None = Field(
        None,
        ge=1,
        le=MAX_RERANK_MS,
        description="Milliseconds after which a reranker starts no further batch of papers; without a limit by "
        "default. A request with rerank_ms takes precedence.",
    )
    reranker_api_key: SecretStr | None = Field(None, description="The API key for rerankers with a URL.")

    qdrant_url: Annotated[tuple[str, ...] | None, NoDecode, _written(_addresses_of)] = Field(
        None,
        description="The addresses of the nodes of a Qdrant server, separated by commas, to search instead of the "
        "library's own vectors folder.",
    )
    qdrant_api_key: SecretStr | None = Field(None, description="The API key for the Qdrant server.")
    qdrant_alias: str = Field(
        "scholarbase",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$",
        description="The collection alias on the Qdrant server.",
    )
    qdrant_connect_seconds: float = Field(
        1.0, gt=0, le=60, description="The time limit for a connection to a Qdrant node."
    )
    qdrant_read_seconds: float = Field(
        30.0, gt=0, le=3600, description="The time limit for a response of a Qdrant node."
    )

    vector_index: str | None = Field(
        None,
        description="The vector index of an extension, as SCHEME:ADDRESS, to search instead of the library's own "
        "vectors folder.",
        repr=False,
    )

    keep: KeepRule | None = Field(
        None,
        description="Which papers an ingest keeps: text (with an abstract or a full text), arxiv (with an arXiv id and "
        "an abstract), or title (all); by default that of the profile: text, or arxiv with scholarquest.",
    )
    max_reject_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="An ingest fails when more than this share of a dataset's lines, and more than ten, are rejected.",
    )
    progress_seconds: float = Field(
        10.0, gt=0, le=1_000_000, description="Seconds between progress lines without a terminal."
    )

    s2_api_key: SecretStr | None = Field(
        None,
        description="The key of Semantic Scholar's interfaces, for downloads. It is sent there only.",
    )
    s2_url: str = Field(
        "https://api.semanticscholar.org/datasets/v1",
        description="The address of Semantic Scholar's datasets API.",
    )
    arxiv_url: str = Field(
        "https://oaipmh.arxiv.org/oai", description="The address of arXiv's OAI-PMH interface."
    )
    openalex_url: str = Field(
        "https://openalex.s3.amazonaws.com", description="The address of OpenAlex's snapshot."
    )

    profile: Profile | None = Field(
        None,
        description="The settings of searches, and of an ingest the papers it keeps: default (what measured best) or "
        "scholarquest (the baseline of the ScholarQuest paper); by default the profile that the library was built "
        "with. Settings of searches that are set one by one take precedence.",
    )
    engine: Engine | None = Field(
        None,
        description="The sparse engine of searches that name none; by default feedback in hybrid searches of up to "
        "500,000 papers, else bm25.",
    )
    exact: bool = Field(
        False, description="Search dense vectors without approximation, whatever the request."
    )
    similarity_floor: bool = Field(
        True,
        description="Leave papers out of dense results whose cosine is below that of most random pairs, which the "
        "manifest states. A request with min_similarity sets its own limit.",
    )
    fusion: Fusion = Field(
        "scores",
        description="How hybrid searches fuse their legs: by scores (and the dense leg searches with vectors of the "
        "first papers too), or by reciprocal rank (rrf). A request with fusion takes precedence.",
    )
    rrf_k: int = Field(60, ge=1, le=1_000_000, description="The k of reciprocal rank fusion.")
    fusion_depth: int = Field(
        1000,
        ge=10,
        le=10_000,
        description="The number of results of each leg that a hybrid search fuses (by scores, its first 300 from "
        "300), and the depth of its pages.",
    )
    fusion_weights: Annotated[
        dict[str, float] | None, NoDecode, _written(_weights_of), AfterValidator(_check_weights)
    ] = Field(
        None,
        description="The weight of each leg in the fusion, such as dense=1.5,bm25=1; by default 1 with rrf, and the "
        "measured ones with scores.",
    )
    graph_weight: float = Field(
        1.25,
        ge=0,
        le=MAX_GRAPH_WEIGHT,
        allow_inf_nan=False,
        description="The weight of the citation graph in hybrid searches that fuse scores, in a library with at least "
        "as many citations as papers; 0 leaves it out. A request with graph_weight takes precedence.",
    )
    fts5_title_weight: float = Field(
        2.0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="The FTS5 weight of a word in the title, relative to one in the abstract.",
    )
    known_items: bool = Field(
        True, description="Put a paper first whose id, link or title is the query of a search."
    )
    readers: int = Field(
        8, ge=1, le=256, description="Requests that each process runs at once in threads; others wait."
    )
    queue: int = Field(
        2000,
        ge=1,
        le=1_000_000,
        description="Requests that may wait in each process; more are rejected with status 503.",
    )
    tool_tokens: int = Field(
        5000,
        ge=MIN_TOKENS,
        le=MAX_TOKENS,
        description="The size of a tool's response in estimated tokens, unless the call has max_tokens.",
    )
    response_cache_mb: int = Field(
        32,
        ge=0,
        le=1_000_000,
        description="The size of the responses that each process keeps in memory for equal requests, in MB; 0 keeps "
        "none.",
    )
    timeout: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="Seconds that the server works on a request at most. What takes longer ends with status 504.",
    )

    @property
    def libraries_folder(self) -> Path:
        """The folder for libraries that are fetched."""
        return self.cache_dir or cache_folder() / "libraries"

    @property
    def has_own_vectors(self) -> bool:
        """Whether the vectors of a library are in its folder."""
        return self.qdrant_url is None and self.vector_index is None

    @property
    def sessions_location(self) -> Path | str | None:
        """The folder or the URL of the database where sessions are recorded; None if they are not."""
        if self.sessions is None:
            return state_folder()
        if "://" in self.sessions:
            return self.sessions
        return None if self.sessions == "none" else Path(self.sessions)

    @property
    def ranking(self) -> dict[str, Any]:
        """The settings that decide rankings, besides the snapshot."""
        return {
            "profile": self.profile or "default",
            "engine": self.engine,
            "exact": self.exact,
            "similarity_floor": self.similarity_floor,
            "fusion": self.fusion,
            "rrf_k": self.rrf_k,
            "fusion_depth": self.fusion_depth,
            "fusion_weights": dict(sorted((self.fusion_weights or {}).items())),
            "graph_weight": self.graph_weight,
            "fts5_title_weight": self.fts5_title_weight,
            "known_items": self.known_items,
        } | ({} if self.rerank_ms is None else {"rerank_ms": self.rerank_ms})


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment; ``overrides`` that are not None take precedence.

    Raises:
        InvalidRequest: an unknown ``SCHOLARBASE_`` variable, or an invalid value.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            raise InvalidRequest(
                f"The environment sets {name}, which is not a ScholarBase setting: unset it, or see docs/settings.md "
                "for the names."
            )
    try:
        return Settings(**{k: v for k, v in overrides.items() if v is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper() if first["loc"] else "a setting"
        value = first["input"]
        if isinstance(value, str):
            value = _CREDENTIALS.sub("//***@", value)
        raise InvalidRequest(f"{name} is {shown(value)}: {first['msg']}.") from error
