"""Tests against a real Qdrant cluster, skipped unless ``SCHOLARBASE_TEST_QDRANT_URLS`` names one.

    SCHOLARBASE_TEST_QDRANT_URLS=http://127.0.0.1:6333?grpc_port=6334,http://127.0.0.1:6343?grpc_port=6344,... \\
    SCHOLARBASE_TEST_QDRANT_CONTROL=./node.sh \\
        pytest tests/extensions/cluster/real

The addresses are those of all nodes of one cluster, of Qdrant 1.18 or newer, as in ``SCHOLARBASE_QDRANT_URL``; three
are needed for most tests. ``SCHOLARBASE_TEST_QDRANT_API_KEY`` is its key, if it has one.

Tests that stop nodes run ``SCHOLARBASE_TEST_QDRANT_CONTROL ACTION NUMBER`` and are skipped without it. NUMBER is the
place of the node in the list, from 1; ACTION is ``kill`` (SIGKILL), ``start``, ``pause`` (SIGSTOP) or ``resume``
(SIGCONT). The command returns when the signal is sent or the process is started.

All aliases and collections begin with ``scholarbase-test-`` and are removed at the end; others are not touched.
"""
