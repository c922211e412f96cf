"""Ceilings, sweeps, scores of answers, and the query files of published benchmarks."""
