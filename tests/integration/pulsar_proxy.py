"""Pulsar's own proxy in front of a broker with tokens, from the tools' published artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from integration.java_proxy import java_proxy

if TYPE_CHECKING:
    from pathlib import Path

    from integration.secured import SecuredPulsar


@contextmanager
def pulsar_proxy(broker: SecuredPulsar, directory: Path, role: str) -> Iterator[str]:
    """Run it in this role, which must be among the broker's `proxyRoles`; gives its service URL."""
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": broker.settings["tokenSecretKey"],
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{broker.token(role)}",
    }
    with java_proxy(broker, directory, settings) as proxy:
        yield proxy.service_url
