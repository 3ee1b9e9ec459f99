"""Shows what goes wrong without the gateway: one load, direct and through it, counted by the same audit.

`make comparison` repeats the figures of the README. A real broker, a producer that batches as its client does, and
Key_Shared workers that join, leave and crash meanwhile; only the address that the clients connect to differs. The
counts are those of `integration.load.audit`, which asks neither the broker nor the gateway.
"""
