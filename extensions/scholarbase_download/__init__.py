"""Downloads of snapshots and packed libraries, which continue after an interruption."""

from __future__ import annotations

from collections.abc import Mapping

from scholarbase.extensions import Extension


class Download(Extension):
    """Downloads of snapshots and packed libraries, which continue after an interruption."""

    def commands(self) -> Mapping[str, str]:
        return {"download": "scholarbase_download.commands:download_group"}
