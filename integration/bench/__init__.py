"""`python -m integration.bench`: measures what the gateway costs, beside the direct broker in the same run.

`cli` chooses the sections; `drain`, `latency`, `hand_over` and `relay` run against a real broker, `micro` and `path`
inside one process; `report` is the table. How to read it: docs/performance.md.
"""
