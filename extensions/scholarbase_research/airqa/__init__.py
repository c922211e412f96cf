"""AirQA's environment (arXiv:2509.16952): its actions as a set of tools."""
