"""Runs the gateway in a container as it is deployed: without privileges, on a read-only file system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

from integration.asked_gateway import FRESH, AskedGateway
from integration.containers.container import Container
from integration.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from testcontainers.core.network import Network

    from integration.containers.pulsar import PulsarContainer

PORT: Final = 6660
ADMIN_PORT: Final = 8750
PROBE_S_MAX: Final = 5.0
ANSWER_S_MAX: Final = 30.0
"""As of a gateway that is a process."""
AS_DEPLOYED: Final[Mapping[str, Any]] = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "mem_limit": "1g",
}
"""What the chart's security contexts say."""


class KeylineContainer(AskedGateway, Container):
    """One gateway."""

    def __init__(
        self,
        image: str,
        network: Network,
        broker: PulsarContainer,
        *,
        alias: str = "keyline",
        settings: Mapping[str, str] | None = None,
        files: Mapping[Path, str] | None = None,
    ) -> None:
        """Describe it.

        Args:
            image: of the gateway.
            network: that it joins, by the name `alias`; the broker must be there.
            broker: behind it.
            alias: its host's name, and the replica's.
            settings: by their names in the configuration.
            files: of this machine, with their paths inside.
        """
        values = {
            "broker_url": f"pulsar://{broker.alias}:6650",
            "broker_admin_url": f"http://{broker.alias}:8080",
            "replica_name": alias,
            **(settings or {}),
        }
        environment = {f"KEYLINE_{name.upper()}": value for name, value in values.items()}
        super().__init__(
            image,
            (PORT, ADMIN_PORT),
            self._is_ready,
            network=network,
            alias=alias,
            environment=environment,
            files=files,
            options=AS_DEPLOYED,
        )
        self._http = httpx.Client(base_url=self.admin_url, timeout=ANSWER_S_MAX, trust_env=False, limits=FRESH)

    @property
    def service_url(self) -> str:
        """For clients on this machine."""
        return f"pulsar://{LOOPBACK}:{self.ports[PORT]}"

    @property
    def admin_url(self) -> str:
        """Root of its admin API on this machine, without a slash at its end."""
        return f"http://{LOOPBACK}:{self.ports[ADMIN_PORT]}"

    @property
    def port(self) -> int:
        """For clients on this machine."""
        return self.ports[PORT]

    def close(self) -> None:
        """Remove it, and let go of the connection to its admin API."""
        super().close()
        self._http.close()

    def _is_ready(self) -> bool:
        try:
            return self._http.get("/readyz", timeout=PROBE_S_MAX).is_success
        except httpx.TransportError:
            return False
