"""Semantic Scholar's interfaces: the Academic Graph, its recommendations, and the one before the Graph.

The originals: https://api.semanticscholar.org/api-docs. ``graph`` has the routes of papers, ``authors`` those of
authors, ``bulk`` the search in pages of a thousand, ``recommendations`` and ``legacy`` the two other interfaces;
``parameters``, ``fields``, ``filters`` and ``query`` read requests, and ``papers`` writes answers.
"""
