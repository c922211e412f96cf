"""Plain data: papers, requests, responses, query sets and runs, with their checks."""
