"""Finds the replica that each worker is connected to; in owner mode another replica may serve it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil

from integration.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from integration.gateway import KeylineGateway


class Doors:
    """Looks at the connections of the gateways' processes, once for each client."""

    def __init__(self, gateways: Sequence[KeylineGateway]) -> None:
        """Nothing seen yet."""
        self._gateways = gateways
        self._doors: dict[str, int] = {}
        """Address of a client -> the number of its replica. No address comes back: the system counts them up."""

    def of(self, subscriptions: Iterable[dict[str, Any]]) -> dict[str, int]:
        """The replica of each worker of these, as far as it is connected to one."""
        workers = [(worker, address) for item in subscriptions for worker, address in item["addresses"]]
        if any(address not in self._doors for _, address in workers):
            for number, gateway in enumerate(self._gateways):
                self._doors |= dict.fromkeys(_clients(gateway), number)
        return {worker: self._doors[address] for worker, address in workers if address in self._doors}


def _clients(gateway: KeylineGateway) -> list[str]:
    """Addresses of those that are connected to its port for clients, as the system knows them."""
    try:
        connections = psutil.Process(gateway.pid).net_connections("tcp4")
    except (psutil.Error, StartError):
        return []  # it is away
    ours = [one for one in connections if one.status == psutil.CONN_ESTABLISHED and one.laddr.port == gateway.port]
    return [f"{one.raddr.ip}:{one.raddr.port}" for one in ours]
