"""Responses for language models: cut to a number of tokens, and formatted as text."""
