"""Free ports on loopback that stay free while a server is down.

Asking the kernel for port 0 gives an ephemeral port. Between a broker's stop and its restart, a client that keeps
reconnecting to such a port is now and then given that very port as its own source port: it connects to itself, and
the broker finds its address in use. So ports come from below the ephemeral range.

Nor may another test run choose the port of a server that is down, or that does not listen yet. So each process has a
block of ports for itself alone, by a file lock that the kernel releases when the process dies.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from integration import artifacts

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
PORT_MIN = 15_000
PORT_MAX = 32_000
"""Linux hands out source ports from 32,768 upwards unless told otherwise."""
BLOCK_PORTS: Final = 200
"""Of one process; when they are used up it takes a second block, and so on."""


class PortBlocks:
    """The blocks of this process. A port of theirs is given once, until no free block is left."""

    def __init__(self) -> None:
        """No block is taken yet."""
        self._held: dict[int, int] = {}
        """By its first port: a file that is locked for as long as it is open, which is until this process ends."""
        self._ports: Iterator[int] = iter(())

    def next(self) -> int:
        """Return a port that no other process is given, and this one not again soon.

        Raises:
            OSError: all blocks are taken, and this process has none.
        """
        port = next(self._ports, None)
        if port is None:
            self._ports = self._more()
            port = next(self._ports)
        return port

    def _more(self) -> Iterator[int]:
        firsts = list(range(PORT_MIN, PORT_MAX - BLOCK_PORTS + 1, BLOCK_PORTS))
        random.shuffle(firsts)  # where another cache is used, or another system, two rarely meet
        for first in firsts:
            if self._take(first):
                return iter(range(first, first + BLOCK_PORTS))
        if not self._held:
            msg = f"all blocks of ports between {PORT_MIN} and {PORT_MAX} are taken by other processes"
            raise OSError(msg)
        # From the oldest on: what listened there has most probably ended.
        return (first + number for first in self._held for number in range(BLOCK_PORTS))

    def _take(self, first: int) -> bool:
        folder = artifacts.cache_root() / "ports"
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / str(first), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._held[first] = file
        return True


BLOCKS: Final = PortBlocks()


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nothing listens on, and that no other process is given.

    This process is not given them again before it has had some hundred others.

    Raises:
        OSError: there are no such ports.
    """
    ports: list[int] = []
    with ExitStack() as held:
        for _ in range(PORT_MAX - PORT_MIN):
            if len(ports) == count:
                return ports
            port = BLOCKS.next()
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
