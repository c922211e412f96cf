"""Vector indexes behind one protocol: Qdrant Edge in the process, a Qdrant server over the network."""
