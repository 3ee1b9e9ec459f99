"""The gateway of the demo: one, or several replicas that share the subscription."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import httpx

from integration.demo.scene import ReplicaView, Scene, SceneSource, merged
from integration.gateway import KeylineGateway, service_url_of
from proxy.core.sticky_key import consistent_slot, range_slot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from integration.standalone import PulsarStandalone


class Cluster:
    """Gateways in front of one broker, and what they show."""

    def __init__(self, broker: PulsarStandalone, directory: Path, ports: Sequence[tuple[int, int]]) -> None:
        """One gateway for each pair of ports, for clients and for its admin API; `start` begins.

        They write everything down below `directory`, for `make report`.
        """
        self.shared = len(ports) > 1
        journaled = {
            "journal": str((directory / "journal").absolute()),
            "journal_deliveries": "true",
            "journal_key_secret": "demo",
            "journal_snapshot_s": "5",
        }
        self.gateways = [
            KeylineGateway(
                broker.service_url,
                broker.admin_url,
                directory / f"replica-{number}" if self.shared else directory,
                port=port,
                admin_port=admin_port,
                settings=journaled
                | ({"groups_enabled": "true", "replica_name": f"replica-{number}"} if self.shared else {}),
            )
            for number, (port, admin_port) in enumerate(ports)
        ]
        self._restarting: dict[int, threading.Thread] = {}
        self._turn = 0

    def start(self, stage: ExitStack) -> None:
        """Start all of them."""
        stage.callback(self._wait_for_restarts)
        for gateway in self.gateways:
            stage.enter_context(gateway)

    @property
    def service_url(self) -> str:
        """What clients connect to: all replicas, as one Service would show them."""
        return service_url_of(self.gateways)

    def next_url(self) -> str:
        """The same, beginning with each replica in turn, as a Service would spread its clients."""
        self._turn += 1
        return service_url_of(self.gateways, self._turn % len(self.gateways))

    def roll(self, number: int) -> None:
        """Restart a replica in peace, beside whatever goes on."""
        self._begin(number, self.gateways[number].restart)

    def kill(self, number: int) -> None:
        """Kill a replica, and start it again beside whatever goes on."""
        self.gateways[number].kill()
        self._begin(number, self.gateways[number].start)

    def _begin(self, number: int, work: Any) -> None:
        self._restarting[number] = threading.Thread(target=work, daemon=True)
        self._restarting[number].start()

    def _wait_for_restarts(self) -> None:
        for thread in self._restarting.values():
            thread.join()


class ClusterSource:
    """Makes scenes of one topic at all replicas."""

    def __init__(self, cluster: Cluster, topic: str, key_count: int) -> None:
        """Nothing seen yet."""
        self._cluster = cluster
        self._topic = topic
        slot = range_slot if cluster.shared else consistent_slot
        self._sources = [SceneSource(topic, key_count, slot) for _ in cluster.gateways]

    def scene(self) -> Scene:
        """Ask every gateway that answers."""
        if not self._cluster.shared:
            return self._sources[0].scene(self._cluster.gateways[0].statistics())
        return merged([self._scene_of(number) for number in range(len(self._sources))])

    def _scene_of(self, number: int) -> Scene:
        name = f"replica-{number}"
        try:
            statistics = self._cluster.gateways[number].statistics()
        except httpx.HTTPError:
            return Scene(replicas=(ReplicaView(name, "away", leads=False, streams=0, streams_count=0),))
        group = next((item["group"] for item in statistics["subscriptions"] if item["topic"] == self._topic), None)
        if group is None:
            return Scene(replicas=(ReplicaView(name, "no workers", leads=False, streams=0, streams_count=0),))
        view = ReplicaView(name, group["state"], group["leads"], group["streams_here"], group["streams_count"])
        return self._sources[number].scene(statistics, view)
