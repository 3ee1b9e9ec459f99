"""A broker whose every connection passes a fault proxy, and a line of gateway and workers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.faults.proxy import FaultProxy
from integration.gateway import KeylineGateway
from integration.ports import free_ports
from integration.standalone import PulsarStandalone
from tests.integration.faults.line import BROKER_KEEP_ALIVE_S, GATEWAY_SETTINGS, Line


@dataclass(frozen=True)
class FaultyBroker:
    """A broker and the network before it."""

    broker: PulsarStandalone
    network: FaultProxy


@pytest.fixture(scope="session")
def faulty_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    """Run a broker that advertises its proxy's address, so that what looks topics up is led through the proxy too.

    The newest version unless a test asks for others (`line.every_version`). It may be paused, never killed: it is
    shared by the folder's tests.
    """
    version = getattr(request, "param", PULSAR_VERSIONS[0])
    port, network_port = free_ports(2)
    settings = {
        "advertisedAddress": "",
        "advertisedListeners": f"network:pulsar://127.0.0.1:{network_port}",
        "keepAliveIntervalSeconds": str(BROKER_KEEP_ALIVE_S),
    }
    data = tmp_path_factory.mktemp("faulty-pulsar")
    with (
        FaultProxy(port, port=network_port) as network,
        PulsarStandalone(version, data=data, port=port, settings=settings) as broker,
    ):
        yield FaultyBroker(broker, network)


@pytest.fixture
def line(faulty_broker: FaultyBroker, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Line]:
    """Give a healthy line with a gateway of the test's own; faults end with the test."""
    broker, network = faulty_broker.broker, faulty_broker.network
    gateway = KeylineGateway(network.service_url, broker.admin_url, tmp_path / "gateway", settings=GATEWAY_SETTINGS)
    try:
        with gateway, FaultProxy(gateway.port) as worker_side:
            yield Line(broker, network, gateway, worker_side, tmp_path / "load", new_topic("faults"))
    finally:
        broker.resume()
        network.heal()
