"""Pulsar's own proxy in front of a broker with tokens, from the tools' published artifacts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from integration import artifacts
from integration.java import java_command
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from pathlib import Path

    from integration.secured import SecuredPulsar

START_S_MAX: Final = 180.0
STOP_S_MAX: Final = 20.0
LOOK_S: Final = 0.2


@contextmanager
def pulsar_proxy(broker: SecuredPulsar, directory: Path, role: str) -> Iterator[str]:
    """Run it in this role, which must be among the broker's `proxyRoles`; gives its service URL."""
    port, web_port = free_ports(2)
    lines = {
        "clusterName": "standalone",
        "brokerServiceURL": broker.service_url,
        "brokerWebServiceURL": broker.admin_url,
        "bindAddress": LOOPBACK,
        "advertisedAddress": LOOPBACK,
        "servicePort": str(port),
        "webServicePort": str(web_port),
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": broker.settings["tokenSecretKey"],
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{broker.token(role)}",
    }
    configuration = directory / "proxy.conf"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    libraries = artifacts.ensure(artifacts.TOOLS)
    main = "org.apache.pulsar.proxy.server.ProxyServiceStarter"
    command = java_command(main, libraries, "--config", str(configuration), heap_mib=256, direct_mib=256)
    process = OwnedProcess(command, directory / "proxy.log")
    try:
        _wait_for(port, process)
        yield f"pulsar://{LOOPBACK}:{port}"
    finally:
        process.stop(STOP_S_MAX)


def _wait_for(port: int, process: OwnedProcess) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline and process.running:
        with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        time.sleep(LOOK_S)
    message = f"the proxy does not serve:\n{tail(process.log)}"
    raise AssertionError(message)
