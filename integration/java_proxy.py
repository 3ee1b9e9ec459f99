"""Pulsar's own proxy, in Java, in front of a broker: the other thing that may stand between it and its clients."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from integration import artifacts
from integration.errors import StartError
from integration.java import java_command
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from integration.standalone import PulsarStandalone

HEAP_MIB: Final = 256
START_S_MAX: Final = 180.0
STOP_S_MAX: Final = 20.0
LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class JavaProxy:
    """A running one."""

    service_url: str
    pid: int


@contextmanager
def java_proxy(
    broker: PulsarStandalone, directory: Path, settings: Mapping[str, str] | None = None, heap_mib: int = HEAP_MIB
) -> Iterator[JavaProxy]:
    """Run it until the block is left, with `settings` as further lines of its `proxy.conf`.

    Raises:
        StartError: it did not serve in time; the text has the end of its log.
    """
    port, web_port = free_ports(2)
    lines = {
        "clusterName": "standalone",
        "brokerServiceURL": broker.service_url,
        "brokerWebServiceURL": broker.admin_url,
        "bindAddress": LOOPBACK,
        "advertisedAddress": LOOPBACK,
        "servicePort": str(port),
        "webServicePort": str(web_port),
        **(settings or {}),
    }
    configuration = directory / "proxy.conf"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    libraries = artifacts.ensure(artifacts.TOOLS)
    main = "org.apache.pulsar.proxy.server.ProxyServiceStarter"
    command = java_command(main, libraries, "--config", str(configuration), heap_mib=heap_mib, direct_mib=heap_mib)
    process = OwnedProcess(command, directory / "proxy.log")
    try:
        _wait_for(port, process)
        yield JavaProxy(f"pulsar://{LOOPBACK}:{port}", process.pid)
    finally:
        process.stop(STOP_S_MAX)


def _wait_for(port: int, process: OwnedProcess) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline and process.running:
        with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        time.sleep(LOOK_S)
    raise StartError(f"Pulsar's proxy does not serve; end of {process.log}:\n{tail(process.log)}")
