"""A network namespace for a node, and a cable to it: what a cluster does to interfaces and firewalls stays inside.

This machine reaches pods and Services by routes over the cable, as another machine of the node's network would.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from integration.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE: Final = "keyline-node"
HERE: Final = "172.30.254.1"
NODE: Final = "172.30.254.2"
"""The node's address, on which its programs listen."""
PODS: Final = "10.244.0.0/16"
PODS_HERE: Final = "10.244.0.0/24"
"""Those of the one node."""
SERVICES: Final = "10.96.0.0/16"
API: Final = "10.96.0.1"
"""The Service of the API server: the first address of all."""
DNS: Final = NODE
INSIDE: Final = ("nsenter", f"--net=/run/netns/{NAMESPACE}")
"""Before a command that is to run at the node."""
_FORWARD: Final = ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")


@contextmanager
def node_network() -> Iterator[None]:
    """As long as the block lasts.

    Raises:
        StartError: the machine does not allow it.
    """
    _remove()  # of one that was killed
    try:
        _make()
        yield
    finally:
        _remove()


def _make() -> None:
    _ip("netns", "add", NAMESPACE)
    _ip("link", "add", NAMESPACE, "type", "veth", "peer", "name", "eth0", "netns", NAMESPACE)
    _ip("address", "add", f"{HERE}/30", "dev", NAMESPACE)
    _ip("link", "set", NAMESPACE, "up")
    for words in (["address", "add", f"{NODE}/30", "dev", "eth0"], ["link", "set", "eth0", "up"]):
        _ip("-n", NAMESPACE, *words)
    _ip("-n", NAMESPACE, "link", "set", "lo", "up")
    _ip("-n", NAMESPACE, "route", "add", "default", "via", HERE)
    _run([*INSIDE, "sysctl", "--quiet", "--write", *_FORWARD])
    for network in (PODS, SERVICES):
        _ip("route", "add", network, "via", NODE)


def _remove() -> None:
    """Routes go with the cable, and the cable with either end."""
    for words in (["netns", "delete", NAMESPACE], ["link", "delete", NAMESPACE]):
        _ip(*words, check=False)


def _ip(*words: str, check: bool = True) -> None:
    _run(["ip", *words], check=check)


def _run(command: list[str], *, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise StartError(f"a network for a cluster: {' '.join(command)}: {done.stderr.strip()}")
