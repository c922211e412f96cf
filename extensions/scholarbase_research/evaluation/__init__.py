"""Bulk evaluation: query sets, runs as files, measures, reports.

query file -> QuerySet -> answers resolved in the library -> searches -> run folder -> measures -> report
"""
