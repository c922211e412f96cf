"""Downloads of snapshots, which continue after an interruption, packed libraries, and differences of libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scholarbase.extensions import Extension


class Download(Extension):
    """Downloads of snapshots, which continue after an interruption, packed libraries, and differences of libraries."""

    def commands(self) -> Mapping[str, str]:
        whole = ("diff", "pack", "unpack", "libraries", "get")
        return {
            "download": "scholarbase_download.commands:download_group",
            **{name: f"scholarbase_download.library_commands:{name}" for name in whole},
        }

    def library_fetchers(self) -> Mapping[str, Callable[..., Any]]:
        from scholarbase_download.fetching import SCHEMES, fetch_library

        return dict.fromkeys(SCHEMES, fetch_library)
