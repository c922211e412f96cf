"""Encodes the papers of a snapshot outside an ingest: partition by partition, in this process or on Ray.

The result is a folder of Parquet files that ``ingest --vectors`` takes.
"""
