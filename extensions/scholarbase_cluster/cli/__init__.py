"""The commands ``load``, ``unload``, ``plan`` and ``encode``."""
