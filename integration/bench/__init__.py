"""`python -m integration.bench`: measures what the gateway costs, beside the direct broker in the same run.

`cli` chooses the sections; `drains`, `latency`, `growth` and others run against a real broker, `micro`, `path` and
`instructions` inside one process; `report` is the table. How to read it: docs/performance.md.
"""
