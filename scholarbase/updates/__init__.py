"""Moving libraries, and bringing them up to date."""
