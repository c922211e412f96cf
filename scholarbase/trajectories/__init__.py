"""The tool calls of agents: their kinds, and the figures computed from them."""
