"""Recorded sessions that run again: on the same snapshot nothing differs."""
