"""Opens rerankers by path, hub name or URL."""

from __future__ import annotations

from pathlib import Path

from scholarbase.errors import EncoderError, RerankerError
from scholarbase.rerankers.base import Reranker


def open_reranker(
    name: str, location: str, *, device: str | None = None, api_key: str | None = None
) -> Reranker:
    """Open the reranker at ``location``, and import only the libraries that it needs.

    - ``http://host:8080#model``: a service (:mod:`.http`), with ``api_key``;
    - ``BAAI/bge-m3``, or a folder with a BGE-M3 model: its token vectors (:mod:`.bge_m3`);
    - a folder of stored vectors, or of an embedding model of sentence-transformers: cosines (:mod:`.encoder`);
    - any other folder or hub name: a cross-encoder of sentence-transformers (:mod:`.cross_encoder`);
    - ``SCHEME:NAME``, with a scheme that an extension adds.

    Args:
        name: the reranker's name in requests, for messages.
        device: a torch device; None is a GPU if available, else the CPU.

    Raises:
        RerankerError: the reranker cannot be opened.
        MissingExtra: a package of the model is not installed.
    """
    try:
        return _open(location, device, api_key)
    except (EncoderError, RerankerError) as error:
        raise RerankerError(f"The reranker {name!r} cannot be opened. {error}") from error


def _open(location: str, device: str | None, api_key: str | None) -> Reranker:
    if location.startswith(("http://", "https://")):
        from scholarbase.rerankers.http import HttpReranker

        return HttpReranker(location, api_key)
    from scholarbase.encoders.registry import has_scheme, open_added

    if has_scheme(location):
        added: Reranker = open_added("rerankers", location, device)
        return added
    from scholarbase.encoders.bge_m3 import DEFAULT_NAME, is_bge_m3
    from scholarbase.encoders.checkpoint import find_checkpoint
    from scholarbase.rerankers.bge_m3 import BgeM3Reranker
    from scholarbase.rerankers.cross_encoder import CrossEncoderReranker, has_scores
    from scholarbase.rerankers.encoder import FILE_NAME, EncoderReranker

    if location.casefold() == DEFAULT_NAME.casefold() and not Path(location).exists():
        return BgeM3Reranker(DEFAULT_NAME, device)
    folder = find_checkpoint(location)
    if is_bge_m3(folder):
        return BgeM3Reranker(location, device)
    if (folder / FILE_NAME).is_file() or ((folder / "modules.json").is_file() and not has_scores(folder)):
        return EncoderReranker.open(folder, device)
    return CrossEncoderReranker(location, device)
