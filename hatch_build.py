"""The README for PyPI, where relative links lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCE = "https://github.com/scholarbase/scholarbase"
RAW = "https://raw.githubusercontent.com/scholarbase/scholarbase"


def absolute(readme: str, version: str) -> str:
    """The text with links to the files of the version's tag."""
    images = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{RAW}/v{version}/", readme)
    return re.sub(r"(?<!!)(\[[^\]]*\]\()(?!https?:|#)", rf"\1{SOURCE}/blob/v{version}/", images)


class ReadmeHook(MetadataHookInterface):
    """Sets the readme of the package's metadata."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, metadata["version"])}
