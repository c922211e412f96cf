"""The environment variables that point a command at the proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scholarbase_dialects.proxy.authority import ROOT_VARIABLES

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Hosts that need no proxy."""


def variables(url: str, bundle: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a proxy at ``url``. Those of lower case too, which take precedence in some clients."""
    proxies = {name: url for one in ("HTTPS_PROXY", "HTTP_PROXY") for name in (one, one.lower())}
    listed = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")
    direct = ",".join(dict.fromkeys([*(one.strip() for one in listed if one.strip()), *LOCAL]))
    return {
        **proxies,
        **dict.fromkeys(("NO_PROXY", "no_proxy"), direct),
        **dict.fromkeys(ROOT_VARIABLES, str(bundle)),
    }
