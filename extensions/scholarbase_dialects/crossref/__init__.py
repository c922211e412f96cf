"""Crossref's works: https://api.crossref.org/swagger-ui/index.html, with its server for what that leaves open
(https://gitlab.com/crossref/rest_api)."""

from scholarbase_dialects.crossref.operations import DIALECT

__all__ = ["DIALECT"]
