"""The modules of a sentence-transformers model, by its configuration: their folders and their routes.

A model with a Router (https://sbert.net/docs/package_reference/base/modules.html) has several routes, such as one for
documents and one for queries. ``router_config.json`` has the type of each module, the modules of each route and
optionally the route of a task and modality.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson

from scholarbase.encoders.checkpoint import ROUTER_CONFIG, deciding_files, read_json
from scholarbase.errors import EncoderError

_MODULES: Final = "modules.json"
_MODEL_CONFIG: Final = "config_sentence_transformers.json"
_ROUTERS: Final = ("Router", "Asym")
"""Asym is the name of a Router before sentence-transformers 5."""


@dataclass(frozen=True, slots=True)
class Router:
    """A Router's folder and configuration. The keys of ``mappings`` are pairs of task and modality."""

    folder: Path
    path: Path
    content: Mapping[str, Any]
    mappings: Mapping[Any, str]

    @classmethod
    def read(cls, folder: Path) -> Router:
        """Raises EncoderError: the configuration is missing or not valid."""
        path = folder / ROUTER_CONFIG
        if not path.is_file():
            path = folder / "config.json"  # as Asym has it
        content = read_json(path)
        try:
            if not isinstance(content, dict):
                raise TypeError("it is not an object")
            for modules in content["structure"].values():
                if not [content["types"][module] for module in modules]:
                    raise ValueError("a route has no modules")
            named = content["parameters"].get("route_mappings") or {}
            return cls(folder, path, content, {ast.literal_eval(key): route for key, route in named.items()})
        except (AttributeError, KeyError, TypeError, ValueError, SyntaxError) as error:
            raise EncoderError(
                f"{path} is not the configuration of a Router: copy the model again."
            ) from error

    def route(self, task: str) -> str:
        """The route of texts for ``task``, by the rules of sentence-transformers.

        Raises:
            EncoderError: there is none.
        """
        routes = self.content["structure"]
        for key in ((task, "text"), (task, None), (None, "text"), (None, None)):
            if self.mappings.get(key) in routes:
                return self.mappings[key]
        for name in (task, "text"):
            if name in routes:
                return name
        raise EncoderError(
            f"The Router of {self.folder} has no route for the task {task!r}, only for {', '.join(routes)}: give a "
            "model with the routes query and document."
        )

    def modules(self, task: str) -> Sequence[str]:
        """The names of the modules that a text for ``task`` passes, in order."""
        names: Sequence[str] = self.content["structure"][self.route(task)]
        return names

    def folders(self, task: str | None = None) -> list[Path]:
        """The folders of the modules for a task, or of all."""
        names = self.content["types"] if task is None else self.modules(task)
        return [self.folder / name for name in names]

    def only(self, task: str) -> bytes:
        """The configuration with one route, that of ``task``."""
        route, modules = self.route(task), self.modules(task)
        return orjson.dumps(
            {
                "types": {name: self.content["types"][name] for name in modules},
                "structure": {route: modules},
                "parameters": {"default_route": route, "allow_empty_key": True}
                | {"route_mappings": {str(key): to for key, to in self.mappings.items() if to == route}},
            }
        )


@dataclass(frozen=True, slots=True)
class Modules:
    """The modules of the model in ``folder``. ``others`` are the folders of those besides the Router."""

    folder: Path
    router: Router | None
    others: Sequence[Path]
    sparse: bool
    """Whether the model is a SparseEncoder: it has learned sparse weights and no dense vectors."""

    @classmethod
    def read(cls, folder: Path) -> Modules:
        """
        Raises:
            EncoderError: ``modules.json`` is missing or not valid, or there are several Routers. Without the file,
                sentence-transformers would guess the pooling, and a wrong guess gives vectors that look valid and rank
                badly.
        """
        if not (folder / _MODULES).exists():
            raise EncoderError(
                f"{folder} has no modules.json, so the pooling of its vectors is unknown: give the folder of a "
                "sentence-transformers model, as SentenceTransformer.save writes it, or of a model2vec model, whose "
                "model.safetensors has a tensor embeddings."
            )
        modules = read_json(folder / _MODULES)
        if not isinstance(modules, list) or not all(isinstance(m, dict) and "path" in m for m in modules):
            raise EncoderError(f"{folder / _MODULES} is not a list of modules: copy the model again.")
        kinds = {str(module["path"]): _class(module.get("type")) for module in modules}
        routers = [Router.read(folder / path) for path, kind in kinds.items() if kind in _ROUTERS]
        inner = [
            kind
            for router in routers
            for kind in router.content["types"].values()
            if _class(kind) in _ROUTERS
        ]
        if len(routers) + len(inner) > 1:
            raise EncoderError(f"{folder} has several Routers: give a model with one.")
        config = read_json(folder / _MODEL_CONFIG) if (folder / _MODEL_CONFIG).exists() else None
        return cls(
            folder,
            routers[0] if routers else None,
            sorted(folder / path for path, kind in kinds.items() if kind not in _ROUTERS),
            isinstance(config, dict) and config.get("model_type") == "SparseEncoder",
        )

    @property
    def asymmetric(self) -> bool:
        """Whether documents and queries take different routes. Raises EncoderError: one of them has no route."""
        return self.router is not None and self.router.route("query") != self.router.route("document")

    @property
    def static_queries(self) -> bool:
        """Whether queries take a route to a table of dense token vectors, so that some have no direction."""
        return (
            self.router is not None
            and _class(self.router.content["types"][self.router.modules("query")[0]]) == "StaticEmbedding"
        )

    def files(self) -> list[Path]:
        """The files that decide the model's output."""
        routed = [] if self.router is None else [self.router.folder, *self.router.folders()]
        return [file for folder in {self.folder, *self.others, *routed} for file in deciding_files(folder)]

    def query_files(self) -> list[Path]:
        """The files that decide the vectors of queries."""
        routed = [] if self.router is None else self.router.folders("query")
        files = [file for folder in {*self.others, *routed} for file in deciding_files(folder)]
        shared = [self.folder / _MODULES, self.folder / _MODEL_CONFIG]
        shared += [] if self.router is None else [self.router.path]
        return [*files, *(file for file in shared if file.is_file())]

    @contextmanager
    def for_queries(self) -> Iterator[Path]:
        """A temporary folder with links to the model's files, whose Router has only the route of queries."""
        router = self.router
        assert router is not None

        def link(source: Path, target: Path) -> None:
            for entry in source.iterdir():
                destination = target / entry.name
                if entry == router.path:
                    destination.write_bytes(router.only("query"))
                elif entry in router.path.parents:
                    destination.mkdir()
                    link(entry, destination)
                else:
                    destination.symlink_to(entry)

        with TemporaryDirectory(prefix="query-model-") as temporary:
            link(self.folder, Path(temporary))
            yield Path(temporary)


def _class(path: object) -> str:
    """The name of a class without its module."""
    return str(path).rpartition(".")[2]
