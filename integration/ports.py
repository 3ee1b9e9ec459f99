"""Free ports on loopback that stay free while a server is down.

Asking the kernel for port 0 gives an ephemeral port. Between a broker's stop and its restart, a client that keeps
reconnecting to such a port is now and then given that very port as its own source port: it connects to itself, and
the broker finds its address in use. So ports come from below the ephemeral range.
"""

from __future__ import annotations

import random
import socket
from collections import deque
from contextlib import ExitStack
from typing import Final

LOOPBACK = "127.0.0.1"
PORT_MIN = 15_000
PORT_MAX = 32_000
"""Linux hands out source ports from 32,768 upwards unless told otherwise."""
TRIES_MAX = 1_000
GIVEN: Final[deque[int]] = deque(maxlen=1_000)
"""The last ports that this process was given. Their servers may not listen yet, and then look as free as any."""


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nothing listens on.

    This process is not given them again soon. Nothing reserves them against others; the range is wide enough that two
    processes choosing at the same time rarely meet.
    """
    ports: list[int] = []
    with ExitStack() as held:
        for _ in range(TRIES_MAX):
            if len(ports) == count:
                GIVEN.extend(ports)
                return ports
            port = random.randint(PORT_MIN, PORT_MAX)  # noqa: S311 - no secret, only a spread
            if port in GIVEN:
                continue
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            ports.append(port)
    msg = f"no {count} free ports between {PORT_MIN} and {PORT_MAX} on {LOOPBACK}"
    raise OSError(msg)


def is_free(port: int) -> bool:
    """Tell whether a server could listen there: connections of one that has just ended do not keep its port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
