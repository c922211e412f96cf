"""The index of passages: BM25 and dense vectors in a Qdrant shard, words in FTS5."""
