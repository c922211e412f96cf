"""Opens encoders by name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, Literal

from scholarbase.encoders.base import Encoder
from scholarbase.errors import EncoderError, ScholarBaseError
from scholarbase.extensions import FAILURES, added_names, reason
from scholarbase.models.encoders import PACKAGED

API_KEY_VARIABLE: Final = "SCHOLARBASE_ENCODER_API_KEY"

PACKAGED_FOLDER: Final = Path(__file__).parent / "packaged" / PACKAGED
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def open_encoder(
    name: str,
    *,
    device: str | None = None,
    api_key: str | None = None,
    requests: int = 1,
) -> Encoder:
    """Open the encoder ``name``, and import only the libraries that it needs.

    - ``https://host/v1#model`` or ``unix:/path/to.sock``: an embeddings service (:mod:`.http`), with
      ``api_key``, or else ``SCHOLARBASE_ENCODER_API_KEY`` from the environment;
    - ``arxiv-static-v1``: the encoder in the package (:mod:`.static`);
    - a folder or hub name of a model2vec model: :mod:`.static`;
    - ``BAAI/bge-m3``, or a folder with a BGE-M3 model: BGE-M3 (:mod:`.bge_m3`);
    - any other folder or hub name: a sentence-transformers model (:mod:`.sentence_transformers`);
    - ``SCHEME:NAME``, with a scheme that an extension adds.

    ``device`` is a torch device; None is a GPU if available, else the CPU. ``requests`` may run at once at a service.

    Raises:
        EncoderError: the name is not an encoder's, or the encoder cannot be opened.
    """
    if name.strip() in ("", "none"):
        raise EncoderError(
            f"{name!r} is not an encoder: give a model's folder, a hub name such as BAAI/bge-m3, or a URL such "
            "as https://host/v1#model-name."
        )
    if name.startswith(("http://", "https://", "unix:")):
        if device is not None:
            raise EncoderError(
                f"device is {device!r}, but {name.split(':', 1)[0]} is a service, which has no device: leave it out."
            )
        from scholarbase.encoders.http import HttpEncoder

        key = api_key or os.environ.get(API_KEY_VARIABLE)
        return HttpEncoder(name, api_key=key, requests=requests)
    if has_scheme(name):
        added: Encoder = open_added("encoders", name, device)
        return added
    return _open_model(name, device)


def _open_model(name: str, device: str | None) -> Encoder:
    from scholarbase.encoders.bge_m3 import DEFAULT_NAME, BgeM3Encoder, is_bge_m3
    from scholarbase.encoders.checkpoint import find_checkpoint
    from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
    from scholarbase.encoders.static import StaticEncoder, is_static

    if name == PACKAGED:
        return StaticEncoder(PACKAGED_FOLDER, device)
    if name.casefold() == DEFAULT_NAME.casefold() and not Path(name).exists():
        return BgeM3Encoder(DEFAULT_NAME, device)
    folder = find_checkpoint(name)
    if is_static(folder):
        return StaticEncoder(folder, device)
    if is_bge_m3(folder):
        return BgeM3Encoder(name, device)
    return SentenceTransformersEncoder(name, device)


def has_scheme(name: str) -> bool:
    """Whether a name has the form ``SCHEME:NAME``, and is not the path of a folder."""
    return _SCHEME.fullmatch(name) is not None and not Path(name).exists()


def open_added(kind: Literal["encoders", "rerankers"], name: str, device: str | None) -> Any:
    """Open ``SCHEME:NAME`` by the function that an extension adds for the scheme.

    Raises:
        EncoderError: no extension adds the scheme, or the model cannot be opened.
    """
    scheme, _, rest = name.partition(":")
    added = added_names(kind)
    if scheme not in added:
        schemes = ", ".join(sorted(added)) or "none"
        raise EncoderError(
            f"{name!r} is not a folder, and no installed extension opens the scheme {scheme!r} (schemes of extensions: "
            f"{schemes}): give a model's folder, its name on the hub such as BAAI/bge-m3, or a URL."
        )
    try:
        return added[scheme](rest, device)
    except ScholarBaseError:
        raise
    except FAILURES as error:
        raise EncoderError(
            f"The extension that opens the scheme {scheme!r} failed to open {name!r} ({reason(error)}): update the "
            "extension, or use another model."
        ) from error
