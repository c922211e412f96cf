"""The tool calls of agents: their JSON lines form, and the figures computed from them."""
