"""The product as it is deployed, twice over: as processes of this machine, and as containers of its image.

Both give the same things, so that one story is told of both: a broker, two replicas in owner mode, and what an operator
does to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Protocol

import httpx
from testcontainers.core.network import Network

from integration.containers.daemon import docker_daemon
from integration.containers.images import build_keyline, ensure_pulsar
from integration.containers.keyline import KeylineContainer
from integration.containers.pulsar import PulsarContainer
from integration.gateway import service_url_of
from integration.replicas import SECRET_BYTES, Replicas
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import settle

REPLICAS = ("replica-0", "replica-1")
SECRET_INSIDE = "/run/keyline/replica-secret"


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
        replicas = Replicas(stack, broker, directory)
        replicas.start(len(REPLICAS))
        settle(replicas.gateways)
        first, second = replicas.gateways
        yield Deployment(broker, (first, second))


@contextmanager
def as_containers(version: str, directory: Path) -> Iterator[Deployment]:
    """Everything in containers, the gateway as the chart deploys it.

    Raises:
        ToolMissingError: there is no Docker here, and none can be started.
    """
    with ExitStack() as stack:
        client = stack.enter_context(docker_daemon())
        images = build_keyline(client), ensure_pulsar(client, version)
        network = stack.enter_context(Network())
        secret = directory / "replica-secret"
        secret.write_text(token_urlsafe(SECRET_BYTES))
        secret.chmod(0o644)  # the process inside is another user
        broker = stack.enter_context(PulsarContainer(images[1], network, version=version))
        first, second = (
            stack.enter_context(
                KeylineContainer(
                    images[0],
                    network,
                    broker,
                    alias=name,
                    settings={
                        "groups_enabled": "true",
                        "replica_listen": "0.0.0.0:6670",
                        "replica_address": f"{name}:6670",
                        "replica_secret_file": SECRET_INSIDE,
                    },
                    files={secret: SECRET_INSIDE},
                )
            )
            for name in REPLICAS
        )
        settle((first, second))
        yield Deployment(broker, (first, second))
