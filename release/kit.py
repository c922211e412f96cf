"""What a release has for other package managers and programs: a bundle for MCP clients, and a conda recipe."""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any, Final

from release.changelog import ROOT, SOURCE
from scholarbase.tools.definitions import TOOLS

MANIFEST_VERSION: Final = "0.3"
"""The version of MCPB's manifest: https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md"""
MCP: Final = "mcp>=2.3,<3"
STAMP: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file of the bundle, so that the same release gives the same bytes."""
MAIN: Final = '''"""Serve the tools of ScholarBase on standard input and output."""

import sys

from scholarbase.cli import main

main(["mcp", *sys.argv[1:]])
'''


def project() -> dict[str, Any]:
    """The table ``project`` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def manifest(number: str) -> dict[str, Any]:
    """The manifest of the bundle. The client's ``uvx`` installs ScholarBase from PyPI when it starts the server."""
    command = ["--from", f"scholarbase=={number}", "--with", MCP, "scholarbase", "mcp"]
    about = project()
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": "scholarbase",
        "display_name": "ScholarBase",
        "version": number,
        "description": "Search a local library of scholarly papers by words, meaning, titles and citations.",
        "author": {"name": "The ScholarBase contributors", "url": SOURCE},
        "repository": {"type": "git", "url": SOURCE},
        "homepage": SOURCE,
        "documentation": f"{SOURCE}/blob/v{number}/docs/agents.md",
        "support": f"{SOURCE}/issues",
        "license": about["license"],
        "keywords": about["keywords"],
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "uvx",
                "args": command,
                "env": {"SCHOLARBASE_LIBRARY": "${user_config.library}"},
            },
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in TOOLS],
        "tools_generated": True,
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": about["requires-python"]}},
        "user_config": {
            "library": {
                "type": "directory",
                "title": "Library",
                "description": "The folder of a library, which `scholarbase ingest` or `scholarbase get` made.",
                "required": True,
            }
        },
    }


def write_bundle(path: Path, number: str) -> None:
    """Write ``scholarbase.mcpb``, a zip archive of the manifest, the entry point and the licence."""
    files = {
        "manifest.json": json.dumps(manifest(number), indent=2) + "\n",
        "server/main.py": MAIN,
        "LICENSE": (ROOT / "LICENSE").read_text("utf-8"),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in files.items():
            bundle.writestr(zipfile.ZipInfo(name, STAMP), text, zipfile.ZIP_DEFLATED)


def recipe(number: str, sha256: str) -> str:
    """The conda recipe (version 1 of its format, as rattler-build and conda-forge read it) of an sdist on PyPI.

    Platform conditions and extras of requirements are left out: a recipe without compiled code names all packages.
    """
    about = project()
    needed = sorted(
        requirement.partition(";")[0].partition("[")[0].strip() for requirement in about["dependencies"]
    )
    run = "\n".join(f"    - {json.dumps(_spaced(requirement))}" for requirement in needed)
    return f"""schema_version: 1

context:
  version: "{number}"

package:
  name: scholarbase
  version: ${{{{ version }}}}

source:
  url: https://pypi.org/packages/source/s/scholarbase/scholarbase-${{{{ version }}}}.tar.gz
  sha256: {sha256}

build:
  number: 0
  noarch: python
  script: python -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
      - scholarbase = scholarbase.cli:main

requirements:
  host:
    - "python {about["requires-python"]}"
    - pip
    - hatchling >=1.27
  run:
    - "python {about["requires-python"]}"
{run}

tests:
  - python:
      imports:
        - scholarbase
  - script:
      - scholarbase --version

about:
  homepage: {SOURCE}
  repository: {SOURCE}
  license: {about["license"]}
  license_file: LICENSE
  summary: {json.dumps(about["description"])}
"""


def _spaced(requirement: str) -> str:
    """``click>=8.1`` as conda writes it: ``click >=8.1``."""
    for place, letter in enumerate(requirement):
        if letter in "<>=!~":
            return f"{requirement[:place]} {requirement[place:]}"
    return requirement
