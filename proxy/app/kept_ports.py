"""Keeps the addresses that several processes listen at together.

With SO_REUSEPORT every process has a listening socket of its own, among which the kernel divides new connections. So
that of a process that ends is closed with it, and the others go on. Two things it would allow are prevented here:
another gateway of the same user at the same address would get a part of the clients unnoticed, so it is first tried
whether the address is free; and a port that no process listens at for a moment could be taken by others, so it stays
bound as long as the supervisor lives.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from proxy.config.processes import join
from proxy.config.types import split_host_port
from proxy.errors import StartFailure

if TYPE_CHECKING:
    from collections.abc import Mapping


class KeptPorts:
    """Bound sockets that do not listen, and so get no connections."""

    def __init__(self) -> None:
        """None yet."""
        self._sockets: list[socket.socket] = []

    def keep(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Keep these, by setting; returns them with the assigned port for port 0.

        Raises:
            StartFailure: one is taken; then none is kept.
        """
        return {setting: self._kept(setting, address) for setting, address in wanted.items()}

    def close(self) -> None:
        """Keep none."""
        for kept in self._sockets:
            kept.close()
        self._sockets.clear()

    def _kept(self, setting: str, address: str) -> str:
        host, port = split_host_port(address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, place in dict.fromkeys(found):
                port = self._bound(family, (place[0], port, *place[2:]))
        except OSError as error:
            self.close()
            raise StartFailure(f"{setting} {address}: {error.strerror or error}") from error
        return join(host, port)

    def _bound(self, family: int, place: tuple[Any, ...]) -> int:
        """Keep one; returns its port. Raises `OSError`."""
        with socket.create_server(place, family=family):
            pass  # free: the kernel refuses it while another socket listens there
        kept = socket.socket(family, socket.SOCK_STREAM)
        self._sockets.append(kept)
        if family == socket.AF_INET6:
            kept.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            kept.bind(place)
        except OSError:
            # Ended connections of a gateway that was alone: it has to be taken in a way that keeps others out less.
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(place)
        return int(kept.getsockname()[1])
