"""ScholarBase: a Semantic Scholar or arXiv snapshot as a local search server."""

__version__ = "0.1.0"
