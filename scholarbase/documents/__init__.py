"""Full texts of papers: read from their sources, stored, and cut into passages."""
