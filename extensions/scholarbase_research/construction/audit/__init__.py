"""Audits of judged answers by people; docs/construct.md describes them.

``sampling`` draws judged papers into a sheet, ``sheets`` reads the sheets that annotators filled in, ``agreement`` has
the measures, and ``report`` computes them.
"""
