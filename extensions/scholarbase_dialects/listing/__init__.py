"""Lists of papers that meet conditions: ``conditions`` are their SQL, ``lists`` reads and caches those of a library."""
