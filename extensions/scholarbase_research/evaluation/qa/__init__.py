"""Scores of answers to questions about papers; docs/evaluation.md describes the files and the measures.

``functions`` are AirQA's evaluation functions, ``choices`` reads multiple-choice answers, ``overlap`` compares texts,
``examples`` reads the files, ``scoring`` scores them and ``groups`` adds them up.
"""
