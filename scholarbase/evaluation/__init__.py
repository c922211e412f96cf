"""Bulk evaluation: query sets, runs as files, measures, reports.

    query file -> QuerySet -> answers resolved in the library -> searches -> run folder -> measures -> report

``queries`` and ``formats`` read what others publish, ``answers`` finds the answers in a library, ``searching`` runs
the queries, ``runs`` is the run folder, ``measures`` and ``statistics`` say how good a run is, ``comparison`` sets two
side by side, ``trajectories`` reads an agent's tool calls, ``oracles`` and ``sweeps`` ask where recall is lost,
``beir`` speaks of the collections of that benchmark, and ``report`` writes it all down.
"""
