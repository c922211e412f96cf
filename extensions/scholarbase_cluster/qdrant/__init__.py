"""Loading a library's vectors into Qdrant servers."""
