"""The gateway of the demo: one, or several replicas in owner mode."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any, Final

import httpx

from integration.demo.doors import Doors
from integration.demo.scene import ReplicaView, Scene, SceneSource, merged
from integration.gateway import KeylineGateway, service_url_of
from integration.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from integration.standalone import PulsarStandalone

SECRET_BYTES: Final = 32


def replica_name(number: int) -> str:
    """As it is configured, and shown."""
    return f"replica-{number}"


class Cluster:
    """Gateways in front of one broker, and what they show."""

    def __init__(
        self, broker: PulsarStandalone, directory: Path, ports: Sequence[tuple[int, int]], replica_ports: Sequence[int]
    ) -> None:
        """One gateway for each pair of ports, for clients and for its admin API; `start` begins.

        Several have a port each for the other replicas, and a secret that they prove to each other. They write
        everything down below `directory`, for `make report`.
        """
        self.shared = len(ports) > 1
        self._secret = directory / "replica-secret"
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
                directory / replica_name(number) if self.shared else directory,
                port=port,
                admin_port=admin_port,
                settings=journaled | (self._shares(number, replica_ports[number]) if self.shared else {}),
            )
            for number, (port, admin_port) in enumerate(ports)
        ]
        self.owner = 0
        """Number of the replica that serves the workers, or did so last."""
        self.doors: dict[str, int] = {}
        """The number of the replica that each worker is connected to."""
        self._restarting: dict[int, threading.Thread] = {}
        self._turn = 0

    def _shares(self, number: int, port: int) -> dict[str, str]:
        return {
            "groups_enabled": "true",
            "replica_name": replica_name(number),
            "replica_listen": f"{LOOPBACK}:{port}",
            "replica_secret_file": str(self._secret.absolute()),
        }

    def start(self, stage: ExitStack) -> None:
        """Start all of them."""
        if self.shared:
            self._secret.touch(0o600)
            self._secret.write_text(f"{secrets.token_urlsafe(SECRET_BYTES)}\n")
        for gateway in self.gateways:
            stage.enter_context(gateway)
        # Before they are stopped: one that was killed publishes its journal when it is back.
        stage.callback(self._wait_for_restarts)

    @property
    def service_url(self) -> str:
        """What clients connect to: all replicas, as one Service would show them."""
        return service_url_of(self.gateways)

    def next_url(self) -> str:
        """The same, beginning with each replica in turn, as a Service would spread its clients."""
        self._turn += 1
        return service_url_of(self.gateways, self._turn % len(self.gateways))

    def workers_at(self, number: int) -> frozenset[str]:
        """Workers that lose their connection when this replica ends."""
        return frozenset(worker for worker, door in self.doors.items() if door == number)

    @property
    def restarting(self) -> bool:
        """Whether a replica that was ended is not back yet."""
        return any(thread.is_alive() for thread in self._restarting.values())

    def roll(self, number: int) -> None:
        """Restart a replica gracefully while the demo goes on."""
        self._begin(number, self.gateways[number].restart)

    def kill(self, number: int) -> None:
        """Kill a replica, and start it again while the demo goes on."""
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
        self._sources = [SceneSource(topic, key_count) for _ in cluster.gateways]
        self._doors = Doors(cluster.gateways)

    def scene(self) -> Scene:
        """Ask every gateway that answers."""
        if not self._cluster.shared:
            return self._sources[0].scene(self._cluster.gateways[0].statistics())
        return merged([self._scene_of(number) for number in range(len(self._sources))])

    def _scene_of(self, number: int) -> Scene:
        gateway = self._cluster.gateways[number]
        try:
            statistics, deployment = gateway.statistics(), gateway.deployment()
        except httpx.HTTPError:
            return Scene(replicas=(ReplicaView(replica_name(number), "away"),))
        doors = self._doors.of(item for item in statistics["subscriptions"] if item["topic"] == self._topic)
        if doors:
            self._cluster.owner, self._cluster.doors = number, doors
        view = ReplicaView(
            replica_name(number),
            deployment["state"],
            leads=deployment["leader"] == deployment["replica"],
            owns=bool(doors),
            bundles=deployment["bundles_here"],
            bundles_count=deployment["bundles_count"],
        )
        return self._sources[number].scene(
            statistics, view, {worker: replica_name(door) for worker, door in doors.items()}
        )
