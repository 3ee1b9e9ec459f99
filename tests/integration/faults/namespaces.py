"""A broker and a gateway in network namespaces of their own, and the wires between them and us.

    us ---- gateway ---- broker ---- us        (our second wire is for producers and the admin API)

Each wire is a pair of virtual interfaces. Taking the far end down is a partition: packets are lost without a word, as
on a dead cable, with the kernel's real retransmissions behind it. Servers listen on an address of their namespace's
own loopback interface, which only the wires lead to; nothing outside of this machine does.

Needs root and a kernel that grants it; where not, `NamespacesRefused` says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from integration.gateway import START_S_MAX, KeylineGateway
from integration.ports import free_ports
from integration.processes import OwnedProcess
from integration.standalone import PulsarStandalone

NETWORKS: Final = "198.18"
"""The block that RFC 2544 sets aside for tests between two subnets."""
RUNS_MAX: Final = 63
"""Test runs on one machine at a time, each with four networks of its own."""


class NamespacesRefused(Exception):
    """The kernel, or the lack of rights or tools, does not let us; the text is what it said."""


class Wire:
    """Two ends in two namespaces; None is our own."""

    def __init__(self, name: str, left: str | None, right: str | None, network: str) -> None:
        """Lay it; both ends are up."""
        self._right = right
        self._right_end = f"{name}r"
        self.left_address, self.right_address = f"{network}.1", f"{network}.2"
        ip("link", "add", f"{name}l", "type", "veth", "peer", "name", self._right_end)
        for end, inside, address in ((f"{name}l", left, self.left_address), (f"{name}r", right, self.right_address)):
            if inside is not None:
                ip("link", "set", end, "netns", inside)
            ip("address", "add", f"{address}/30", "dev", end, inside=inside)
            ip("link", "set", end, "up", inside=inside)

    def tear(self) -> None:
        """Lose everything that is sent over it, both ways, without telling the left side."""
        ip("link", "set", self._right_end, "down", inside=self._right)

    def mend(self) -> None:
        """Undo `tear`."""
        ip("link", "set", self._right_end, "up", inside=self._right)


class Namespaces:
    """Two namespaces and three wires."""

    def __init__(self) -> None:
        """Nothing is made yet."""
        self._stem = f"k{os.getpid() % 1_000_000}"
        self.gateway, self.broker = f"{self._stem}-gateway", f"{self._stem}-broker"
        first = 4 * (os.getpid() % RUNS_MAX)
        networks = [f"{NETWORKS}.{number}" for number in range(first, first + 4)]
        self.broker_address, self.gateway_address = f"{networks[0]}.1", f"{networks[0]}.2"
        self._networks = networks[1:]
        self.to_gateway: Wire
        self.to_broker: Wire
        """Left: the gateway's end."""

    def make(self) -> None:
        """Make them.

        Raises:
            NamespacesRefused: see there; nothing is left behind.
        """
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove them, wires included."""
        for name in (self.gateway, self.broker):
            try:
                ip("netns", "delete", name)
            except NamespacesRefused:
                continue  # it was not made

    def _make(self) -> None:
        for name, address in ((self.gateway, self.gateway_address), (self.broker, self.broker_address)):
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", inside=name)
            ip("address", "add", f"{address}/32", "dev", "lo", inside=name)
        self.to_gateway = Wire(f"{self._stem}g", None, self.gateway, self._networks[0])
        self.to_broker = Wire(f"{self._stem}b", self.gateway, self.broker, self._networks[1])
        ours = Wire(f"{self._stem}p", None, self.broker, self._networks[2])
        ip("route", "add", self.gateway_address, "via", self.to_gateway.right_address)
        ip("route", "add", self.broker_address, "via", ours.right_address)
        ip("route", "add", self.broker_address, "via", self.to_broker.right_address, inside=self.gateway)


class BrokerElsewhere(PulsarStandalone):
    """A broker in its namespace."""

    def __init__(self, namespaces: Namespaces, data: Path, settings: dict[str, str]) -> None:
        """Describe it; nothing is started yet."""
        self._namespace, self._address = namespaces.broker, namespaces.broker_address
        where = {"bindAddress": self._address, "advertisedAddress": self._address}
        super().__init__(data=data, settings=settings | where)

    @property
    def service_url(self) -> str:
        """What clients of the binary protocol connect to."""
        return f"pulsar://{self._address}:{self.port}"

    @property
    def admin_url(self) -> str:
        """Root of the admin API."""
        return f"http://{self._address}:{self.web_port}"

    def _command(self, libraries: Path) -> list[str]:
        return ["ip", "netns", "exec", self._namespace, *super()._command(libraries)]


class GatewayElsewhere(KeylineGateway):
    """A gateway in its namespace."""

    def __init__(
        self, namespaces: Namespaces, broker: PulsarStandalone, directory: Path, settings: dict[str, str]
    ) -> None:
        """Describe it; nothing is started yet."""
        self._namespace, self._address = namespaces.gateway, namespaces.gateway_address
        port, admin_port = free_ports(2)
        where = {"listen": f"{self._address}:{port}", "admin_listen": f"{self._address}:{admin_port}"}
        super().__init__(
            broker.service_url,
            broker.admin_url,
            directory,
            port=port,
            admin_port=admin_port,
            settings=settings | where,
        )

    @property
    def service_url(self) -> str:
        """What clients connect to."""
        return f"pulsar://{self._address}:{self.port}"

    @property
    def admin_url(self) -> str:
        """Root of its admin API."""
        return f"http://{self._address}:{self.admin_port}"

    def start(self, timeout_s: float = START_S_MAX) -> Self:
        """Start it and return when it is ready."""
        program = Path(sys.executable).with_name("keyline")
        command = ["ip", "netns", "exec", self._namespace, str(program), "serve"]
        self._process = OwnedProcess(command, self.log, environment=self._environment)
        self._wait_ready(timeout_s)
        return self


def ip(*arguments: str, inside: str | None = None) -> None:
    """Run `ip`, in a namespace if one is named.

    Raises:
        NamespacesRefused: it failed, or is not there.
    """
    program = shutil.which("ip")
    if program is None:
        raise NamespacesRefused("there is no program `ip` (Debian's iproute2)")
    where = [] if inside is None else ["-netns", inside]
    done = subprocess.run([program, *where, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise NamespacesRefused(f"ip {' '.join([*where, *arguments])}: {done.stderr.strip()}")
