"""Access to a shared server: keys, request limits, and the guard that enforces them."""
