"""A server started from Python: ``serve(path, settings)`` with settings that no environment variable has.

    python -m torture.python_server serve --library LIBRARY --port 0 --workers 2

The other settings are in the variable TORTURE_SETTINGS, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from scholarbase import logs
from scholarbase.api.server import serve
from scholarbase.settings import Settings

VARIABLE = "TORTURE_SETTINGS"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    # Taken out, so that no worker can read them from there.
    others = json.loads(os.environ.pop(VARIABLE))
    logs.configure("info")
    serve(options.library, Settings(port=options.port, workers=options.workers, **others))


if __name__ == "__main__":
    main()
