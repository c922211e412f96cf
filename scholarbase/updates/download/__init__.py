"""Downloads of snapshots: Semantic Scholar, arXiv, OpenAlex and packed libraries (docs/download.md).

Each is resumed by the same call after an interruption, and a file has its final name when it is whole and checked.
"""
