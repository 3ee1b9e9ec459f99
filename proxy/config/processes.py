"""The settings of each of several processes of one host, from the configuration that an operator wrote for the host.

Rule kept: what the operator wrote is of the host. Processes listen at the same addresses for clients and operators,
have names and replica ports of their own, and divide what is memory among themselves. Bounds of numbers
(`connections_max`, `workers_max`, ...) are each process's: how many come to one is not known in advance, and an even
part of the bound would refuse clients while the host has room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from proxy.config.relations import RELATIONS
from proxy.config.types import size_text, split_host_port

if TYPE_CHECKING:
    from proxy.config.settings import Config

DIVIDED: Final = ("gateway_memory_bytes", "waiting_producers_bytes_max", "journal_memory_bytes")
"""Memory of the host; each process has an even part of it."""
ADDRESSES: Final = ("listen", "listen_tls", "admin_listen")
"""All processes listen at each of them."""
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Place:
    """Of one process among those of its host."""

    index: int
    count: int
    addresses: Mapping[str, str]
    """Of `ADDRESSES` that are configured, and of `replica_listen` where the host is alone: as they are listened at."""

    def config(self, host: Config) -> Config:
        """The configuration of this process, from that of the host."""
        serving, replicas, values = host.serving, host.replicas, host.values()
        changes: dict[str, Any] = {name: values[name] // self.count for name in DIVIDED}
        changes |= {name: self.addresses[name] for name in ADDRESSES if name in self.addresses}
        changes["replica_name"] = f"{serving.replica_name}-{self.index}"
        if replicas.groups_enabled:
            changes["replica_listen"] = _next_port(replicas.replica_listen, self.index)
            if replicas.replica_address is not None:
                changes["replica_address"] = _next_port(replicas.replica_address, self.index)
        else:
            changes |= {"groups_enabled": True, "groups_mode": "owner", "replica_address": None}
            changes["replica_listen"] = self.addresses["replica_listen"]
            changes["group_deployment"] = replicas.group_deployment or serving.replica_name
        return host.changed(changes)


def mistakes_of_processes(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What contradicts several processes: the setting, and what is wrong."""
    count = values["processes"]
    if count == 1:
        return
    if values["groups_enabled"] and values["groups_mode"] != "owner":
        yield "processes", "several processes are replicas in owner mode, and groups_mode is streams"
    divided = {**values, **{name: values[name] // count for name in DIVIDED}}
    for relation in RELATIONS:
        if relation.right in DIVIDED and relation.holds_in(values) and not relation.holds_in(divided):
            part = f"{size_text(divided[relation.right])} of {relation.right} for each"
            least = f"{relation.left} ({size_text(values[relation.left])})"
            yield "processes", f"leaves {part}, which is less than {least}: {relation.why}"
    for name in ("replica_listen", "replica_address"):
        if values["groups_enabled"] and values[name] is not None:
            port = split_host_port(values[name])[1]
            if port + count - 1 > _PORT_MAX:
                yield name, f"{count} processes take {count} ports from {port} on, and the last port is {_PORT_MAX}"


def _next_port(address: str, index: int) -> str:
    host, port = split_host_port(address)
    return join(host, port + index if port else 0)


def join(host: str, port: int) -> str:
    """Write an address as settings have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
