"""A network that fails on request: a TCP proxy between clients, gateway and broker.

`FaultProxy` (`proxy`) is what tests use; `conditions` says what a direction may suffer. Below: one client's two
sockets (`connection`), one direction of them (`pipe`), and where a frame ends (`frame_border`).
"""
