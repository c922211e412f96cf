"""Vector indexes with one interface: an embedded Qdrant Edge shard, or a Qdrant server."""
