"""Baseline agents: one search, search and expansion by rule, and a language model that calls the tools."""
