"""The product as it is deployed, twice over: as processes of this machine, and as containers of its image.

Both give the same things, so that one story is told of both: a broker, two replicas that share their subscriptions,
and what an operator does to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
from testcontainers.core.network import Network

from integration.containers.daemon import docker_daemon
from integration.containers.images import build_keyline, ensure_pulsar
from integration.containers.keyline import KeylineContainer
from integration.containers.pulsar import PulsarContainer
from integration.gateway import KeylineGateway, service_url_of
from integration.standalone import PulsarStandalone

REPLICAS = ("replica-0", "replica-1")
SETTINGS = {"groups_enabled": "true", "groups_mode": "streams"}


class Broker(Protocol):
    """What the story does with a broker."""

    version: str

    @property
    def service_url(self) -> str:
        """For clients on this machine."""

    @property
    def admin_url(self) -> str:
        """Root of its admin API."""

    def admin(self) -> httpx.Client:
        """For its admin API."""

    def kill(self) -> None:
        """End it with SIGKILL; its data stays."""

    def start(self) -> Any:
        """Start it again, on the same ports with its data."""


class Gateway(Protocol):
    """And with a replica."""

    @property
    def port(self) -> int:
        """For clients on this machine."""

    @property
    def service_url(self) -> str:
        """Likewise."""

    @property
    def admin_url(self) -> str:
        """Root of its admin API."""

    def statistics(self) -> dict[str, Any]:
        """Its subscriptions with everything known of them."""

    def workers(self, topic: str, subscription: str) -> frozenset[str]:
        """Names of those that are connected to it now."""

    def stop(self) -> int | None:
        """End it as an orchestrator does; its exit code."""

    def kill(self) -> None:
        """End it with SIGKILL."""

    def start(self) -> Any:
        """Start it again on the same ports."""


@dataclass(frozen=True)
class Deployment:
    """A broker, and replicas in front of it."""

    broker: Broker
    gateways: tuple[Gateway, Gateway]

    def url(self, first: int = 0) -> str:
        """All replicas as one service, beginning with one of them."""
        return service_url_of(self.gateways, first)


@contextmanager
def as_processes(version: str, directory: Path) -> Iterator[Deployment]:
    """Everything on this machine."""
    with ExitStack() as stack:
        broker = stack.enter_context(PulsarStandalone(version, data=directory / "pulsar"))
        first, second = (
            stack.enter_context(
                KeylineGateway(
                    broker.service_url, broker.admin_url, directory / name, settings={"replica_name": name, **SETTINGS}
                )
            )
            for name in REPLICAS
        )
        yield Deployment(broker, (first, second))


@contextmanager
def as_containers(version: str, _directory: Path) -> Iterator[Deployment]:
    """Everything in containers, the gateway as the chart deploys it.

    Raises:
        ToolMissingError: there is no Docker here, and none can be started.
    """
    with ExitStack() as stack:
        client = stack.enter_context(docker_daemon())
        images = build_keyline(client), ensure_pulsar(client, version)
        network = stack.enter_context(Network())
        broker = stack.enter_context(PulsarContainer(images[1], network, version=version))
        first, second = (
            stack.enter_context(KeylineContainer(images[0], network, broker, alias=name, settings=SETTINGS))
            for name in REPLICAS
        )
        yield Deployment(broker, (first, second))
