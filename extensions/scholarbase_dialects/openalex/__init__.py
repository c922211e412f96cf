"""OpenAlex's works: https://developers.openalex.org, with its server for what that leaves open
(https://github.com/ourresearch/openalex-elastic-api)."""

from scholarbase_dialects.openalex.operations import DIALECT

__all__ = ["DIALECT"]
