"""The HTTP interfaces of other services, so that agents made for them run on a library unchanged.

One module per dialect; :mod:`~scholarbase.api.dialects.base` has what they share. docs/dialects.md lists them.
"""
