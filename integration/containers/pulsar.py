"""A broker in a container, from the published image or one that was built here: both are called in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx

from integration.containers.container import Container
from integration.ports import LOOPBACK
from integration.readiness import broker_answers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from testcontainers.core.network import Network

    from integration.certificates import Signed

PORT: Final = 6650
TLS_PORT: Final = 6651
WEB_PORT: Final = 8080
ADMIN_S_MAX: Final = 30.0
COMMAND: Final = "bin/apply-config-from-env.py conf/standalone.conf && exec bin/pulsar standalone --no-functions-worker"
SECRETS: Final = "/pulsar/secrets"


class PulsarContainer(Container):
    """One standalone broker."""

    def __init__(
        self,
        image: str,
        network: Network,
        *,
        version: str,
        alias: str = "pulsar",
        settings: Mapping[str, str] | None = None,
        token: str | None = None,
        tls: Signed | None = None,
    ) -> None:
        """Describe it.

        Args:
            image: of a broker.
            network: that it joins, by the name `alias`.
            version: that the image is said to have.
            alias: the name by which containers reach it.
            settings: lines of its configuration.
            token: of a superuser, for a broker whose settings demand one.
            tls: what it shows on its second port, if it should have one.
        """
        self.version = version
        self.admin_headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        files: dict[Path, str] = {}
        values = {"advertisedAddress": "localhost", "brokerDeleteInactiveTopicsEnabled": "false", **(settings or {})}
        if tls is not None:
            files = {tls.certificate: f"{SECRETS}/tls.crt", tls.key: f"{SECRETS}/tls.key"}
            values |= {
                "brokerServicePortTls": str(TLS_PORT),
                "tlsCertificateFilePath": f"{SECRETS}/tls.crt",
                "tlsKeyFilePath": f"{SECRETS}/tls.key",
            }
        super().__init__(
            image,
            (PORT, TLS_PORT, WEB_PORT),
            self._answers,
            network=network,
            alias=alias,
            command=("sh", "-c", COMMAND),
            environment={f"PULSAR_PREFIX_{name}": value for name, value in values.items()},
            files=files,
        )

    @property
    def service_url(self) -> str:
        """For clients on this machine."""
        return f"pulsar://{LOOPBACK}:{self.ports[PORT]}"

    @property
    def tls_url(self) -> str:
        """Likewise, with TLS."""
        return f"pulsar+ssl://localhost:{self.ports[TLS_PORT]}"

    @property
    def admin_url(self) -> str:
        """Root of the admin API on this machine, without a slash at its end."""
        return f"http://{LOOPBACK}:{self.ports[WEB_PORT]}"

    def admin(self, timeout_s: float = ADMIN_S_MAX) -> httpx.Client:
        """For the admin API, with a superuser's rights; to be closed by the caller."""
        return httpx.Client(base_url=self.admin_url, headers=self.admin_headers, timeout=timeout_s, trust_env=False)

    def _answers(self) -> bool:
        with self.admin() as http:
            return broker_answers(http)
