"""An executed notebook as a page: its text, code and output."""

from __future__ import annotations

import base64
import json
from pathlib import Path


def notebook_page(notebook: Path, page: Path) -> None:
    """Write ``page``, and the pictures of the notebook beside it."""
    parts = []
    for number, cell in enumerate(json.loads(notebook.read_bytes())["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        language, _, rest = source.partition("\n") if source.startswith("%%") else ("%%python", "", source)
        parts.append(f"```{language.removeprefix('%%')}\n{rest}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = page.with_name(f"{page.stem}-{number}.png")
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![The plot of the code above]({picture.name})")
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```text\n{text.rstrip()}\n```")
    page.write_text("\n\n".join(parts) + "\n", "utf-8")
