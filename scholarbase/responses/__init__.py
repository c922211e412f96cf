"""Responses for language models: cut to a number of tokens, and as readable text."""
