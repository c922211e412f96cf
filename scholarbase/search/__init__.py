"""Searching a library: ``library`` answers requests, ``ranking`` runs and fuses the legs of a search."""
